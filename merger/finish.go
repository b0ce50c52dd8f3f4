package merger

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
)

// finish does what follows a commit, and is done again by every merge after
// it: it announces the current generation, so that no crash loses the event,
// and deletes chunks whose rows are in blocks.
func (a *attempt) finish(ctx context.Context, res Result, absorbed []catalog.Chunk) error {
	if err := a.publish(ctx, res); err != nil {
		return err
	}
	return a.deleteChunks(ctx, absorbed)
}

func (a *attempt) publish(ctx context.Context, res Result) error {
	if a.announce == nil {
		return nil
	}
	kind := dataset.BatchMerged
	if a.batch.Annotator != "" {
		kind = dataset.AnnotationUpdated
	}
	e := dataset.NewEvent(kind, a.batch, a.cfg.Now())
	e.Commit, e.Generation, e.Rows = res.Commit, res.Generation, &res.Rows
	e.Added, e.Duplicates, e.Rejected = res.Added, res.Duplicates, res.Rejected
	if res.Committed {
		e.TookMS = a.since(a.start)
	}
	if err := a.announce.Publish(ctx, e); err != nil {
		return fmt.Errorf("announce generation %d: %w", res.Generation, err)
	}
	return nil
}

// deleteChunks deletes absorbed chunks. One that cannot be deleted is no
// error: it is ignored by everybody, and the next merge tries again.
func (a *attempt) deleteChunks(ctx context.Context, chunks []catalog.Chunk) error {
	one := func(c catalog.Chunk) {
		outcome := "done"
		if err := a.store.Delete(ctx, c.Key()); err != nil {
			outcome = "failed"
			if ctx.Err() == nil {
				a.log.Warn("absorbed chunk stays until the next merge", "chunk", c.Key(), "err", err)
			}
		}
		a.metrics.Deletes.WithLabelValues(outcome).Inc()
	}
	if a.cfg.Concurrency == 1 {
		for _, c := range chunks {
			if one(c); ctx.Err() != nil {
				return ctx.Err()
			}
		}
		return nil
	}
	var g errgroup.Group
	g.SetLimit(a.cfg.Concurrency)
	for _, c := range chunks {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error { one(c); return nil })
	}
	_ = g.Wait() // the deletions tell no error
	return ctx.Err()
}
