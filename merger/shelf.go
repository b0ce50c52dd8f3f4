package merger

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
)

// newRow is the origin of rows that no block holds yet.
const newRow = -1

// shelf builds blocks from rows in order, each on disk until it is whole, and
// stores them. What comes out exactly as an old block was is not stored again.
type shelf struct {
	ctx    context.Context
	dir    string
	level  int
	kind   kind // of new blocks
	limits Limits
	files  *numbers
	old    []catalog.Block // by origin

	pool    *block.Compressors // nil: rows are compressed as they come
	done    []*catalog.Block
	uploads *errgroup.Group // nil: one after the other
	written func(b catalog.Block)

	held   *scratch
	w      blockWriter
	load   Load
	origin int  // of the block's first row
	mixed  bool // there are rows of another origin in it
}

// uploadsAtOnce bounds the finished blocks that wait on disk.
const uploadsAtOnce = 3

// add puts a row into the block at hand, or into a new one where that is full.
// origin is the index of the old block that holds the row.
func (s *shelf) add(r dataset.Row, origin int) error {
	size := int64(len(r.Raw)) + 1
	if s.w != nil && (s.load.Rows >= s.limits.Rows || s.load.Bytes+size > s.limits.Bytes) {
		if err := s.cut(); err != nil {
			return err
		}
	}
	if s.w == nil {
		s.start(origin)
	}
	s.mixed = s.mixed || origin != s.origin
	s.load = s.load.plus(Load{1, size})
	return s.w.Add(r)
}

func (s *shelf) start(origin int) {
	s.held = newScratch(s.dir)
	switch {
	case s.kind == parquetBlocks:
		s.w = block.NewParquetWriter(s.held, s.dir)
	case s.pool != nil:
		s.w = s.pool.NewWriter(s.held)
	default:
		s.w = block.NewWriter(s.held, s.level)
	}
	s.load, s.mixed, s.origin = Load{}, false, origin
}

// cut ends the block at hand, if there is one.
func (s *shelf) cut() error {
	if s.w == nil {
		return nil
	}
	held := s.held
	var body io.ReadSeeker
	info, err := s.w.Close()
	if err == nil {
		body, err = held.reader()
	}
	s.w, s.held = nil, nil
	if err != nil {
		held.close()
		return fmt.Errorf("build block: %w", err)
	}
	if s.origin != newRow && !s.mixed && info.Rows == s.old[s.origin].Rows && info.Rows > 0 &&
		dataset.IsParquetBlock(s.old[s.origin].File) == (s.kind == parquetBlocks) {
		held.close()
		s.done = append(s.done, &s.old[s.origin])
		return nil
	}
	b := &catalog.Block{Rows: info.Rows, Bytes: info.Bytes, RawBytes: info.RawBytes,
		FirstID: info.FirstID, LastID: info.LastID, SHA256: info.SHA256}
	s.done = append(s.done, b)
	store := func() error {
		defer held.close()
		n, err := s.files.create(s.ctx, func(n int) string { return s.files.batch.BlockKey(s.kind.file(n)) }, body, info.Bytes)
		if err == nil {
			b.File = s.kind.file(n)
			s.written(*b)
		}
		return err
	}
	if s.uploads == nil {
		return store()
	}
	s.uploads.Go(store)
	return s.ctx.Err() // of an upload that failed
}

// empty stores a block without rows.
func (s *shelf) empty() error {
	s.start(newRow)
	return s.cut()
}

// finish stores what is left and gives all blocks.
func (s *shelf) finish() ([]catalog.Block, error) {
	err := s.cut()
	if s.uploads != nil {
		if uerr := s.uploads.Wait(); uerr != nil {
			err = uerr // the cause of a cancelled context
		}
	}
	if err != nil {
		return nil, err
	}
	blocks := make([]catalog.Block, len(s.done))
	for i, b := range s.done {
		blocks[i] = *b
	}
	return blocks, nil
}

// abandon lets go of the block at hand; uploads under way are waited for.
func (s *shelf) abandon() error {
	if s.held != nil {
		if w, ok := s.w.(*block.ParquetWriter); ok {
			w.Discard()
		}
		s.held.close()
		s.w, s.held = nil, nil
	}
	if s.uploads != nil {
		return s.uploads.Wait()
	}
	return nil
}
