package consumers

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/index"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore"
)

// Leader runs a task in one process at a time, as *bus.Bus does.
type Leader interface {
	Lead(ctx context.Context, task string, fn func(context.Context) error) error
}

const defaultGrace = 10 * time.Minute

// SweeperConfig holds the settings of a Sweeper.
type SweeperConfig struct {
	catalog.SweepPolicy               // Grace: 10 min
	Interval            time.Duration // between turns: 1 min
	PerTurn             int           // batches swept in one turn at most: 20
	Again               time.Duration // a second sweep so long after a commit, for what losers left late: 24 h
}

// Sweeper deletes what no commit record can name again: replaced blocks after
// the grace period, files of merges that came to nothing, old history.
//
// A batch changes only by commits, so it is swept when what its last commit
// replaced is due, and once more much later. Until then nothing of it is read
// or listed.
type Sweeper struct {
	lead   Leader
	ledger ledger
	done   KV
	store  objstore.Store
	cfg    SweeperConfig
	log    *slog.Logger
	swept  *prometheus.CounterVec
	by     catalog.Committer
	failed map[dataset.BatchID]time.Time // not before; only one turn runs at a time
}

// afterFailure is how long a batch that could not be swept waits: with one that
// never can, others would wait for their turn too.
const afterFailure = time.Hour

// sweptEntry is what is remembered of the last sweep of a batch, in a bucket
// that may be lost: then it is swept once more.
type sweptEntry struct {
	Generation int64     `json:"generation"`
	At         time.Time `json:"at"`
}

func sweptKey(b dataset.BatchID) string { return strings.Replace(bus.BatchKey(b), "batch", "swept", 1) }

// NewSweeper makes a Sweeper: entries is the catalog bucket, done a bucket that
// remembers what was swept when.
func NewSweeper(lead Leader, entries, done KV, store objstore.Store, cfg SweeperConfig, log *slog.Logger, reg prometheus.Registerer) *Sweeper {
	if cfg.Grace <= 0 {
		cfg.Grace = defaultGrace
	}
	if cfg.Interval <= 0 {
		cfg.Interval = time.Minute
	}
	if cfg.PerTurn <= 0 {
		cfg.PerTurn = 20
	}
	if cfg.Again <= 0 {
		cfg.Again = 24 * time.Hour
	}
	host, _ := os.Hostname()
	return &Sweeper{failed: map[dataset.BatchID]time.Time{}, lead: lead, ledger: ledger{store, entries}, done: done, store: store, cfg: cfg, log: quietLogger(log),
		swept: counters(reg, "siltstone_sweeper_deleted_total", "Objects deleted by the sweeper.", "what",
			"garbage", "orphan", "history", "index"),
		by: catalog.Committer{By: fmt.Sprintf("sweeper/%s/%d", host, os.Getpid()), Now: time.Now, Commit: newCommit}}
}

func newCommit() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Run sweeps in turns while this process leads.
func (s *Sweeper) Run(ctx context.Context) error {
	return s.lead.Lead(ctx, "sweeper", func(ctx context.Context) error {
		for {
			if err := sleep(ctx, s.cfg.Interval); err != nil {
				return err
			}
			if err := s.Turn(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("sweep failed, the next turn tries again", keyErr, err)
			}
		}
	})
}

// Turn sweeps the batches that are due.
func (s *Sweeper) Turn(ctx context.Context) error {
	due, err := s.due(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, b := range due {
		if err := s.sweep(ctx, b); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			s.failed[b] = time.Now().Add(afterFailure)
			s.log.Warn("cannot sweep a batch", keyDataset, b.Dataset, keyBatch, b.Batch, keyAnnotator, b.Annotator, keyErr, err)
			failed = err
			continue
		}
		delete(s.failed, b)
	}
	return failed
}

// due gives the batches to sweep in this turn.
func (s *Sweeper) due(ctx context.Context) ([]dataset.BatchID, error) {
	now := time.Now()
	done := map[string]sweptEntry{}
	for e, err := range s.done.List(ctx, "swept.>") {
		if err != nil {
			return nil, err
		}
		if d, err := decode[sweptEntry](e.Value); err == nil {
			done[e.Key] = d
		}
	}
	var due []dataset.BatchID
	for e, err := range s.ledger.kv.List(ctx, bus.BatchKeys) {
		if err != nil {
			return nil, err
		}
		k, err := bus.ParseCatalogKey(e.Key)
		if err != nil {
			continue
		}
		b, err := decode[bus.BatchEntry](e.Value)
		if err == nil && len(due) < s.cfg.PerTurn && now.After(s.failed[k.Batch]) && sweepDue(b, done[sweptKey(k.Batch)], now, s.cfg) {
			due = append(due, k.Batch)
		}
	}
	return due, nil
}

// busyGenerations is how many generations a batch that was never swept may have
// before it is swept although it does not rest.
const busyGenerations = 20

// sweepDue reports whether a moment at which something of the batch becomes
// garbage has passed since it was swept last. A batch that merges all the time,
// and so never has an old commit, is due a grace period after its last sweep.
func sweepDue(b bus.BatchEntry, last sweptEntry, now time.Time, cfg SweeperConfig) bool {
	pause := cfg.Grace + cfg.Grace/20
	if last.At.IsZero() {
		if b.Generation > busyGenerations {
			return true
		}
	} else if last.Generation < b.Generation && now.After(last.At.Add(pause)) {
		return true
	}
	for _, after := range []time.Duration{cfg.Grace, cfg.HistoryMaxAge, cfg.Again} {
		at := b.UpdatedAt.Add(max(after, cfg.Grace))
		at = at.Add(cfg.Grace / 20) // what a commit replaces is noted a moment after its time
		if now.After(at) && (last.Generation < b.Generation || !last.At.After(at)) {
			return true
		}
	}
	return false
}

func (s *Sweeper) sweep(ctx context.Context, b dataset.BatchID) error {
	began := time.Now()
	h, _, err := s.ledger.sync(ctx, b)
	if err != nil || !h.Exists() {
		return err
	}
	n, err := catalog.Sweep(ctx, s.store, b, s.cfg.SweepPolicy, s.by)
	s.swept.WithLabelValues("garbage").Add(float64(n.Garbage))
	s.swept.WithLabelValues("orphan").Add(float64(n.Orphans))
	s.swept.WithLabelValues("history").Add(float64(n.History))
	if err != nil {
		return err
	}
	have, err := index.Numbers(ctx, s.store, b)
	if err != nil {
		return err
	}
	pruned, err := index.Prune(ctx, s.store, h.Record, have, began.Add(-s.cfg.Grace))
	s.swept.WithLabelValues("index").Add(float64(pruned))
	if err != nil {
		return err
	}
	if n.Garbage+n.Orphans > 0 || n.Raised {
		s.log.Info("swept", keyDataset, b.Dataset, keyBatch, b.Batch, keyAnnotator, b.Annotator,
			"garbage", n.Garbage, "orphans", n.Orphans, "raised", n.Raised)
	}
	if n.Raised {
		// A commit of our own: the catalog names it, and a sweep after its grace
		// period takes the files that it ruled out.
		if _, _, err := s.ledger.batch(ctx, b); err != nil {
			return err
		}
	}
	return s.remember(ctx, b, sweptEntry{Generation: h.Record.Generation, At: began.UTC()})
}

func (s *Sweeper) remember(ctx context.Context, b dataset.BatchID, done sweptEntry) error {
	for range rounds {
		_, rev, err := get[sweptEntry](ctx, s.done, sweptKey(b))
		if err != nil {
			return err
		}
		if _, ok, err := put(ctx, s.done, sweptKey(b), done, rev); ok || err != nil {
			return err
		}
	}
	return fmt.Errorf("remember the sweep of %s: %w", b, errBusy)
}
