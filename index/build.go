package index

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// MaxRows is the largest block that gets an index. Blocks of siltstone have
// 50,000 rows; one of another tool may have any number, and its index would
// have to be held in memory.
const MaxRows = 1 << 20

// ErrNoIndex says that a block cannot have an index: it has no number, is not
// sorted by id, or is too large. It is read whole.
var ErrNoIndex = errors.New("block cannot be indexed")

// Key is the key of the index of a block. It fails with ErrNoIndex for a block
// that cannot have one.
func Key(b dataset.BatchID, bl catalog.Block) (string, error) {
	n, ok := number(b, bl)
	switch {
	case !ok:
		return "", fmt.Errorf("%s: %w: it is no numbered block", b.BlockKey(bl.File), ErrNoIndex)
	case bl.Rows > MaxRows:
		return "", fmt.Errorf("%s: %w: %d rows, at most %d", b.BlockKey(bl.File), ErrNoIndex, bl.Rows, MaxRows)
	}
	return b.IndexKey(n), nil
}

// number is a block's number; ok is false for a file of another kind.
func number(b dataset.BatchID, bl catalog.Block) (n int, ok bool) {
	k := dataset.ParseKey(b.BlockKey(bl.File))
	return k.Number, k.Kind == dataset.KindBlock && (bl.File == dataset.BlockFile(k.Number) || bl.File == dataset.ParquetBlockFile(k.Number))
}

// Build reads a block once and stores its index. An index that is there
// already stays: whoever made it wrote the same bytes. The errors to tell apart
// are objstore.ErrNotFound for a block that was replaced meanwhile, ErrNoIndex,
// and block.ErrDamaged.
func Build(ctx context.Context, s objstore.Store, b dataset.BatchID, bl catalog.Block) error {
	key, err := Key(b, bl)
	if err != nil {
		return err
	}
	raw, err := derive(ctx, s, b, bl)
	if err != nil {
		return fmt.Errorf("index %s: %w", b.BlockKey(bl.File), err)
	}
	if _, err := s.Put(ctx, key, raw, objstore.IfAbsent()); err != nil && !errors.Is(err, objstore.ErrLost) {
		return fmt.Errorf("store index %s: %w", key, err)
	}
	return nil
}

// derive makes the bytes of an index from its block.
func derive(ctx context.Context, s objstore.Store, b dataset.BatchID, bl catalog.Block) ([]byte, error) {
	c, err := newColumns()
	if err != nil {
		return nil, err
	}
	frames, err := scan(ctx, s, b, bl, func(r dataset.Row) error { return c.add(r.ID, r.CreatedAt) })
	if err != nil {
		return nil, err
	}
	t := table{Version: Version, Block: ofBlock(bl)}
	for _, f := range frames {
		t.Frames = append(t.Frames, frame(f))
	}
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", block.ErrDamaged, err)
	}
	return c.finish(t)
}

// scan reads a block once, from one request, for its rows and for its frames.
// The rows are proven when it returns without an error, not before.
func scan(ctx context.Context, s objstore.Store, b dataset.BatchID, bl catalog.Block, row func(dataset.Row) error) ([]block.Frame, error) {
	if dataset.IsParquetBlock(bl.File) {
		at := objstore.NewAt(ctx, s, b.BlockKey(bl.File), bl.Bytes, true)
		defer at.Close()
		in := block.NewParquetReader(at, bl.Bytes, wantOf(bl))
		if err := rows(in, row); err != nil {
			return nil, err
		}
		return in.Frames(), nil
	}
	body, _, err := s.Get(ctx, b.BlockKey(bl.File), objstore.Span{})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	pr, pw := io.Pipe()
	type result struct {
		frames []block.Frame
		err    error
	}
	scanned := make(chan result, 1)
	go func() {
		frames, err := block.ScanFrames(pr)
		// An error that the other reader will meet as well must not stop it.
		_, _ = io.Copy(io.Discard, pr)
		scanned <- result{frames, err}
	}()
	err = rows(block.NewReader(io.TeeReader(body, pw), wantOf(bl)), row)
	pw.CloseWithError(err) // nil ends the scan with io.EOF
	res := <-scanned
	if err != nil {
		return nil, err
	}
	return res.frames, res.err
}

// wantOf is what the record says of a block, nil where it says nothing.
func wantOf(bl catalog.Block) *block.Want {
	if bl.SHA256 == "" {
		return nil
	}
	return &block.Want{Rows: bl.Rows, Bytes: bl.Bytes, SHA256: bl.SHA256}
}

func rows(in block.Stream[dataset.Row], row func(dataset.Row) error) error {
	var n int64
	last := ""
	for {
		r, err := in.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case r.ID == "" || n > 0 && r.ID <= last:
			return fmt.Errorf("%w: row %d has id %q after %q", ErrNoIndex, n+1, r.ID, last)
		case n == MaxRows:
			return fmt.Errorf("%w: more than %d rows", ErrNoIndex, MaxRows)
		}
		if err := row(r); err != nil {
			return err
		}
		last = r.ID
		n++
	}
}
