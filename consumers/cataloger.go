package consumers

import (
	"context"
	"log/slog"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore"
	"golang.org/x/sync/errgroup"
)

// Events hands the events of a durable to a handler, as *bus.Bus does.
type Events interface {
	HandleEvents(ctx context.Context, durable string, fn func(context.Context, dataset.Event) error, types ...dataset.EventType) error
}

// CatalogerConfig holds the settings of a Cataloger.
type CatalogerConfig struct {
	Workers int // events handled at once in this process: 8
}

// Cataloger keeps the catalog bucket: which generation each batch has and which
// live chunks there are.
type Cataloger struct {
	events Events
	ledger ledger
	log    *slog.Logger
	cfg    CatalogerConfig
}

// NewCataloger makes a Cataloger that writes to the bucket kv.
func NewCataloger(events Events, kv KV, store objstore.Store, cfg CatalogerConfig, log *slog.Logger) *Cataloger {
	if cfg.Workers <= 0 {
		cfg.Workers = 8
	}
	return &Cataloger{events: events, ledger: ledger{store, kv}, log: quietLogger(log), cfg: cfg}
}

// Run handles events until ctx ends.
func (c *Cataloger) Run(ctx context.Context) error {
	return workers(ctx, c.cfg.Workers, func(ctx context.Context) error {
		return c.events.HandleEvents(ctx, bus.Cataloger, c.Handle,
			dataset.RowsIngested, dataset.AnnotationUpdated, dataset.BatchMerged, dataset.ObjectsDeleted)
	})
}

// workers runs fn n times at once. A handler waits for the store most of the
// time, and no handler here depends on the order of events.
func workers(ctx context.Context, n int, fn func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for range n {
		g.Go(func() error { return fn(ctx) })
	}
	return g.Wait()
}

// Handle brings the catalog in line with the present state of what the event
// names.
func (c *Cataloger) Handle(ctx context.Context, e dataset.Event) error {
	b := e.ID()
	switch {
	case merged(e):
		_, _, err := c.ledger.batch(ctx, b)
		return err
	case e.Type == dataset.ObjectsDeleted:
		k, ok := chunkOf(e)
		if !ok {
			return nil
		}
		// Mostly the merge that deleted it has been told of already.
		if _, rev, err := get[bus.ChunkEntry](ctx, c.ledger.kv, bus.ChunkKey(b, k.Run, k.Number)); err != nil || rev == 0 {
			return err
		}
		_, err := c.ledger.chunk(ctx, b, k.Run, k.Number, nil)
		return err
	default:
		k, ok := chunkOf(e)
		if !ok {
			return nil
		}
		_, err := c.ledger.chunk(ctx, b, k.Run, k.Number, &told{e.ETag, e.Rows})
		return err
	}
}

// merged reports whether an event tells of a commit.
func merged(e dataset.Event) bool {
	return e.Type == dataset.BatchMerged || e.Type == dataset.AnnotationUpdated && e.Key == "" && e.Commit != ""
}

// chunkOf gives the chunk that an event names; ok is false for an event whose
// key is no chunk of its batch.
func chunkOf(e dataset.Event) (dataset.Key, bool) {
	k := dataset.ParseKey(e.Key)
	ok := k.Kind == dataset.KindChunk && k.Batch == e.ID() && k.Batch.ChunkKey(k.Run, k.Number) == e.Key
	return k, ok
}
