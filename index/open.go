package index

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/parquet-go/parquet-go"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// Index is an open index. All methods may be called from many goroutines.
type Index struct {
	t      table
	starts []int64 // the first row of each frame
	remote *remote
	file   *parquet.File
	chunks []*parquet.FileColumnChunk // of the one row group; none in an empty index

	id, created, frame int // columns
}

// Open opens the index of a block with one or two reads. objstore.ErrNotFound
// means that the block has none yet: then it is read whole.
func Open(ctx context.Context, s objstore.Store, b dataset.BatchID, bl catalog.Block) (*Index, error) {
	key, err := Key(b, bl)
	if err != nil {
		return nil, err
	}
	r, err := openRemote(ctx, s, key)
	if err != nil {
		return nil, fmt.Errorf("open index %s: %w", key, err)
	}
	x := &Index{remote: r}
	if err := x.open(ctx); err != nil {
		return nil, fmt.Errorf("open index %s: %w", key, err)
	}
	if x.t.Block != ofBlock(bl) {
		return nil, fmt.Errorf("open index %s: %w: it belongs to another block %s (%d rows, SHA-256 %s)",
			key, ErrDamaged, x.t.Block.File, x.t.Block.Rows, x.t.Block.SHA256)
	}
	return x, nil
}

func (x *Index) open(ctx context.Context) (err error) {
	defer recovered(&err)
	// The page index and the bloom filter are read when they are asked for.
	x.file, err = parquet.OpenFile(x.remote.during(ctx), x.remote.size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return damaged(err)
	}
	text, ok := x.file.Lookup(tableKey)
	if !ok {
		return fmt.Errorf("%w: no frame table", ErrDamaged)
	}
	if x.t, err = parseTable(text); err != nil {
		return err
	}
	x.starts = x.t.starts()
	if x.id, x.created, x.frame, err = columnsOf(x.file.Schema()); err != nil {
		return err
	}
	groups := x.file.RowGroups()
	if len(groups) > 1 || x.file.NumRows() != x.t.Block.Rows {
		return fmt.Errorf("%w: %d rows in %d groups, the block has %d", ErrDamaged, x.file.NumRows(), len(groups), x.t.Block.Rows)
	}
	for _, g := range groups {
		for _, c := range g.ColumnChunks() {
			f, ok := c.(*parquet.FileColumnChunk)
			if !ok {
				return fmt.Errorf("%w: a column that is not in the file", ErrDamaged)
			}
			x.chunks = append(x.chunks, f)
		}
	}
	return nil
}

// damaged tells an index that cannot be read from a store that cannot.
func damaged(err error) error {
	for _, store := range []error{objstore.ErrNotFound, objstore.ErrChanged, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, store) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// recovered turns a panic of the parquet reader, which trusts what it reads,
// into an error.
func recovered(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("%w: %v", ErrDamaged, v)
	}
}

// Rows is the number of rows of the block.
func (x *Index) Rows() int64 { return x.t.Block.Rows }

// Frames is the frame table of the block.
func (x *Index) Frames() []block.Frame {
	frames := make([]block.Frame, len(x.t.Frames))
	for i, f := range x.t.Frames {
		frames[i] = block.Frame(f)
	}
	return frames
}

// Frame gives the number of the only frame that can hold the id, and so the
// frame to start with when reading on from it; ok is false where the id comes
// before all of the block.
func (x *Index) Frame(id string) (n int, ok bool) { return x.t.holding(id) }

// Start is the number, within the block, of a frame's first row.
func (x *Index) Start(frame int) int64 { return x.starts[frame] }

// FrameOf is the number of the frame that holds the block's n-th row.
func (x *Index) FrameOf(row int64) int {
	return sort.Search(len(x.starts), func(i int) bool { return x.starts[i] > row }) - 1
}
