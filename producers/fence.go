package producers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// fence shuts out whoever held the lease of a layer before: a holder that was
// paused may still store a chunk when it goes on, and a row that it annotated
// would change what a view shows of a row that is annotated anew. For every run
// that is not closed it takes the names that chunks under way can have, with
// chunks of no rows, and then closes the run. A late chunk then finds its name
// taken.
//
// It must be called by the holder of the lease, before it looks at what is
// annotated. A run that an earlier holder has created without its knowledge has
// no chunks: who creates one asks for its lease again before the first of them.
func fence(ctx context.Context, s objstore.Store, ds, annotator string, batches []string) error {
	for _, name := range batches {
		b := dataset.BatchID{Dataset: ds, Batch: name, Annotator: annotator}
		l, err := catalog.ListLive(ctx, s, b)
		if err != nil {
			return err
		}
		for _, run := range l.Runs {
			if err := fenceRun(ctx, s, b, run); err != nil {
				return fmt.Errorf("shut out run %s of %s: %w", run, b, err)
			}
		}
	}
	return nil
}

// fenceRun takes every free name up to the last chunk of a run that is seen, and
// then InFlight more: a writer has no more chunks under way at a time, so each
// of them has one of these names. Chunks that a merge absorbs meanwhile are
// looked for again, as their names are free.
func fenceRun(ctx context.Context, s objstore.Store, b dataset.BatchID, run dataset.Run) error {
	for last := -1; ; {
		l, err := catalog.ListLive(ctx, s, b) // the list before the record
		if err != nil {
			return err
		}
		head, err := catalog.FindRecord(ctx, s, b)
		if err != nil {
			return err
		}
		runs, err := catalog.MergeRuns(ctx, s, head.Record, []dataset.Run{run})
		if err != nil || runs[run].State != catalog.RunOpen {
			return err
		}
		absorbed := runs[run].Absorbed
		seen := absorbed.Last()
		there := map[int]bool{}
		for _, c := range l.Chunks {
			if c.Run == run {
				there[c.Number] = true
				seen = max(seen, c.Number)
			}
		}
		if last >= 0 && seen <= last {
			return catalog.FailRun(ctx, s, b, run)
		}
		last = seen
		for n := 0; n <= last+InFlight; n++ {
			if there[n] || absorbed.Has(n) {
				continue
			}
			switch _, err := s.Put(ctx, b.ChunkKey(run, n), nil, objstore.IfAbsent()); {
			case errors.Is(err, objstore.ErrLost): // it landed just now
				last = max(last, n)
			case errors.Is(err, objstore.ErrUnknown) && ctx.Err() == nil:
				n-- // either way the next try says so
			case err != nil:
				return err
			}
		}
		last += InFlight
	}
}

// layerBatches are the batches of which a layer has anything.
func layerBatches(ctx context.Context, s objstore.Store, ds, annotator string) ([]string, error) {
	ids, err := catalog.LayerBatches(ctx, s, ds, annotator)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.Batch
	}
	slices.Sort(names)
	return names, nil
}
