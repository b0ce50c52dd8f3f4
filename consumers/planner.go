package consumers

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore"
)

// Scheduler makes jobs due, as *bus.Bus does.
type Scheduler interface {
	Enqueue(ctx context.Context, j bus.Job) error
	Debounce(ctx context.Context, j bus.Job, quiet, most time.Duration) error
}

// PlannerConfig holds the settings of a Planner.
type PlannerConfig struct {
	Policy
	Workers int // events handled at once in this process: 4
}

// Planner decides when a merge job is due.
type Planner struct {
	events Events
	jobs   Scheduler
	ledger ledger
	log    *slog.Logger
	cfg    PlannerConfig
	made   *prometheus.CounterVec

	mu      sync.Mutex
	tallies map[dataset.BatchID]tally
}

// tally remembers how much of a batch is unmerged, so that a busy batch is not
// summed up for each of its chunks.
type tally struct {
	bytes      int64
	generation int64
	spread     int64
	read       time.Time // when the catalog was summed up
	asked      time.Time // when so many bytes made a job due; zero after a merge
}

const (
	tallyAge  = 5 * time.Second
	tallyKeep = 10_000 // batches; more of them are summed up anew
)

// NewPlanner makes a Planner that reads and writes the bucket kv.
func NewPlanner(events Events, jobs Scheduler, kv KV, store objstore.Store, cfg PlannerConfig, log *slog.Logger, reg prometheus.Registerer) *Planner {
	cfg.Policy = cfg.Policy.withDefaults()
	if cfg.Workers <= 0 {
		cfg.Workers = 4
	}
	return &Planner{events: events, jobs: jobs, ledger: ledger{store, kv}, log: quietLogger(log), cfg: cfg,
		made: counters(reg, "siltstone_planner_decisions_total", "Triggers by when they make a merge job due.", "due",
			string(Never), string(Later), string(Now)),
		tallies: map[dataset.BatchID]tally{}}
}

// Run handles events until ctx ends.
func (p *Planner) Run(ctx context.Context) error {
	return workers(ctx, p.cfg.Workers, func(ctx context.Context) error {
		return p.events.HandleEvents(ctx, bus.Planner, p.Handle,
			dataset.RowsIngested, dataset.AnnotationUpdated, dataset.RunCompleted)
	})
}

// Handle makes a merge job due if the event calls for one. The catalog is
// written before.
func (p *Planner) Handle(ctx context.Context, e dataset.Event) error {
	t, err := p.trigger(ctx, e)
	if err != nil {
		return err
	}
	d := Decide(t, p.cfg.Policy)
	job := bus.Job{Kind: bus.KindMerge, Batch: e.ID()}
	switch d {
	case Later:
		quiet, most := p.cfg.Waits(t.Spread)
		err = p.jobs.Debounce(ctx, job, quiet, most)
	case Now:
		if err = p.jobs.Enqueue(ctx, job); err == nil {
			p.ask(e.ID())
		}
	}
	if err == nil {
		p.made.WithLabelValues(string(d)).Inc()
	}
	return err
}

func (p *Planner) trigger(ctx context.Context, e dataset.Event) (Trigger, error) {
	if e.Type == dataset.RunCompleted {
		t, err := p.sum(ctx, e.ID(), 0)
		return Trigger{Run: e.State, Unmerged: t.bytes, Asked: !t.asked.IsZero(), Spread: t.spread}, err
	}
	k, ok := chunkOf(e)
	if !ok {
		return Trigger{}, nil
	}
	b := e.ID()
	have, rev, err := get[bus.ChunkEntry](ctx, p.ledger.kv, bus.ChunkKey(b, k.Run, k.Number))
	if err != nil {
		return Trigger{}, err
	}
	if rev == 0 || have.ETag != e.ETag {
		s, err := p.ledger.chunk(ctx, b, k.Run, k.Number, &told{e.ETag, e.Rows})
		if err != nil || s == gone {
			return Trigger{}, err
		}
	}
	t, err := p.sum(ctx, b, e.Bytes)
	if err != nil {
		return Trigger{}, err
	}
	return Trigger{Chunk: true, Unmerged: t.bytes, Asked: !t.asked.IsZero(), Spread: t.spread}, nil
}

// sum adds a chunk to the batch's tally, or sums up the catalog anew when the
// tally is old.
func (p *Planner) sum(ctx context.Context, b dataset.BatchID, bytes int64) (tally, error) {
	p.mu.Lock()
	t, ok := p.tallies[b]
	if ok && time.Since(t.read) < tallyAge {
		t.bytes += bytes
		p.tallies[b] = t
		p.mu.Unlock()
		return t, nil
	}
	p.mu.Unlock()

	now := tally{read: time.Now()}
	entry, _, err := get[bus.BatchEntry](ctx, p.ledger.kv, bus.BatchKey(b))
	if err != nil {
		return tally{}, err
	}
	now.generation, now.spread = entry.Generation, entry.Spread
	for e, err := range p.ledger.kv.List(ctx, bus.ChunksOf(b)) {
		if err != nil {
			return tally{}, err
		}
		if c, err := decode[bus.ChunkEntry](e.Value); err == nil {
			now.bytes += c.Bytes
		}
	}
	if t.generation == now.generation && time.Since(t.asked) < p.cfg.MaxAge {
		now.asked = t.asked
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.tallies) >= tallyKeep {
		clear(p.tallies)
	}
	p.tallies[b] = now
	return now, nil
}

// ask notes that a job is due for all that the batch has now.
func (p *Planner) ask(b dataset.BatchID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t, ok := p.tallies[b]; ok {
		t.asked = time.Now()
		p.tallies[b] = t
	}
}

// damaged reports an error of the stored bytes, which trying again does not
// heal.
func damaged(err error) bool { return errors.Is(err, catalog.ErrDamaged) }
