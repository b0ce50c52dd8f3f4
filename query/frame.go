package query

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/index"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/cache"
)

// keepFrame is the largest frame that is kept on disk. Frames of siltstone have
// some 50 KB; one of another tool may be a whole file, which is streamed.
const keepFrame = 16 << 20

// blockOf is a block of a batch.
type blockOf struct {
	catalog.Block
	batch dataset.BatchID
}

func (b blockOf) key() string { return b.batch.BlockKey(b.File) }

// part names some of a block in a cache. Its content is named by the SHA-256 of
// the record; a file without one has a number, and these are never used again.
func (b blockOf) part(name string) cache.Key {
	return cache.Key{Object: b.key(), Version: b.SHA256, Part: name}
}

// frames gives the frame table of a block: from its index, or, while it has
// none, by reading the block once. A parquet block has it in its footer.
func (q *ask) frames(ctx context.Context, b blockOf) ([]block.Frame, error) {
	if dataset.IsParquetBlock(b.File) {
		p, err := q.parquet(ctx, b)
		if err != nil {
			return nil, err
		}
		return p.Frames(), nil
	}
	return q.e.tables.Get(ctx, b.part("frames"), func() ([]block.Frame, int64, error) {
		frames, err := q.keptFrames(ctx, b)
		return frames, sizeOfFrames(frames), err
	})
}

// sizeOfFrames is about what a frame table takes in memory.
func sizeOfFrames(frames []block.Frame) int64 { return int64(200 + 100*len(frames)) }

func (q *ask) keptFrames(ctx context.Context, b blockOf) ([]block.Frame, error) {
	raw, err := q.e.kept(ctx, b.part("frames"), func() ([]byte, error) {
		frames, err := q.indexedFrames(ctx, b)
		if errors.Is(err, errNoTable) {
			frames, err = q.scanFrames(ctx, b)
		}
		if err != nil {
			return nil, err
		}
		return json.Marshal(frames)
	})
	if err != nil {
		return nil, err
	}
	var frames []block.Frame
	if err := json.Unmarshal(raw, &frames); err != nil {
		return nil, fmt.Errorf("%w: frame table of %s: %w", ErrDamaged, b.key(), err)
	}
	return frames, nil
}

// errNoTable says that a block has no index that can be used.
var errNoTable = errors.New("no frame table")

// indexedFrames reads the frame table from a block's index.
func (q *ask) indexedFrames(ctx context.Context, b blockOf) ([]block.Frame, error) {
	x, err := index.Open(ctx, q.store, b.batch, b.Block)
	if err != nil {
		for _, usual := range []error{objstore.ErrNotFound, objstore.ErrChanged, index.ErrNoIndex} {
			if errors.Is(err, usual) {
				return nil, errNoTable
			}
		}
		if errors.Is(err, index.ErrDamaged) {
			q.e.log.Warn("index cannot be used; its block is read whole instead", "block", b.key(), "error", err)
			return nil, errNoTable
		}
		return nil, err
	}
	frames := x.Frames()
	if err := checkFrames(b.Block, frames); err != nil {
		q.e.log.Warn("index cannot be used; its block is read whole instead", "block", b.key(), "error", err)
		return nil, errNoTable
	}
	return frames, nil
}

// scanFrames makes the frame table of a block by reading all of it, and checks
// it against its record on the way.
func (q *ask) scanFrames(ctx context.Context, b blockOf) ([]block.Frame, error) {
	body, err := openObject(ctx, q.store, b.key(), b.Bytes, true)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	sum := sha256.New()
	in := io.TeeReader(body, sum)
	frames, err := block.ScanFrames(in)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return nil, err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); b.SHA256 != "" && got != b.SHA256 {
		return nil, fmt.Errorf("%w: its SHA-256 is %s, the commit record says %s", block.ErrDamaged, got, b.SHA256)
	}
	return frames, checkFrames(b.Block, frames)
}

// checkFrames compares a frame table with what the record says of the block.
func checkFrames(b catalog.Block, frames []block.Frame) error {
	var rows, end int64
	last := ""
	for i, f := range frames {
		if f.Rows <= 0 || f.FirstID <= last || f.Offset < end || f.Length <= 0 {
			return fmt.Errorf("%w: frame %d is out of order", block.ErrDamaged, i)
		}
		rows, end, last = rows+f.Rows, f.Offset+f.Length, f.FirstID
	}
	switch {
	case rows != b.Rows || end > b.Bytes:
		return fmt.Errorf("%w: its frames have %d rows and end at byte %d, the commit record says %d rows, %d bytes",
			block.ErrDamaged, rows, end, b.Rows, b.Bytes)
	case rows > 0 && (frames[0].FirstID != b.FirstID || last > b.LastID):
		return fmt.Errorf("%w: its frames start with ids from %q to %q, the commit record says %q to %q",
			block.ErrDamaged, frames[0].FirstID, last, b.FirstID, b.LastID)
	}
	return nil
}

// holding is the only frame that can hold the id, or the first.
func holding(frames []block.Frame, id string) int {
	return max(0, sort.Search(len(frames), func(i int) bool { return frames[i].FirstID > id })-1)
}

// openFrame opens the bytes of a frame.
func (q *ask) openFrame(ctx context.Context, b blockOf, f block.Frame) (io.ReadCloser, error) {
	get := func() (io.ReadCloser, error) {
		body, info, err := q.store.Get(ctx, b.key(), objstore.Span{Offset: f.Offset, Length: f.Length})
		if err == nil && info.Size != b.Bytes {
			body.Close()
			err = fmt.Errorf("%w: it has %d bytes, the commit record says %d", block.ErrDamaged, info.Size, b.Bytes)
		}
		return body, err
	}
	if f.Length > keepFrame {
		return get()
	}
	raw, err := q.e.kept(ctx, b.part(cache.Range(f.Offset, f.Length)), func() ([]byte, error) {
		body, err := get()
		if err != nil {
			return nil, err
		}
		defer body.Close()
		raw := make([]byte, f.Length)
		_, err = io.ReadFull(body, raw)
		return raw, err
	})
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(raw)), nil
}

// frameRows calls row with each row of a frame, in order; it is valid during the
// call. All of the frame is read, so that its checksum is seen before any row
// of it is used.
func (q *ask) frameRows(ctx context.Context, b blockOf, frames []block.Frame, n int, row func(dataset.Row)) error {
	body, err := q.openFrame(ctx, b, frames[n])
	if err != nil {
		return err
	}
	defer body.Close()
	in, err := q.openRows(ctx, b, n, body)
	if err != nil {
		return err
	}
	var seen int64
	last := ""
	for {
		r, err := in.Next()
		switch {
		case err == io.EOF:
			if seen != frames[n].Rows || n+1 < len(frames) && last >= frames[n+1].FirstID || n+1 == len(frames) && last != b.LastID {
				return fmt.Errorf("%w: frame %d has %d rows up to id %q", block.ErrDamaged, n, seen, last)
			}
			return nil
		case err != nil:
			return err
		case seen == 0 && r.ID != frames[n].FirstID || r.ID <= last:
			return fmt.Errorf("%w: frame %d: id %q after %q", block.ErrDamaged, n, r.ID, last)
		}
		seen++
		last = r.ID
		row(r)
	}
}

// forget drops what is kept of a frame that proved to be wrong, and the frame
// table that led there.
func (q *ask) forget(b blockOf, f block.Frame) {
	q.e.tables.Drop(b.part("frames"))
	q.e.footers.Drop(b.part("footer"))
	if q.e.disk != nil {
		q.e.disk.Drop(b.part("footer"))
		q.e.disk.Drop(b.part("frames"))
		q.e.disk.Drop(b.part(cache.Range(f.Offset, f.Length)))
	}
}
