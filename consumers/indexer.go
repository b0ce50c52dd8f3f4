package consumers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/index"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore"
)

// Worker runs jobs, as *bus.Bus does.
type Worker interface {
	Work(ctx context.Context, kind string, slots int, fn func(context.Context, bus.Job) error) error
}

// IndexerBus is what an Indexer needs of the bus.
type IndexerBus interface {
	Events
	Scheduler
	Worker
	Publisher
}

// IndexerConfig holds the settings of an Indexer.
type IndexerConfig struct {
	Slots int           // batches indexed at once in this process: 1
	Grace time.Duration // how long the index of a replaced block stays: 10 min
}

// Indexer builds the indexes of new blocks. Its durable only makes a job due:
// reading the blocks of a batch takes longer than an event should be held, and
// a job is one per batch, however many commits ask for it.
type Indexer struct {
	bus   IndexerBus
	store objstore.Store
	cfg   IndexerConfig
	log   *slog.Logger
	built prometheus.Counter
	took  prometheus.Counter
	gone  prometheus.Counter
}

// NewIndexer makes an Indexer.
func NewIndexer(b IndexerBus, store objstore.Store, cfg IndexerConfig, log *slog.Logger, reg prometheus.Registerer) *Indexer {
	if cfg.Slots <= 0 {
		cfg.Slots = 1
	}
	if cfg.Grace <= 0 {
		cfg.Grace = defaultGrace
	}
	return &Indexer{bus: b, store: store, cfg: cfg, log: quietLogger(log),
		built: counter(reg, "siltstone_index_built_total", "Indexes of blocks that were built."),
		took:  counter(reg, "siltstone_index_build_seconds_total", "Time spent building them."),
		gone:  counter(reg, "siltstone_index_pruned_total", "Indexes of replaced blocks that were deleted."),
	}
}

// Run handles events and jobs until ctx ends.
func (x *Indexer) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return x.bus.HandleEvents(ctx, bus.Indexer, x.Handle, dataset.BatchMerged, dataset.AnnotationUpdated)
	})
	g.Go(func() error { return x.bus.Work(ctx, bus.KindIndex, x.cfg.Slots, x.Index) })
	return g.Wait()
}

// Handle makes an index job due after a commit.
func (x *Indexer) Handle(ctx context.Context, e dataset.Event) error {
	if !merged(e) {
		return nil
	}
	return x.bus.Enqueue(ctx, bus.Job{Kind: bus.KindIndex, Batch: e.ID()})
}

// Index brings the indexes of a batch in line with its commit record, sums them
// up and announces it. Run twice, or stopped halfway and run again, it does
// what is left to do.
func (x *Indexer) Index(ctx context.Context, j bus.Job) error {
	h, err := catalog.ReadHead(ctx, x.store, j.Batch)
	if err != nil || !h.Exists() {
		return err
	}
	have, err := index.Numbers(ctx, x.store, j.Batch)
	if err != nil {
		return err
	}
	failed := x.build(ctx, h.Record, have)
	// The summary tells of the newest record. If that has more blocks than the
	// one at hand, its own event makes a job due again.
	if h, err = catalog.ReadHead(ctx, x.store, j.Batch); err != nil || !h.Exists() {
		return errors.Join(failed, err)
	}
	n, err := index.Prune(ctx, x.store, h.Record, have, time.Now().Add(-x.cfg.Grace))
	x.gone.Add(float64(n))
	if err != nil {
		return errors.Join(failed, err)
	}
	if err := index.PutMeta(ctx, x.store, j.Batch, index.Summarize(h.Record, have)); err != nil {
		return errors.Join(failed, err)
	}
	if failed != nil {
		return failed
	}
	e := dataset.NewEvent(dataset.IndexRefreshed, j.Batch, time.Now())
	e.Generation, e.Commit, e.Rows = h.Record.Generation, h.Record.Commit, &h.Record.Rows
	return x.bus.Publish(ctx, e)
}

// build builds what is missing and adds it to have. A block that cannot be read
// does not keep the others waiting.
func (x *Indexer) build(ctx context.Context, r catalog.Record, have map[int]bool) error {
	var failed error
	b := r.ID()
	for _, bl := range r.Blocks {
		if r.Deleted || index.Has(have, b, bl) {
			continue
		}
		if _, err := index.Key(b, bl); err != nil {
			continue // a block that is read whole
		}
		began := time.Now()
		err := index.Build(ctx, x.store, b, bl)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, objstore.ErrNotFound):
			continue // replaced meanwhile; if it is damage, merger and readers say so
		case errors.Is(err, index.ErrNoIndex):
			x.log.Warn("a block cannot be indexed and is read whole", keyBlock, b.BlockKey(bl.File), keyErr, err)
			continue
		case err != nil:
			failed = errors.Join(failed, fmt.Errorf("index block %s: %w", b.BlockKey(bl.File), err))
			continue
		}
		x.built.Inc()
		x.took.Add(time.Since(began).Seconds())
		have[dataset.ParseKey(b.BlockKey(bl.File)).Number] = true
	}
	return failed
}
