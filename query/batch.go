package query

import (
	"container/heap"
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// batch is what a read knows of one batch.
type batch struct {
	id     dataset.BatchID
	head   catalog.Head
	chunks []catalog.Chunk  // live ones, where live rows are wanted
	loads  []*load          // readings of chunks whose rows may still be given
	faults map[string]int64 // what was missing or wrong, under which generation
	rounds int              // new starts since the batch last gave a row
	pin    Pin              // that it is to be read at, with Options.Pins
	absent bool             // it had no record at the moment that is read, and has one now
}

// maxRounds bounds how often a read starts a batch anew without getting a row
// out of it. Each new start needs a commit and a deletion in between, so a
// batch that takes more than this many is not merely busy.
const maxRounds = 64

// open takes the snapshots, finds out whether there is anything, loads live
// rows and sets the sources up.
func (r *reader) open() error {
	ids, err := r.list()
	if err != nil {
		return err
	}
	if err := r.ofOneBatch(len(ids)); err != nil {
		return err
	}
	r.batches = make([]*batch, len(ids))
	err = each(r.ctx, r.o.parallel(), len(ids), func(ctx context.Context, i int) error {
		r.batches[i] = &batch{id: ids[i], faults: map[string]int64{}}
		if r.o.Pins != nil {
			r.batches[i].pin = r.ownPins()[i]
		}
		return r.snapshot(ctx, r.batches[i])
	})
	if err != nil {
		return err
	}
	var absent []string
	for _, b := range r.batches {
		if b.absent {
			absent = append(absent, b.id.Batch)
		}
	}
	if err := r.exists(); err != nil {
		return err
	}
	r.sum = Opened{Batches: len(r.batches), Absent: absent}
	for _, b := range r.batches {
		r.sum.Rows += b.head.Record.Rows
		r.sum.Chunks += len(b.chunks)
	}
	if err := r.loadLive(r.batches); err != nil {
		return err
	}
	for _, b := range r.batches {
		m := &merged{r: r, b: b}
		if ok, err := m.start(); err != nil {
			return err
		} else if ok {
			r.arrived = append(r.arrived, m)
		}
	}
	for _, s := range r.arrived {
		r.sources.Push(s)
	}
	r.arrived = nil
	heap.Init(&r.sources)
	return nil
}

// list gives the batches to read.
func (r *reader) list() ([]dataset.BatchID, error) {
	if r.o.Pins != nil {
		return r.idsOf(r.ownPins()), nil
	}
	if r.o.Batches == nil && r.layer == "" {
		return catalog.Batches(r.ctx, r.store, r.o.Dataset)
	}
	var ids []dataset.BatchID
	for _, name := range r.o.wantedBatches() {
		ids = append(ids, dataset.BatchID{Dataset: r.o.Dataset, Batch: name, Annotator: r.layer})
	}
	return ids, nil
}

// snapshot takes the chunk list first, where one is needed, and the record
// second. The other way round, a chunk absorbed in between would be in neither.
func (r *reader) snapshot(ctx context.Context, b *batch) (err error) {
	if r.o.Pins != nil {
		return r.pin(ctx, b)
	}
	if r.o.At != nil {
		return r.past(ctx, b)
	}
	if !r.o.Live {
		b.head, err = catalog.FindRecord(ctx, r.store, b.id)
		return err
	}
	snap, err := catalog.Open(ctx, r.store, b.id)
	b.head, b.chunks = snap.Head, snap.Live
	return err
}

// exists leaves out batches that are not there, and reports a dataset, or a
// batch asked for by name, that does not exist, or of which nothing is merged
// although there is something.
func (r *reader) exists() error {
	var there, unsure []*batch
	merged, waits := false, false
	for _, b := range r.batches {
		if b.head.Foreign && (r.o.Live || r.layer != "") {
			return adopt(b.id)
		}
		known := b.head.Exists() && !b.head.Record.Deleted
		merged = merged || known
		if known || len(b.chunks) > 0 {
			there = append(there, b)
		} else {
			unsure = append(unsure, b)
		}
	}
	r.batches = there
	if r.layer != "" || r.o.Pins != nil {
		return nil // a batch without annotations is one that nobody has annotated
	}
	if r.o.Batches == nil && len(there) > 0 {
		return nil // what else there is holds nothing that this read asks for
	}
	found := len(there) > 0
	for _, b := range unsure {
		if b.absent {
			found = true
			continue
		}
		ok, more, err := written(r.ctx, r.store, b)
		switch {
		case err != nil:
			return err
		case ok:
			found, waits = true, waits || more
		case r.o.Batches != nil:
			return noBatch(r.ctx, r.store, b.id)
		}
		if waits && r.o.Batches == nil {
			break
		}
	}
	switch {
	case !found && r.o.Batches == nil:
		return noDataset(r.ctx, r.store, r.o.Dataset)
	case waits && !merged && !r.o.Live && r.o.At == nil:
		return fmt.Errorf("dataset %q: %w", r.o.Dataset, dataset.ErrNotMerged)
	}
	return nil
}

func adopt(b dataset.BatchID) error {
	return fmt.Errorf("batch %s: %w: another tool's files lie there, and a merge has to adopt them", b, dataset.ErrNotMerged)
}

// written reports whether a batch without a record has a chunk or a run, and
// whether it has something to merge. It may be a folder without meaning. Runs
// whose chunks are gone have had a record: without it nobody can read them.
func written(ctx context.Context, s objstore.Store, b *batch) (ok, waits bool, err error) {
	if b.head.Record.Deleted {
		return false, false, nil
	}
	l, err := catalog.ListLive(ctx, s, b.id)
	if err != nil {
		return false, false, err
	}
	waits = len(l.Chunks) > 0 || b.head.Foreign
	if waits || len(l.Runs) == 0 {
		return waits, waits, nil
	}
	lost, err := catalog.FindMissing(ctx, s, b.id, b.head, l)
	if err != nil {
		return false, false, err
	}
	if len(lost) == 0 {
		runs, err := catalog.MergeRuns(ctx, s, b.head.Record, l.Runs)
		for _, r := range runs {
			waits = waits || r.State != catalog.RunCompleted // its first rows may be on their way
		}
		return true, waits, err
	}
	now, err := catalog.FindRecord(ctx, s, b.id)
	if err == nil && !now.Exists() { // nor are there blocks
		err = fmt.Errorf("%s: %w: there is no commit record, but %s", b.id.CommitKey(), ErrDamaged, lost[0])
	}
	return true, true, err // merged in this moment
}

func noDataset(ctx context.Context, s objstore.Store, name string) error {
	names, err := catalog.Datasets(ctx, s)
	if err != nil {
		return err
	}
	return &NotFoundError{What: "dataset", Name: name, Nearest: Nearest(name, except(names, name))}
}

func noBatch(ctx context.Context, s objstore.Store, id dataset.BatchID) error {
	ids, err := catalog.Batches(ctx, s, id.Dataset)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return noDataset(ctx, s, id.Dataset)
	}
	names := make([]string, len(ids))
	for i, b := range ids {
		names[i] = b.Batch
	}
	return &NotFoundError{What: "batch", Name: id.Batch, Nearest: Nearest(id.Batch, except(names, id.Batch))}
}

// again notes that something of a batch was missing or wrong, before the batch
// is looked at anew. The same thing twice under one generation is damage.
func (b *batch) again(key string, cause error) error {
	gen := b.head.Record.Generation
	if at, seen := b.faults[key]; seen && at == gen {
		return fmt.Errorf("%w twice under generation %d of %s: %w", ErrDamaged, gen, b.id, cause)
	}
	if b.rounds++; b.rounds > maxRounds {
		return fmt.Errorf("%w: %s was replaced %d times while it was to be read: %w", ErrDamaged, b.id, b.rounds, cause)
	}
	b.faults[key] = gen
	return nil
}

// each calls fn for 0 to n-1, at most parallel at once.
func each(ctx context.Context, parallel, n int, fn func(ctx context.Context, i int) error) error {
	if parallel == 1 { // one request at a time, from one goroutine
		for i := range n {
			if err := fn(ctx, i); err != nil {
				return err
			}
		}
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i := range n {
		g.Go(func() error { return fn(ctx, i) })
	}
	return g.Wait()
}
