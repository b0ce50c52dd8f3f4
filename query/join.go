package query

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// stream gives rows in (id, batch) order or in the reverse of it, each valid
// until the next one, and io.EOF after the last.
type stream interface {
	next() (Row, error)
}

// layer is a layer that is read beside the rows, in their order.
type layer struct {
	name string
	in   stream
	meta bool // its metadata is shown as well
	row  Row
	here bool // row is one that the rows have not come to
	done bool
}

// seek gives the annotation of a row, nil where there is none. Annotations of
// rows that are not there are passed.
func (l *layer) seek(c Cursor, down bool) ([]byte, error) {
	for !l.done {
		if !l.here {
			row, err := l.in.next()
			if err == io.EOF {
				l.done = true
				break
			}
			if err != nil {
				return nil, err
			}
			l.row, l.here = row, true
		}
		switch d := ordered(Cursor{l.row.ID, l.row.Batch}, c, down); {
		case d == 0:
			return l.row.Raw, nil
		case d > 0:
			return nil, nil
		}
		l.here = false
	}
	return nil, nil
}

// join lays layers beside rows, and leaves out rows that a filter does not take.
// Both sides come in one order, so it holds one row of each.
type join struct {
	base    stream
	layers  []*layer
	down    bool
	show    []int // the layers that are shown, as indexes into layers
	missing int   // the layer that must have nothing of a row, or -1
	where   *matcher
	window  *window // of a filter with expressions; otherwise nil
	closers []*reader

	annotated int64         // see Opened
	scanned   *atomic.Int64 // see Options; may be nil

	notes [][]byte // of the row at hand, by layer
	line  []byte
}

// next gives the next row, with what is shown of its layers.
func (j *join) next() (Row, error) {
	if j.window != nil {
		return j.window.next(j)
	}
	for {
		row, err := j.scan()
		if err != nil || row.Raw != nil {
			return row, err
		}
	}
}

// scan looks at the next row. One that is left out has no Raw.
func (j *join) scan() (Row, error) {
	row, ok, err := j.look()
	if err == nil && ok && j.where != nil {
		ok, err = j.where.takes(row, j.notes)
	}
	if err != nil {
		return Row{}, err
	}
	if !ok {
		return Row{Batch: row.Batch, Row: dataset.Row{ID: row.ID}}, nil
	}
	if len(j.show) == 0 {
		return row, nil
	}
	j.line, err = j.appendShown(j.line[:0], row)
	row.Raw = j.line
	return row, err
}

// look goes to the next row and to what its layers have of it; ok is false where
// they have what is to be missing.
func (j *join) look() (row Row, ok bool, err error) {
	row, err = j.base.next()
	if err == nil && j.scanned != nil {
		j.scanned.Add(1)
	}
	if err != nil {
		return Row{}, false, err
	}
	for i, l := range j.layers {
		if j.notes[i], err = l.seek(Cursor{row.ID, row.Batch}, j.down); err != nil {
			return Row{}, false, err
		}
		if i == j.missing && j.notes[i] != nil {
			return row, false, nil
		}
	}
	return row, true, nil
}

// appendShown appends a row with what is shown of its layers.
func (j *join) appendShown(dst []byte, row Row) ([]byte, error) {
	dst = append(dst, row.Raw...)
	var err error
	for _, i := range j.show {
		if dst, err = appendNote(dst, row, j.layers[i].name, j.notes[i], j.layers[i].meta); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// unknown are the columns of the filter that no row had so far.
func (j *join) unknown() []string {
	if j.where == nil {
		return nil
	}
	return j.where.unknown()
}

func (j *join) close() {
	for _, r := range j.closers {
		r.close()
	}
}

// newJoin sets up what o asks for beside the rows, and q of them; q is nil where
// there is no filter. open gives a layer in their order.
func newJoin(base stream, o Options, q *question, annotators func() ([]string, error), open func(annotator string, live bool) (stream, error)) (*join, error) {
	j := &join{base: base, missing: -1, scanned: o.Scanned}
	dotted := map[string]bool{} // names of the filter that may be those of fields
	var names []string
	for _, a := range o.Annotators {
		if !slices.Contains(names, a) {
			j.show = append(j.show, len(names))
			names = append(names, a)
		}
	}
	if len(names) > 0 || q.mayUseLayers() {
		known, err := annotators()
		if err != nil {
			return nil, err
		}
		for _, a := range names {
			if !slices.Contains(known, a) {
				return nil, &NotFoundError{What: "annotator", Name: a, Nearest: Nearest(a, known)}
			}
		}
		for _, c := range q.columns() {
			if c.Layer != "" && !slices.Contains(known, c.Layer) {
				return nil, &NotFoundError{What: "annotator", Name: c.Layer, Nearest: Nearest(c.Layer, known)}
			}
			dotted[c.String()] = dotted[c.String()] || c.Layer == ""
		}
		if q, err = q.resolve(known); err != nil {
			return nil, err
		}
	}
	for _, c := range q.columns() {
		if c.Layer != "" && !slices.Contains(names, c.Layer) {
			names = append(names, c.Layer)
		}
	}
	for _, a := range names {
		if err := j.add(a, o.Live, open); err != nil {
			return nil, err
		}
	}
	for _, i := range j.show {
		j.layers[i].meta = slices.Contains(o.Metadata, names[i]) || slices.Contains(o.Columns, names[i]+"."+metadataField)
	}
	if o.Missing != "" {
		j.missing = len(j.layers)
		if err := j.add(o.Missing, true, open); err != nil {
			return nil, err
		}
	}
	j.notes = make([][]byte, len(j.layers))
	if q != nil {
		j.where = newMatcher(q, names, dotted)
	}
	return j, nil
}

// layersOf are the annotators that a filter names as such.
func layersOf(f *dataset.Filter) []string {
	var out []string
	if f != nil {
		for _, c := range f.Columns() {
			if c.Layer != "" {
				out = append(out, c.Layer)
			}
		}
	}
	return out
}

func (j *join) add(annotator string, live bool, open func(string, bool) (stream, error)) error {
	in, err := open(annotator, live)
	if err != nil {
		return err
	}
	j.layers = append(j.layers, &layer{name: annotator, in: in})
	return nil
}

// joined lays beside the rows of a reader what its options ask for.
func (r *reader) joined() (*join, error) {
	var opened []*reader
	names := make([]string, len(r.batches))
	for i, b := range r.batches {
		names[i] = b.id.Batch
	}
	q, err := newQuestion(r.ctx, r.o)
	if err != nil {
		return nil, err
	}
	j, err := newJoin(r, r.o, q,
		func() ([]string, error) { return catalog.Annotators(r.ctx, r.store, r.o.Dataset) },
		func(a string, live bool) (stream, error) {
			o := Options{
				Dataset: r.o.Dataset, Batches: names, Live: live, WorkDir: r.o.WorkDir, Parallel: r.o.Parallel,
				At: r.o.At, Pins: r.o.Pins, Rejected: r.o.Rejected, Moved: r.o.Moved,
			}
			if live {
				o.At, o.Pins = nil, nil
			}
			if o.At != nil && o.At.Generation > 0 {
				return nil, fmt.Errorf("%w: a generation counts the merges of a batch, and its layers have their own; give a time to read both", ErrMoment)
			}
			l := &reader{ctx: r.ctx, store: r.store, o: o, layer: a, last: r.last}
			opened = append(opened, l)
			if err := l.open(); err != nil {
				return nil, fmt.Errorf("layer %s: %w", a, err)
			}
			return l, nil
		})
	if err != nil {
		for _, l := range opened {
			l.close()
		}
		return nil, err
	}
	j.closers = opened
	if q != nil && len(q.exprs) > 0 {
		j.window = newWindow(r.ctx, j.where)
	}
	if j.missing >= 0 {
		j.annotated = opened[j.missing].sum.Rows
	}
	return j, nil
}

// ErrLayer reports a column of a layer that is not read.
var ErrLayer = errors.New("its layer is not read")

// CheckLayers refuses columns that are fields of an annotator's layer (A.field)
// where it is not among the annotators that are read: no row would have them.
func CheckLayers(ctx context.Context, s objstore.Store, dataset string, annotators, columns []string) error {
	var known []string
	for _, c := range columns {
		a, _, dotted := strings.Cut(c, ".")
		if !dotted || slices.Contains(annotators, a) {
			continue
		}
		if known == nil {
			var err error
			if known, err = catalog.Annotators(ctx, s, dataset); err != nil {
				return err
			}
		}
		if slices.Contains(known, a) {
			return fmt.Errorf("column %q is a field of annotator %q: %w; name the annotator too", c, a, ErrLayer)
		}
	}
	return nil
}
