package main

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/consumers"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore"
)

// mergeSlots is how many batches one process merges at once: one compresses
// while another waits for the store.
const mergeSlots = 2

// newEngine makes the merge engine of this process. On a store that does not
// keep the conditions of writes it refuses: commits would overwrite each other.
func newEngine(ctx context.Context, a *app, announce merger.Announcer, progress func(merger.Progress)) (*merger.Engine, error) {
	if err := probeStore(ctx, a); err != nil {
		return nil, err
	}
	return merger.New(a.store, announce, merger.Config{
		WorkDir: a.workDir, Level: a.mergeGzipLevel, Progress: progress, MaxJSONLBytes: a.maxJSONLBytes, DatasetBytes: newDatasetSizes(a).of,
	}, a.log, a.registry)
}

// probeStore refuses a store that does not keep the conditions of writes.
func probeStore(ctx context.Context, a *app) error {
	err := objstore.Probe(ctx, a.store, "_probe/")
	if errors.Is(err, objstore.ErrNoConditions) {
		err = exit(exitRefused, err)
	}
	return err
}

// runMerger takes merge and convert jobs until ctx ends.
func runMerger(ctx context.Context, a *app) error {
	engine, err := newEngine(ctx, a, a.bus, nil)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return a.bus.Work(ctx, bus.KindMerge, mergeSlots, func(ctx context.Context, j bus.Job) error {
			_, err := engine.Merge(ctx, j.Batch)
			return err
		})
	})
	g.Go(func() error { return runConverter(ctx, a, engine) })
	return g.Wait()
}

// runConsumers runs every durable and leader task until ctx ends.
func runConsumers(ctx context.Context, a *app) error {
	entries := a.bus.KV(bus.Catalog)
	policy := consumers.Policy{Quiet: a.mergeQuiet, MaxAge: a.mergeMaxAge, MinBytes: a.mergeMinBytes}
	normalizer, err := consumers.NewNormalizer(a.bus, a.bus, a.bus, a.store,
		consumers.NormalizerConfig{Bucket: a.Bucket, Prefix: a.Prefix, Policy: policy}, a.log, a.registry)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, task := range []interface{ Run(context.Context) error }{
		normalizer,
		consumers.NewCataloger(a.bus, entries, a.store, consumers.CatalogerConfig{}, a.log),
		consumers.NewPlanner(a.bus, a.bus, entries, a.store, consumers.PlannerConfig{Policy: policy}, a.log, a.registry),
		consumers.NewIndexer(a.bus, a.store, consumers.IndexerConfig{}, a.log, a.registry),
		consumers.NewReconciler(a.bus, entries, a.store, consumers.ReconcilerConfig{Policy: policy}, a.log, a.registry),
		consumers.NewSweeper(a.bus, entries, a.bus.KV(bus.Pipelines), a.store,
			consumers.SweeperConfig{SweepPolicy: catalog.SweepPolicy{HistoryMaxAge: a.historyMaxAge}}, a.log, a.registry),
	} {
		g.Go(func() error { return task.Run(ctx) })
	}
	return g.Wait()
}
