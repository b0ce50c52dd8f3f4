package producers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// A holder of a lease that stood still while the lease ended does not know, and
// may store a chunk at any later moment. The next holder makes that impossible
// before it looks what is annotated: it seals every run of the layer that is
// still open. All free names that the run's writer may use next get an empty
// chunk, and the writer then finds them taken. Neither readers nor mergers have
// to know: an empty chunk has no rows. docs/decisions/0014 has the argument.

// sealing is one seal of a layer's open runs.
type sealing struct {
	store  objstore.Store
	within time.Duration // how long one request is tried again
}

// layerPart is what was found of a layer's part in one batch.
type layerPart struct {
	rows  int64 // merged ones
	empty bool  // neither a commit record, nor a chunk, nor a run
}

// part seals the open runs of a layer's part.
func (s *sealing) part(ctx context.Context, b dataset.BatchID) (layerPart, error) {
	// As readers do, the list first and the record second: a chunk that is in
	// neither was never stored.
	l, err := catalog.ListLive(ctx, s.store, b)
	if err != nil {
		return layerPart{}, err
	}
	h, err := catalog.FindRecord(ctx, s.store, b)
	if err != nil {
		return layerPart{}, err
	}
	found := layerPart{rows: h.Record.Rows, empty: h.Bare() && !h.Foreign && !h.Lost && len(l.Chunks) == 0 && len(l.Runs) == 0}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelRuns)
	for _, r := range l.Runs {
		if st, known := h.Record.Runs[r]; known && st.State != catalog.RunOpen {
			continue // its manifest says so too, and for ever
		}
		g.Go(func() error {
			if err := s.run(ctx, b, r, l.Chunks, h.Record.Runs[r].Absorbed); err != nil {
				return fmt.Errorf("end run %s of %s, which an earlier worker has left open: %w", r, b, err)
			}
			return nil
		})
	}
	return found, g.Wait()
}

// run seals one run, if it is open and was written under a lease. Others are
// not ours to end: a merge that splits chunks of an older tool holds none.
func (s *sealing) run(ctx context.Context, b dataset.BatchID, r dataset.Run, listed []catalog.Chunk, absorbed catalog.Ranges) error {
	m, err := catalog.ReadRun(ctx, s.store, b, r)
	if err != nil || m.State != catalog.RunOpen || m.Token == 0 {
		return err
	}
	m.Chunks, m.Bytes = 0, 0
	taken := absorbed // the numbers that are of no use to the writer
	next := 0         // past all that it is known to have used
	for _, c := range listed {
		if c.Run != r {
			continue
		}
		taken = taken.Add(c.Number)
		next = max(next, c.Number+1)
		if c.Size > 0 {
			m.Chunks++
			m.Bytes += c.Size
		}
	}
	next = max(next, absorbed.End())
	for n := range next {
		if taken.Has(n) {
			continue
		}
		if _, err := sealName(ctx, s.store, b.ChunkKey(r, n), s.within); err != nil {
			return err
		}
	}
	// The writer has at most InFlight chunks under way, with numbers in a row but
	// for those that are stored. Once so many in a row are ours, one of these can
	// never be stored, and it gets to no later number. It may be faster than we
	// are for a while.
	for ours := 0; ours < InFlight; next++ {
		created, err := s.claim(ctx, b.ChunkKey(r, next))
		if err != nil {
			return err
		}
		if ours++; !created {
			ours = 0
		}
	}
	return s.end(ctx, m)
}

// claim seals a name, and reports whether an empty chunk lies there in the end.
// One that an earlier sealing left is as good as our own: a writer stores an
// empty chunk only where it will never store another.
func (s *sealing) claim(ctx context.Context, key string) (bool, error) {
	created, err := sealName(ctx, s.store, key, s.within)
	if err != nil || created {
		return created, err
	}
	body, _, err := objstore.ReadAll(ctx, s.store, key)
	switch {
	case errors.Is(err, objstore.ErrNotFound): // absorbed by now, so it will be ignored if it comes again
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look at %s: %w", key, err)
	}
	return len(body) == 0, nil
}

// end closes the manifest as failed.
func (s *sealing) end(ctx context.Context, m catalog.RunManifest) error {
	m.State = catalog.RunFailed
	for {
		now, err := catalog.EndRun(ctx, s.store, m)
		switch {
		case err == nil || errors.Is(err, objstore.ErrLost) && now.State != catalog.RunOpen:
			return nil
		case !errors.Is(err, objstore.ErrLost):
			return err
		}
		m.ETag = now.ETag
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
	}
}
