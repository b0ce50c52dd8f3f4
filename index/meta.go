package index

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// Meta sums up the indexes of a batch. It is derived and may be missing or of
// an earlier generation than the commit record, which alone says what is
// merged.
type Meta struct {
	Version    int         `json:"version"`
	Generation int64       `json:"generation"`
	Commit     string      `json:"commit"`
	Rows       int64       `json:"rows"`
	MinID      string      `json:"min_id"`
	MaxID      string      `json:"max_id"`
	Blocks     []MetaBlock `json:"blocks"`
}

// MetaBlock is a block of the batch.
type MetaBlock struct {
	File    string `json:"file"`
	Rows    int64  `json:"rows"`
	FirstID string `json:"first_id"`
	LastID  string `json:"last_id"`
	Indexed bool   `json:"indexed"`
}

// Summarize makes the summary of a record, given which blocks have an index.
func Summarize(r catalog.Record, have map[int]bool) Meta {
	b := r.ID()
	m := Meta{Version: Version, Generation: r.Generation, Commit: r.Commit, Blocks: []MetaBlock{}}
	if r.Deleted {
		return m
	}
	for _, bl := range r.Blocks {
		m.Rows += bl.Rows
		if bl.Rows > 0 {
			if m.MinID == "" || bl.FirstID < m.MinID {
				m.MinID = bl.FirstID
			}
			m.MaxID = max(m.MaxID, bl.LastID)
		}
		m.Blocks = append(m.Blocks, MetaBlock{File: bl.File, Rows: bl.Rows, FirstID: bl.FirstID, LastID: bl.LastID, Indexed: Has(have, b, bl)})
	}
	return m
}

// ReadMeta reads the summary of a batch; objstore.ErrNotFound means that there
// is none yet.
func ReadMeta(ctx context.Context, s objstore.Store, b dataset.BatchID) (Meta, error) {
	m, _, err := readMeta(ctx, s, b)
	return m, err
}

func readMeta(ctx context.Context, s objstore.Store, b dataset.BatchID) (Meta, string, error) {
	raw, info, err := objstore.ReadAll(ctx, s, b.IndexMetaKey())
	if err != nil {
		return Meta{}, "", fmt.Errorf("read %s: %w", b.IndexMetaKey(), err)
	}
	m, err := parseMeta(raw)
	if err != nil {
		return Meta{}, info.ETag, fmt.Errorf("%s: %w", b.IndexMetaKey(), err)
	}
	return m, info.ETag, nil
}

func parseMeta(raw []byte) (Meta, error) {
	var m Meta
	if err := json.Unmarshal(raw, &m); err != nil {
		return Meta{}, fmt.Errorf("%w: summary: %w", ErrDamaged, err)
	}
	if m.Version > Version {
		return Meta{}, fmt.Errorf("summary has version %d, this build knows %d: use a newer siltstone", m.Version, Version)
	}
	return m, nil
}

// PutMeta makes m the summary of a batch unless a later generation has one.
// Of several writers of one generation the last one stays: what it says was
// true a moment ago, and a reader that finds otherwise reads the block whole.
func PutMeta(ctx context.Context, s objstore.Store, b dataset.BatchID, m Meta) error {
	raw, err := plainJSON(m)
	if err != nil {
		return fmt.Errorf("encode summary: %w", err)
	}
	for range 10 {
		cond := objstore.IfAbsent()
		old, etag, err := readMeta(ctx, s, b)
		switch {
		case err == nil && (old.Generation > m.Generation || reflect.DeepEqual(old, m)):
			return nil
		case err == nil, errors.Is(err, ErrDamaged):
			cond = objstore.IfMatch(etag)
		case !errors.Is(err, objstore.ErrNotFound):
			return err
		}
		_, err = s.Put(ctx, b.IndexMetaKey(), raw, cond)
		if err == nil {
			return nil
		}
		if !errors.Is(err, objstore.ErrLost) && !errors.Is(err, objstore.ErrNotFound) && !errors.Is(err, objstore.ErrUnknown) {
			return fmt.Errorf("store %s: %w", b.IndexMetaKey(), err)
		}
	}
	return fmt.Errorf("store %s: %w ten times in a row", b.IndexMetaKey(), objstore.ErrLost)
}
