package query

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/siltstone-data/siltstone/dataset"
)

// Row is a row together with the batch that it belongs to: both name it.
type Row struct {
	Batch string
	Live  bool // from a chunk that no commit record has absorbed yet
	dataset.Row
}

// Cursor is a place in the order of rows: behind the row of that id and batch.
// The zero Cursor lies before all rows.
type Cursor struct{ ID, Batch string }

// Compare orders cursors as rows are ordered: by id, then batch, bytewise.
func (c Cursor) Compare(d Cursor) int {
	return cmp.Or(strings.Compare(c.ID, d.ID), strings.Compare(c.Batch, d.Batch))
}

// Options say what to read.
type Options struct {
	Dataset string
	Batches []string // nil: all
	// Columns, if not nil, cuts rows down to id, _created_at and these; _batch
	// may be among them. Otherwise a row is the stored line, byte for byte.
	Columns []string
	Live    bool    // add rows that are not merged yet
	At      *Moment // read merged rows as they were then; not with Live
	// Pins, if set, reads just these states, as TakePins gave them, in place of
	// what Batches and At say; not with Live or Missing.
	Pins  *Pins
	Limit int64 // most rows to give; 0: all

	// Annotators lays their layers beside the rows: the fields of an annotation
	// become columns named A.field, its metadata A._metadata where Columns has
	// it. Columns that names no field of an annotator lets all of them come. A row that nobody has annotated stays as it is. Annotations that are
	// not merged yet are added with Live, as rows are.
	Annotators []string
	// Missing, if not empty, gives only the rows that this annotator has not
	// annotated; annotations that are not merged yet count.
	Missing string
	// Metadata are the annotators whose A._metadata comes along, besides those of
	// which Columns names it.
	Metadata []string
	// Where, if not nil, gives only the rows of which it is true.
	Where *dataset.Filter
	// SQL runs the expressions in Where; one that the process shares when nil.
	SQL *SQL

	// Sort, if not empty, gives the rows in the order of these columns instead.
	// Not with After. All rows are read before the first is given; they are sorted
	// in bounded memory, and on disk in WorkDir.
	Sort []SortBy

	After   *Cursor // give only rows behind it
	WorkDir string  // for spill files; the system's temporary folder when empty

	// Parallel is the most requests to the store at once while snapshots are
	// taken and live chunks are read; 8 when 0.
	Parallel int
	// Opened, if set, is told what the read will go through before the first
	// row is given.
	Opened func(Opened)
	// Scanned, if set, counts the rows that are looked at, given or not.
	Scanned *atomic.Int64
	// Rejected, if set, is told of the lines of live chunks that are no rows
	// and are left out, as a merge leaves them out.
	Rejected func(Rejected)
	// Moved, if set, is told when blocks of a batch were replaced while it was read,
	// so that the rest of it is read under a later generation; annotator is empty
	// but for a layer.
	Moved func(annotator string, now Pin)
	// Unknown, if set, is told after the last row which columns of Where no row
	// had.
	Unknown func(columns []string)
}

// Opened sums up the snapshots that a read starts from.
type Opened struct {
	Batches int
	Rows    int64 // merged rows; After and Limit are not applied
	Chunks  int   // live chunks that are going to be read
	// Annotated is how many merged annotations the layer of Missing has.
	Annotated int64
	// Absent are the batches that had no commit record yet at the moment that
	// is read: they give no rows.
	Absent []string
	Pins   Pins // the states that are read; live rows have none
	// Unknown tells which columns of Where no row has had so far.
	Unknown func() []string
}

// Rejected is a line of a live chunk that is no row.
type Rejected struct {
	Key    string // of the chunk
	Line   int    // from 1
	Reason string
}

// Option changes Options.
type Option func(*Options)

// Batches limits a read to the batches of these names.
func Batches(names ...string) Option { return func(o *Options) { o.Batches = names } }

// Columns cuts rows down to id, _created_at and the columns of these names.
func Columns(names ...string) Option {
	return func(o *Options) { o.Columns = append([]string{}, names...) }
}

// Live adds rows that are not merged yet.
func Live() Option { return func(o *Options) { o.Live = true } }

// Limit ends a read after n rows; 0 means all.
func Limit(n int64) Option { return func(o *Options) { o.Limit = n } }

// After starts a read behind the row of that id and batch.
func After(c Cursor) Option { return func(o *Options) { o.After = &c } }

// Annotators lays the layers of these annotators beside the rows.
func Annotators(names ...string) Option { return func(o *Options) { o.Annotators = names } }

// Missing gives only the rows that an annotator has not annotated.
func Missing(annotator string) Option { return func(o *Options) { o.Missing = annotator } }

// Where gives only the rows of which a filter is true.
func Where(f *dataset.Filter) Option { return func(o *Options) { o.Where = f } }

// check refuses options that break a rule, before any I/O.
func (o Options) check() error {
	if err := dataset.CheckDataset(o.Dataset); err != nil {
		return err
	}
	for _, b := range o.Batches {
		if err := dataset.CheckBatch(b); err != nil {
			return err
		}
	}
	for _, a := range o.Annotators {
		if err := dataset.CheckAnnotator(a); err != nil {
			return err
		}
	}
	if o.Missing != "" {
		if err := dataset.CheckAnnotator(o.Missing); err != nil {
			return err
		}
	}
	if len(o.Sort) > 0 && o.After != nil {
		return errors.New("a place to start after is one in the order of ids; leave it or the sort out")
	}
	if o.Pins != nil && (o.Live || o.Missing != "") {
		return errors.New("what is not merged yet cannot be pinned")
	}
	if o.Limit < 0 {
		return fmt.Errorf("limit %d: it must not be negative", o.Limit)
	}
	if o.At != nil {
		switch {
		case o.Live:
			return fmt.Errorf("%w: live rows are those of now; leave them out to read the past", ErrMoment)
		case o.At.Generation < 0 || (o.At.Generation > 0) != o.At.Time.IsZero():
			return fmt.Errorf("%w: it takes a generation or a time", ErrMoment)
		case o.At.Generation > 0 && len(o.Annotators) > 0:
			return fmt.Errorf("%w: a generation counts the merges of a batch, and its layers have their own; give a time to read both", ErrMoment)
		}
	}
	return nil
}

// wantedBatches are the batches asked for, each once: naming one twice must not
// give its rows twice.
func (o Options) wantedBatches() []string {
	names := slices.Clone(o.Batches)
	slices.Sort(names)
	return slices.Compact(names)
}

func (o Options) parallel() int { return cmp.Or(max(o.Parallel, 0), 8) }

func (o Options) after() Cursor {
	if o.After == nil {
		return Cursor{}
	}
	return *o.After
}
