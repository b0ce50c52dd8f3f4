package query

import (
	"bytes"
	"container/heap"
	"context"
	"errors"
	"io"
	"iter"
	"os"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/objstore"
)

// ErrDamaged reports stored bytes that are not what they should be, or are not
// there; the error names the object.
var ErrDamaged = catalog.ErrDamaged

// Rows gives the rows that o asks for in (id, batch) order. The sequence ends
// with the last row or with an error, never short and silent. A row is the
// caller's to keep. Each range over the sequence reads anew.
//
// A block is checked against its commit record while it is read. Its last check
// comes after its last row: whoever makes the rows final, in a file for example,
// does so after the sequence has ended.
func Rows(ctx context.Context, s objstore.Store, o Options) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		if err := o.check(); err != nil {
			yield(Row{}, err)
			return
		}
		var cut *Projection
		if o.Columns != nil {
			var err error
			if cut, err = NewProjection(o.Columns); err != nil {
				yield(Row{}, err)
				return
			}
		}
		if o.WorkDir == "" {
			o.WorkDir = os.TempDir()
		}
		r := &reader{ctx: ctx, store: s, o: o, last: o.after()}
		defer r.close()
		if err := r.open(); err != nil {
			yield(Row{}, err)
			return
		}
		err := r.merge(func(row Row) bool {
			if cut != nil {
				row.Raw = cut.Append(nil, row)
			} else {
				row.Raw = bytes.Clone(row.Raw)
			}
			return yield(row, nil)
		})
		if err != nil {
			yield(Row{}, err)
		}
	}
}

// reader is one range over Rows.
type reader struct {
	ctx     context.Context // the reader lives within the call that has it
	store   objstore.Store
	o       Options
	batches []*batch
	sources sourceHeap
	arrived []source // to be pushed when the heap is in order again
	loads   []*load  // by the number that live rows carry
	last    Cursor   // of the row given last
	opened  int      // blocks open at the moment
}

// merge gives the rows of all sources in order until yield says no.
func (r *reader) merge(yield func(Row) bool) error {
	var given int64
	for len(r.sources) > 0 {
		if err := r.ctx.Err(); err != nil {
			return context.Cause(r.ctx)
		}
		top := r.sources[0]
		if p := top.at(); p.ready && p.Compare(r.last) > 0 && !(p.load != nil && p.load.dead) {
			if !yield(Row{Batch: p.Batch, Live: p.load != nil, Row: p.row}) {
				return nil
			}
			r.last = p.Cursor
			if given++; given == r.o.Limit {
				return nil
			}
		}
		switch err := top.advance(); {
		case err == io.EOF:
			heap.Pop(&r.sources)
			top.close()
		case err != nil:
			return err
		default:
			heap.Fix(&r.sources, 0)
		}
		for _, s := range r.arrived {
			heap.Push(&r.sources, s)
		}
		r.arrived = nil
	}
	return nil
}

func (r *reader) close() {
	for _, s := range append(r.sources, r.arrived...) {
		s.close()
	}
}

// gone reports that an object is missing, or is no longer the version that was
// to be read.
func gone(err error) bool {
	return errors.Is(err, objstore.ErrNotFound) || errors.Is(err, objstore.ErrChanged)
}

func damaged(err error) bool {
	return errors.Is(err, block.ErrDamaged) || errors.Is(err, ErrDamaged)
}
