package query

import (
	"bytes"
	"container/heap"
	"context"
	"errors"
	"fmt"
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
		if err := rows(ctx, s, o, func(r Row) bool { return yield(r, nil) }); err != nil {
			yield(Row{}, err)
		}
	}
}

func rows(ctx context.Context, s objstore.Store, o Options, yield func(Row) bool) error {
	if err := o.check(); err != nil {
		return err
	}
	var cut *Projection
	if o.Columns != nil {
		var err error
		if cut, err = NewProjection(o.Columns, o.Annotators...); err != nil {
			return err
		}
	}
	if o.WorkDir == "" {
		o.WorkDir = os.TempDir()
	}
	if err := CheckLayers(ctx, s, o.Dataset, o.Annotators, sortedBy(o.Sort)); err != nil {
		return fmt.Errorf("sort: %w", err)
	}
	r := &reader{ctx: ctx, store: s, o: o, last: o.after()}
	defer r.close()
	if err := r.open(); err != nil {
		return err
	}
	j, err := r.joined()
	if err != nil {
		return err
	}
	defer j.close()
	if o.Opened != nil {
		r.sum.Annotated, r.sum.Unknown = j.annotated, j.unknown
		r.sum.Pins = r.pins(j)
		o.Opened(r.sum)
	}
	var in stream = j
	if len(o.Sort) > 0 {
		s, err := sortRows(j, o)
		if err != nil {
			return err
		}
		defer s.close()
		in = s
	}
	for given := int64(0); o.Limit == 0 || given < o.Limit; given++ {
		row, err := in.next()
		if err == io.EOF {
			if j.where != nil && o.Unknown != nil {
				o.Unknown(j.where.unknown())
			}
			return nil
		}
		if err != nil {
			return err
		}
		if cut != nil {
			row.Raw = cut.Append(nil, row)
		} else {
			row.Raw = bytes.Clone(row.Raw)
		}
		if !yield(row) {
			return nil
		}
	}
	return nil
}

// reader is one range over the rows of batches, or over the annotations of a
// layer.
type reader struct {
	ctx     context.Context // the reader lives within the call that has it
	store   objstore.Store
	o       Options
	layer   string // the annotator; empty for the rows themselves
	batches []*batch
	sources sourceHeap
	arrived []source // to be pushed when the heap is in order again
	loads   []*load  // by the number that live rows carry
	last    Cursor   // of the row given last
	sum     Opened
	given   bool // the source on top is at the row given last
	opened  int  // blocks open at the moment
}

// next gives the next row of all sources in order, and io.EOF after the last.
// It is valid until the next call.
func (r *reader) next() (Row, error) {
	for len(r.sources) > 0 {
		if err := r.ctx.Err(); err != nil {
			return Row{}, context.Cause(r.ctx)
		}
		top := r.sources[0]
		if p := top.at(); !r.given && p.ready && p.Compare(r.last) > 0 && !(p.load != nil && p.load.dead) {
			r.last, r.given = p.Cursor, true
			return Row{Batch: p.Batch, Live: p.load != nil, Row: p.row}, nil
		}
		r.given = false
		switch err := top.advance(); {
		case err == io.EOF:
			heap.Pop(&r.sources)
			top.close()
		case err != nil:
			return Row{}, err
		default:
			heap.Fix(&r.sources, 0)
		}
		for _, s := range r.arrived {
			heap.Push(&r.sources, s)
		}
		r.arrived = nil
	}
	return Row{}, io.EOF
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
