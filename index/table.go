package index

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sort"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
)

// Version is the version of indexes and summaries that this code writes.
const Version = 1

// ErrDamaged reports an index that contradicts itself or its block. The way
// out is to delete it: it is built again.
var ErrDamaged = errors.New("index is damaged")

// tableKey is the key of the table in the parquet file's metadata.
const tableKey = "siltstone"

// table is what the metadata of an index says: whose index it is, and where
// the frames of the block lie.
type table struct {
	Version int     `json:"version"`
	Block   of      `json:"block"`
	Frames  []frame `json:"frames"`
}

// of names a block beyond doubt.
type of struct {
	File   string `json:"file"`
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

func ofBlock(b catalog.Block) of {
	return of{File: b.File, Rows: b.Rows, Bytes: b.Bytes, SHA256: b.SHA256}
}

// frame is written as [offset, length, rows, "first id"]: a block has hundreds
// of frames, and the table is read before anything else.
type frame block.Frame

// MarshalJSON writes the short form.
func (f frame) MarshalJSON() ([]byte, error) {
	return plainJSON([]any{f.Offset, f.Length, f.Rows, f.FirstID})
}

// UnmarshalJSON reads the short form.
func (f *frame) UnmarshalJSON(b []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	if len(parts) < 4 {
		return fmt.Errorf("a frame of %d parts", len(parts))
	}
	for i, to := range []any{&f.Offset, &f.Length, &f.Rows, &f.FirstID} {
		if err := json.Unmarshal(parts[i], to); err != nil {
			return err
		}
	}
	return nil
}

// plainJSON leaves <, > and & as they are: ids are for people to read.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func (t table) encode() (string, error) {
	if t.Frames == nil {
		t.Frames = []frame{}
	}
	b, err := plainJSON(t)
	return string(b), err
}

// parseTable reads what encode gives and refuses what no block can have.
func parseTable(s string) (table, error) {
	var t table
	if err := json.Unmarshal([]byte(s), &t); err != nil {
		return table{}, fmt.Errorf("%w: frame table: %w", ErrDamaged, err)
	}
	if t.Version > Version {
		return table{}, fmt.Errorf("index has version %d, this build knows %d: use a newer siltstone", t.Version, Version)
	}
	if err := t.check(); err != nil {
		return table{}, fmt.Errorf("%w: frame table: %w", ErrDamaged, err)
	}
	return t, nil
}

func (t table) check() error {
	var end, rows int64
	for i, f := range t.Frames {
		switch {
		case f.Offset < end || f.Length <= 0 || f.Length > t.Block.Bytes || f.Offset > t.Block.Bytes-f.Length:
			return fmt.Errorf("frame %d is at %d+%d, after %d of %d bytes", i, f.Offset, f.Length, end, t.Block.Bytes)
		case f.Rows <= 0 || f.Rows > t.Block.Rows-rows:
			return fmt.Errorf("frame %d has %d rows, after %d of %d", i, f.Rows, rows, t.Block.Rows)
		case i > 0 && f.FirstID <= t.Frames[i-1].FirstID:
			return fmt.Errorf("frame %d starts with %q, the one before with %q", i, f.FirstID, t.Frames[i-1].FirstID)
		}
		end, rows = f.Offset+f.Length, rows+f.Rows
	}
	if rows != t.Block.Rows {
		return fmt.Errorf("%d rows in all frames, %d in the block", rows, t.Block.Rows)
	}
	return nil
}

// starts gives the number of the first row of each frame.
func (t table) starts() []int64 {
	starts := make([]int64, len(t.Frames))
	var n int64
	for i, f := range t.Frames {
		starts[i] = n
		n += f.Rows
	}
	return starts
}

// holding is the only frame that can hold the id; ok is false for an id before
// the first.
func (t table) holding(id string) (n int, ok bool) {
	n = sort.Search(len(t.Frames), func(i int) bool { return t.Frames[i].FirstID > id }) - 1
	return n, n >= 0
}
