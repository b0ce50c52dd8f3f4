package merger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// splitBlocks gives the blocks of a record that hold rows, in order of their
// ids, and those that do not. Overlapping ranges are damage: a merge that went
// on could write an id twice.
func splitBlocks(r catalog.Record) (full, empty []catalog.Block, err error) {
	for _, b := range r.Blocks {
		if b.Rows == 0 {
			empty = append(empty, b)
		} else {
			full = append(full, b)
		}
	}
	slices.SortFunc(full, func(a, b catalog.Block) int { return cmp.Compare(a.FirstID, b.FirstID) })
	for i, b := range full {
		if b.LastID < b.FirstID || i > 0 && b.FirstID <= full[i-1].LastID {
			return nil, nil, fmt.Errorf("%s: %w: the ids of block %s, %q to %q, are not past those of the block before it",
				r.ID().CommitKey(), catalog.ErrDamaged, b.File, b.FirstID, b.LastID)
		}
	}
	return full, empty, nil
}

// blockRow is a row of a block: its block's index among those that hold rows,
// and its number in it.
type blockRow struct {
	dataset.Row
	block int
	line  uint64
}

func (r blockRow) place() place {
	return place{class: classMerged, created: r.CreatedAt, source: uint32(r.block), line: r.line}
}

// blockScan reads the rows of some blocks, in order of their ids.
type blockScan struct {
	ctx    context.Context
	store  objstore.Store
	batch  dataset.BatchID
	blocks []catalog.Block
	which  []int // indexes of those to read, ascending
	metric func(bytes int64)

	at   int // index into which
	body io.Closer
	rows block.Stream[dataset.Row]
	line uint64
}

func (s *blockScan) Next() (blockRow, error) {
	for {
		if s.rows == nil {
			if s.at == len(s.which) {
				return blockRow{}, io.EOF
			}
			if err := s.open(s.blocks[s.which[s.at]]); err != nil {
				return blockRow{}, err
			}
		}
		b := s.blocks[s.which[s.at]]
		row, err := s.rows.Next()
		switch {
		case err == nil:
			s.line++
			return blockRow{row, s.which[s.at], s.line}, nil
		case err == io.EOF:
			s.metric(b.Bytes)
			s.close()
			s.at++
		case errors.Is(err, block.ErrDamaged), errors.Is(err, objstore.ErrNotFound):
			return blockRow{}, &faultyFile{key: s.batch.BlockKey(b.File), err: err}
		default:
			return blockRow{}, fmt.Errorf("read %s: %w", s.batch.BlockKey(b.File), err)
		}
	}
}

func (s *blockScan) open(b catalog.Block) error {
	key := s.batch.BlockKey(b.File)
	var err error
	s.line = 0
	s.rows, s.body, err = openBlock(s.ctx, s.store, key, b)
	if errors.Is(err, objstore.ErrNotFound) {
		return &faultyFile{key: key, err: err}
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	return nil
}

// openBlock opens a block of either kind to be read whole and checked. That it
// is not there shows at once or with the first row.
func openBlock(ctx context.Context, s objstore.Store, key string, b catalog.Block) (block.Stream[dataset.Row], io.Closer, error) {
	want := &block.Want{Rows: b.Rows, Bytes: b.Bytes, SHA256: b.SHA256}
	if dataset.IsParquetBlock(b.File) {
		at := objstore.NewAt(ctx, s, key, b.Bytes, true)
		return block.NewParquetReader(at, b.Bytes, want), at, nil
	}
	body, _, err := s.Get(ctx, key, objstore.Span{})
	if err != nil {
		return nil, nil, err
	}
	return block.NewReader(body, want), body, nil
}

func (s *blockScan) close() {
	if s.body != nil {
		_ = s.body.Close()
	}
	s.body, s.rows = nil, nil
}

// blockIDs gives the encoded ids of a scan.
type blockIDs struct {
	scan *blockScan
	buf  []byte
}

func (b *blockIDs) Next() ([]byte, error) {
	row, err := b.scan.Next()
	if err != nil {
		return nil, err
	}
	b.buf = block.AppendID(b.buf[:0], row.ID)
	return b.buf, nil
}

// noIDs is the stream of a batch whose merged rows are decided again too.
type noIDs struct{}

func (noIDs) Next() ([]byte, error) { return nil, io.EOF }

// blocksOf gives the indexes of all blocks in the segments.
func blocksOf(segments []Segment) []int {
	var which []int
	for _, s := range segments {
		for from, to := s.Blocks(); from < to; from++ {
			which = append(which, from)
		}
	}
	return which
}

// hitBlocks gives the indexes of the blocks whose ranges new rows fall into:
// no other one can hold their ids.
func hitBlocks(news []Load) []int {
	var which []int
	for slot, n := range news {
		if slot%2 == 1 && n.Rows > 0 {
			which = append(which, slot/2)
		}
	}
	return which
}

// spread says how much a merge of this batch has to write again because of
// where its new ids lie. One merge whose ids lie together does not make the next
// one cheap, so what was known counts for a while.
func (a *attempt) spread() int64 {
	hit := int64(0)
	for _, i := range hitBlocks(a.in.news) {
		hit += a.full[i].RawBytes
	}
	return max(hit, a.head.Record.Spread/2)
}
