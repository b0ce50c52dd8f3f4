package merger

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
)

// newRow is the origin of rows that no block holds yet.
const newRow = -1

// shelf builds blocks from rows in order, each in a file on disk, and stores
// them. What comes out exactly as an old block was is not stored again.
type shelf struct {
	ctx    context.Context
	dir    string
	level  int
	limits Limits
	files  *numbers
	old    []catalog.Block // by origin

	done    []*catalog.Block
	uploads *errgroup.Group // nil: one after the other
	written func(b catalog.Block)

	file   *os.File
	buf    *bufio.Writer
	w      *block.Writer
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
		if err := s.start(); err != nil {
			return err
		}
		s.origin = origin
	}
	s.mixed = s.mixed || origin != s.origin
	s.load = s.load.plus(Load{1, size})
	return s.w.Add(r)
}

func (s *shelf) start() error {
	f, err := os.CreateTemp(s.dir, "block-*")
	if err != nil {
		return fmt.Errorf("build block: %w", err)
	}
	s.file, s.buf = f, bufio.NewWriterSize(f, 256<<10)
	s.w = block.NewWriter(s.buf, s.level)
	s.load, s.mixed = Load{}, false
	return nil
}

// cut ends the block at hand, if there is one.
func (s *shelf) cut() error {
	if s.w == nil {
		return nil
	}
	info, err := s.w.Close()
	if err == nil {
		err = s.buf.Flush()
	}
	file := s.file
	s.w, s.buf, s.file = nil, nil, nil
	if err != nil {
		dropFile(file)
		return fmt.Errorf("build block: %w", err)
	}
	if s.origin != newRow && !s.mixed && info.Rows == s.old[s.origin].Rows && info.Rows > 0 {
		dropFile(file)
		s.done = append(s.done, &s.old[s.origin])
		return nil
	}
	b := &catalog.Block{Rows: info.Rows, Bytes: info.Bytes, RawBytes: info.RawBytes,
		FirstID: info.FirstID, LastID: info.LastID, SHA256: info.SHA256}
	s.done = append(s.done, b)
	store := func() error {
		defer dropFile(file)
		n, err := s.files.create(s.ctx, func(n int) string { return s.files.batch.BlockKey(dataset.BlockFile(n)) }, file, info.Bytes)
		if err == nil {
			b.File = dataset.BlockFile(n)
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
	if err := s.start(); err != nil {
		return err
	}
	s.origin = newRow
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
	if s.file != nil {
		dropFile(s.file)
		s.w, s.buf, s.file = nil, nil, nil
	}
	if s.uploads != nil {
		return s.uploads.Wait()
	}
	return nil
}

func dropFile(f *os.File) {
	_ = f.Close()
	_ = os.Remove(f.Name())
}
