package merger

import (
	"context"
	"errors"
	"fmt"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
)

// Repair makes anew what is derived or can be told from what is there: a commit
// record that is lost, digest files that are missing or wrong, absorbed chunks
// that were not deleted. It changes no row, and is safe beside mergers: what it
// makes counts by the same commit as theirs. found is what Verify has reported.
//
// A row of a damaged block is nothing that can be told from the rest: it is left
// as it is.
func (e *Engine) Repair(ctx context.Context, b dataset.BatchID, found Report) ([]Problem, error) {
	if err := b.Check(); err != nil {
		return nil, err
	}
	var done Report // its notes are what was done
	err := e.repair(ctx, b, found, &done)
	if err != nil {
		err = fmt.Errorf("repair %s: %w", b, err)
	}
	return done.Notes, err
}

func (e *Engine) repair(ctx context.Context, b dataset.BatchID, found Report, done *Report) error {
	h, err := catalog.FindRecord(ctx, e.store, b)
	switch {
	case errors.Is(err, catalog.ErrDamaged):
		return e.repairRecord(ctx, b, done)
	case err != nil:
		return err
	case !h.Exists() || h.Record.Deleted:
		return nil // a merge adopts what lies there; what is removed is left alone
	}
	if found.digests || len(h.Record.DeduplicateOn) > 0 && !hasDigests(h.Record, h.Record.DeduplicateOn) {
		if err := e.repairDigests(ctx, b, done); err != nil {
			return err
		}
	}
	return e.repairLeftovers(ctx, b, done)
}

// repairRecord writes a new record in place of a lost one.
func (e *Engine) repairRecord(ctx context.Context, b dataset.BatchID, done *Report) error {
	var last *attempt
	res, err := e.attempts(ctx, b, func(ctx context.Context, a *attempt) (Result, error) {
		last, a.repair = a, true
		return a.run(ctx)
	})
	res.Batch = b
	e.report(res, err)
	if !res.Committed || len(last.adopted.files) == 0 {
		return err // somebody else has made it
	}
	from := "no earlier one could be read"
	if g := last.adopted.known.Generation; g > 0 {
		from = fmt.Sprintf("what it knew of runs and absorbed chunks is that of generation %d", g)
	}
	done.note(b.CommitKey(), "made anew as generation %d: %d rows of %d merged files that lay there, and %d of %d live chunks; %s",
		res.Generation, res.Rows-res.Added, len(last.adopted.files), res.Added, res.Chunks, from)
	for _, file := range last.adopted.gone {
		done.note(b.BlockKey(file), "generation %d names it, and it is not there: taken to be replaced by a later one", last.adopted.known.Generation)
	}
	for _, m := range last.missing {
		done.note(b.RunKey(m.Run), "%s: taken to be absorbed by the lost record", m)
	}
	return err
}

// repairLeftovers deletes absorbed chunks that a merge could not delete.
func (e *Engine) repairLeftovers(ctx context.Context, b dataset.BatchID, done *Report) error {
	listing, err := catalog.ListLive(ctx, e.store, b)
	if err != nil {
		return err
	}
	h, err := catalog.FindRecord(ctx, e.store, b)
	if err != nil || h.Record.Deleted {
		return err
	}
	for _, c := range listing.Chunks {
		if !h.Record.Absorbed(c) {
			continue
		}
		if err := e.store.Delete(ctx, c.Key()); err != nil {
			return fmt.Errorf("delete absorbed chunk: %w", err)
		}
		done.note(c.Key(), "deleted: generation %d has absorbed it", h.Record.Generation)
	}
	return nil
}
