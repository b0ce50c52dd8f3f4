package query

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"runtime"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// errPermanent marks what no second reading can change.
var errPermanent = errors.New("reading it again does not help")

var seed = maphash.MakeSeed()

// pass is one reading of a block from its start. Rows are given before the
// block's SHA-256 is known, so when a pass breaks, the next one must meet the
// same rows again before it goes on: otherwise a flipped bit that broke the
// first pass could stay in a row that was given.
type pass struct {
	r     *reader
	batch string
	block catalog.Block
	key   string
	from  Cursor // rows up to here are not given
	in    block.Stream[dataset.Row]
	body  io.Closer
	seen  int64
	last  string // id seen last

	given int64 // rows behind from
	sum   maphash.Hash
	redo  int64 // so many of them were given by an earlier pass,
	want  uint64

	damaged bool // it broke because bytes were wrong
}

// openPass opens a block. It gives a pass also with an error, to say of what.
func (r *reader) openPass(b *batch, bl catalog.Block, redo *pass) (*pass, error) {
	p := &pass{r: r, batch: b.id.Batch, block: bl, key: b.id.BlockKey(bl.File), from: r.last}
	p.sum.SetSeed(seed)
	if redo != nil && redo.same(bl) {
		p.from, p.redo, p.want = redo.from, redo.given, redo.sum.Sum64()
	}
	want := &block.Want{Rows: bl.Rows, Bytes: bl.Bytes, SHA256: bl.SHA256}
	if dataset.IsParquetBlock(bl.File) {
		at := objstore.NewAt(r.ctx, r.store, p.key, bl.Bytes, r.opened < maxWhole)
		r.opened++
		p.body, p.in = at, block.NewParquetReader(at, bl.Bytes, want)
		return p, nil
	}
	ctx, cancel := context.WithCancel(r.ctx)
	body, err := openObject(ctx, r.store, p.key, bl.Bytes, r.opened < maxWhole)
	if err != nil {
		cancel()
		return p, err
	}
	in := block.NewReader
	if r.opened < maxAhead && bl.Bytes > aheadBytes {
		in = func(r io.Reader, w *block.Want) *block.Reader {
			return block.NewAheadReader(r, w, runtime.GOMAXPROCS(0))
		}
	}
	r.opened++
	rows := in(body, want)
	p.in = rows
	p.body = closing(func() error {
		cancel() // ends a read that is under way
		rows.Close()
		return body.Close()
	})
	return p, nil
}

// closing closes things in some order.
type closing func() error

// Close calls it.
func (c closing) Close() error { return c() }

// Blocks of more than aheadBytes are decompressed ahead by several goroutines, of
// maxAhead that are open at once.
const (
	maxAhead   = 4
	aheadBytes = 1 << 20
)

// same reports whether bl is the block of this pass.
func (p *pass) same(bl catalog.Block) bool {
	return p.block.File == bl.File && p.block.SHA256 == bl.SHA256
}

// next gives the next row behind the cursor that no earlier pass gave.
func (p *pass) next() (dataset.Row, error) {
	for {
		row, err := p.in.Next()
		switch {
		case err == io.EOF:
			return dataset.Row{}, p.finish()
		case err != nil:
			return dataset.Row{}, err
		case p.seen == 0 && row.ID != p.block.FirstID:
			return dataset.Row{}, fmt.Errorf("%w: it starts with id %q, the commit record says %q", block.ErrDamaged, row.ID, p.block.FirstID)
		}
		p.seen++
		p.last = row.ID
		if (Cursor{row.ID, p.batch}).Compare(p.from) <= 0 {
			continue
		}
		p.given++
		p.sum.Write(row.Raw)
		p.sum.WriteByte('\n')
		if p.given > p.redo {
			return row, nil
		}
		if p.given == p.redo && p.sum.Sum64() != p.want {
			return dataset.Row{}, p.differs()
		}
	}
}

// finish checks what block.Reader does not know.
func (p *pass) finish() error {
	switch {
	case p.last != p.block.LastID:
		return fmt.Errorf("%w: it ends with id %q, the commit record says %q", block.ErrDamaged, p.last, p.block.LastID)
	case p.given < p.redo:
		return p.differs()
	}
	return io.EOF
}

func (p *pass) differs() error {
	return fmt.Errorf("%w: read again, it does not have the %d rows that were already given (%w)", ErrDamaged, p.redo, errPermanent)
}

func (p *pass) close() {
	p.body.Close()
	p.r.opened--
}
