package consumers

import (
	"context"
	"errors"
	"hash/maphash"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore"
)

// ReconcilerBus is what a Reconciler needs of the bus.
type ReconcilerBus interface {
	Leader
	Scheduler
	Publisher
	Jobs(ctx context.Context) iter.Seq2[bus.JobState, error]
}

// ReconcilerConfig holds the settings of a Reconciler.
type ReconcilerConfig struct {
	Page   int           // keys compared in a turn, and one LIST request: 1000
	Hot    time.Duration // between turns where somebody writes or watches: 5 s
	Cold   time.Duration // between turns elsewhere: 30 s
	HotFor time.Duration // how long after the last sign of that: 10 min
	Policy
}

// Reconciler compares the store with the catalog and puts right what differs:
// chunks, commits and ends of runs of which no event told, entries whose chunk
// is gone, batches that nobody merges. It goes through the whole store once
// when it begins to lead, and then slowly, page by page, for ever; batches that
// are written to, and datasets that somebody watches, have turns of their own.
//
// What it finds it enters and schedules itself, and only then announces: an
// announcement that was made before is a duplicate and reaches nobody.
type Reconciler struct {
	bus    ReconcilerBus
	ledger ledger
	store  objstore.Store
	cfg    ReconcilerConfig
	log    *slog.Logger

	found *prometheus.CounterVec
	bytes prometheus.Counter
	turns *prometheus.CounterVec

	whole *region
	began uint64 // revision of the key that the pass under way began with
	seed  maphash.Seed

	mu      sync.Mutex
	hot     map[string]*hotRegion // by prefix
	settled map[uint64]struct{}   // objects that need no second look in this version
}

type hotRegion struct {
	*region
	until, last time.Time
}

const (
	maxHot     = 1000    // hot regions; the rest waits for its turn in the whole
	maxSettled = 200_000 // versions remembered; more of them are looked at again
)

// The values of the counter of what only a listing told.
const (
	foundChunk  = "chunk"
	foundCommit = "commit"
	foundRun    = "run"
	foundGone   = "gone"
	foundJob    = "job"
)

// NewReconciler makes a Reconciler that reads and writes the bucket kv.
func NewReconciler(b ReconcilerBus, kv KV, store objstore.Store, cfg ReconcilerConfig, log *slog.Logger, reg prometheus.Registerer) *Reconciler {
	if cfg.Page <= 0 {
		cfg.Page = 1000
	}
	if cfg.Hot <= 0 {
		cfg.Hot = 5 * time.Second
	}
	if cfg.Cold <= 0 {
		cfg.Cold = 30 * time.Second
	}
	if cfg.HotFor <= 0 {
		cfg.HotFor = 10 * time.Minute
	}
	cfg.Policy = cfg.Policy.withDefaults()
	r := &Reconciler{bus: b, ledger: ledger{store, kv}, store: store, cfg: cfg, log: quietLogger(log),
		found: counters(reg, "siltstone_reconciler_found_total", "What only a listing told, no event.", "what",
			foundChunk, foundCommit, foundRun, foundGone, foundJob),
		bytes: counter(reg, "siltstone_reconciler_found_bytes_total", "Bytes of the chunks that only a listing told of."),
		turns: counters(reg, "siltstone_reconciler_turns_total", "Turns, each of one LIST page.", "where", "start", "hot", "cold"),
		seed:  maphash.MakeSeed(),
	}
	r.reset()
	return r
}

// reset forgets what an earlier reign has seen.
func (r *Reconciler) reset() {
	r.whole, r.began = wholeRegion(), 0
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hot = map[string]*hotRegion{}
	r.settled = map[uint64]struct{}{}
}

// Watch says that somebody looks at a dataset now: for a while it has turns of
// its own. It may be called at any time.
func (r *Reconciler) Watch(d string) {
	if dataset.CheckDataset(d) == nil {
		r.heat(time.Now(), datasetRegion(d))
	}
}

func (r *Reconciler) heat(now time.Time, regions ...*region) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range regions {
		h := r.hot[g.prefix]
		if h == nil {
			if len(r.hot) >= maxHot {
				return
			}
			h = &hotRegion{region: g}
			r.hot[g.prefix] = h
		}
		h.until = now.Add(r.cfg.HotFor)
	}
}

// hottest gives the hot region whose last turn is longest ago, or nil.
func (r *Reconciler) hottest(now time.Time) *hotRegion {
	r.mu.Lock()
	defer r.mu.Unlock()
	var next *hotRegion
	for prefix, h := range r.hot {
		switch {
		case now.After(h.until):
			delete(r.hot, prefix)
		case next == nil || h.last.Before(next.last):
			next = h
		}
	}
	return next
}

// Run reconciles while this process leads.
func (r *Reconciler) Run(ctx context.Context) error {
	return r.bus.Lead(ctx, "reconciler", func(ctx context.Context) error {
		r.reset()
		err := r.start(ctx)
		for hot, cold := time.Now(), time.Now(); err == nil; {
			now := time.Now()
			next := cold.Add(r.cfg.Cold)
			h := r.hottest(now)
			if at := hot.Add(r.cfg.Hot); h != nil && at.Before(next) {
				next = at
			}
			// Waits are cut short so that a region that becomes hot is heard of.
			if wait := next.Sub(now); wait > 0 {
				err = sleep(ctx, min(wait, r.cfg.Hot))
				continue
			}
			if h != nil && !hot.Add(r.cfg.Hot).After(now) {
				hot, h.last = now, now
				_, terr := r.turn(ctx, h.region, "hot")
				r.complain(ctx, terr)
			} else {
				cold = now
				err = r.coldTurn(ctx)
			}
		}
		return err
	})
}

// coldTurn compares a page of the whole store. Where the bucket was made anew,
// all of it is compared at once, as at the start.
func (r *Reconciler) coldTurn(ctx context.Context) error {
	if seen, err := r.seenWhole(ctx); err == nil && !seen {
		r.whole = wholeRegion()
		return r.start(ctx)
	}
	_, err := r.turn(ctx, r.whole, "cold")
	r.complain(ctx, err)
	return ctx.Err()
}

func (r *Reconciler) complain(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		r.log.Warn("reconciling failed, the next turn tries again", keyErr, err)
	}
}

// start goes through the whole store without pauses, however long the store or
// NATS cannot be reached meanwhile.
func (r *Reconciler) start(ctx context.Context) error {
	for wait := time.Second; ; wait = min(2*wait, r.cfg.Cold) {
		err := r.Pass(ctx)
		if err == nil {
			return nil
		}
		r.complain(ctx, err)
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// Pass compares the whole store with the catalog and then says that the catalog
// is whole. After an error the next Pass goes on where it stopped.
func (r *Reconciler) Pass(ctx context.Context) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	for {
		done, err := r.turn(ctx, r.whole, "start")
		if err != nil {
			return err
		}
		if done {
			return r.finish(ctx)
		}
	}
}

// Turn compares the next page of the whole store with the catalog; done says
// that it was the last one.
func (r *Reconciler) Turn(ctx context.Context) (done bool, err error) {
	return r.turn(ctx, r.whole, "cold")
}

func (r *Reconciler) turn(ctx context.Context, g *region, where string) (done bool, err error) {
	r.turns.WithLabelValues(where).Inc()
	now := time.Now()
	v, err := g.look(ctx, r.ledger.kv, r.store, r.cfg.Page, now.Add(-r.cfg.HotFor))
	if err != nil {
		return false, err
	}
	young := now.Add(-r.cfg.Quiet)
	if where == "start" {
		young = now // its event may be long gone
	}
	if err := r.compare(ctx, v, now, young); err != nil {
		return false, err
	}
	return g.advance(v), nil
}

// startedKey holds the time at which a pass over the whole began. The key lives
// in the bucket itself, so it is gone when the bucket was made anew meanwhile,
// and with it what the pass had entered.
const startedKey = bus.WholeKey + "-started"

func (r *Reconciler) seenWhole(ctx context.Context) (bool, error) {
	_, rev, err := get[at](ctx, r.ledger.kv, bus.WholeKey)
	return rev != 0, err
}

type at struct {
	At time.Time `json:"at"`
}

// begin notes where a pass begins, unless the catalog is whole already or a pass
// goes on where it stopped.
func (r *Reconciler) begin(ctx context.Context) error {
	if seen, err := r.seenWhole(ctx); err != nil || seen {
		r.began = 0
		return err
	}
	_, rev, err := get[at](ctx, r.ledger.kv, startedKey)
	if err != nil || rev != 0 && rev == r.began && r.whole.after != "" {
		return err
	}
	r.whole.after = ""
	rev, ok, err := put(ctx, r.ledger.kv, startedKey, at{time.Now().UTC()}, rev)
	if err == nil && !ok {
		err = errors.New("another process reconciles too")
	}
	r.began = rev
	return err
}

func (r *Reconciler) finish(ctx context.Context) error {
	if r.began == 0 {
		return nil
	}
	_, rev, err := get[at](ctx, r.ledger.kv, startedKey)
	if err != nil {
		return err
	}
	if rev != r.began {
		return errors.New("the catalog bucket was made anew during a pass over the store")
	}
	if _, _, err := put(ctx, r.ledger.kv, bus.WholeKey, at{time.Now().UTC()}, 0); err != nil {
		return err
	}
	_, err = remove(ctx, r.ledger.kv, startedKey, rev)
	r.log.Info("the whole store has been compared with the catalog")
	return err
}

func (r *Reconciler) version(mark, key, etag string) uint64 {
	var h maphash.Hash
	h.SetSeed(r.seed)
	for _, s := range []string{mark, key, etag} {
		_, _ = h.WriteString(s)
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

func (r *Reconciler) settle(v uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.settled) >= maxSettled {
		clear(r.settled)
	}
	r.settled[v] = struct{}{}
}

func (r *Reconciler) isSettled(v uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.settled[v]
	return ok
}

// sortedBatches gives the keys of a map in a fixed order.
func sortedBatches[V any](m map[dataset.BatchID]V) []dataset.BatchID {
	return slices.SortedFunc(maps.Keys(m), func(a, b dataset.BatchID) int { return strings.Compare(a.String(), b.String()) })
}
