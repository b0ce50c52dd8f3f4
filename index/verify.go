package index

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// Verify compares the index of a block with the block itself, row by row. It
// gives ErrDamaged where they differ, and objstore.ErrNotFound where the block
// has no index.
func Verify(ctx context.Context, s objstore.Store, b dataset.BatchID, bl catalog.Block) error {
	x, err := Open(ctx, s, b, bl)
	if err != nil {
		return err
	}
	next, stop := iter.Pull2(x.Entries(ctx))
	defer stop()
	var n int64
	frames, err := scan(ctx, s, b, bl, func(r dataset.Row) error {
		e, err, ok := next()
		want := Entry{ID: r.ID, Frame: x.FrameOf(n)}
		if !r.CreatedAt.IsZero() {
			want.CreatedAt = r.CreatedAt.UTC().Truncate(1000)
		}
		switch {
		case !ok:
			return fmt.Errorf("%w: it ends after %d rows", ErrDamaged, n)
		case err != nil:
			return err
		case e.ID != want.ID || e.Frame != want.Frame || !e.CreatedAt.Equal(want.CreatedAt):
			return fmt.Errorf("%w: row %d is %+v, the block says %+v", ErrDamaged, n, e, want)
		}
		n++
		return nil
	})
	if err == nil {
		err = sameFrames(x.Frames(), frames)
	}
	if errors.Is(err, block.ErrDamaged) || err == nil {
		return err
	}
	return fmt.Errorf("verify index of %s: %w", b.BlockKey(bl.File), err)
}

func sameFrames(have, want []block.Frame) error {
	if len(have) != len(want) {
		return fmt.Errorf("%w: %d frames, the block has %d", ErrDamaged, len(have), len(want))
	}
	for i, f := range have {
		if f != want[i] {
			return fmt.Errorf("%w: frame %d is %+v, the block says %+v", ErrDamaged, i, f, want[i])
		}
	}
	return nil
}
