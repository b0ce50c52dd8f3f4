package merger

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// Announcer tells the rest of the system what has happened.
type Announcer interface {
	Publish(ctx context.Context, e dataset.Event) error
}

// Engine merges batches. It keeps nothing between merges but copies of digest
// files, which spare it to read them again, and any number of engines may merge
// one batch at once: all but one of them work in vain.
type Engine struct {
	store    objstore.Store
	announce Announcer
	cfg      Config
	log      *slog.Logger
	metrics  *Metrics
	held     *digestCache
	convert  bool // parquet blocks are written anew as JSON lines
}

// New is an engine on a store. announce may be nil: then nobody is told. log
// may be nil too.
func New(store objstore.Store, announce Announcer, cfg Config, log *slog.Logger, reg prometheus.Registerer) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	cfg = cfg.withDefaults()
	return &Engine{store: store, announce: announce, cfg: cfg, log: log, metrics: NewMetrics(reg), held: newDigestCache(cfg.DigestCache)}, nil
}

// maxAttempts bounds the attempts of one merge. Of those that race for one
// commit one wins, so many lost in a row mean more mergers than work.
const maxAttempts = 25

// Merge absorbs the live chunks of a batch. It returns when a commit of its
// own holds or nothing is left to do, and the current generation is announced.
// The merge of any batch of a layer first splits the layer's older chunks.
// An error after the commit leaves Committed true: the next merge does what is
// left.
func (e *Engine) Merge(ctx context.Context, b dataset.BatchID) (Result, error) {
	if err := b.Check(); err != nil {
		return Result{Batch: b}, err
	}
	start := e.cfg.Now()
	if b.Annotator != "" {
		if _, err := e.Split(ctx, b.Dataset, b.Annotator); err != nil {
			return Result{Batch: b}, fmt.Errorf("merge %s: %w", b, err)
		}
	}
	res, err := e.attempts(ctx, b, func(ctx context.Context, a *attempt) (Result, error) { return a.run(ctx) })
	res.Batch, res.Took = b, e.cfg.Now().Sub(start)
	e.report(res, err)
	if err != nil {
		return res, fmt.Errorf("merge %s: %w", b, err)
	}
	return res, nil
}

// attempts makes attempts until one ends well.
func (e *Engine) attempts(ctx context.Context, b dataset.BatchID, try func(context.Context, *attempt) (Result, error)) (Result, error) {
	var faulty, cause string
	for n := 1; ; n++ {
		a := &attempt{Engine: e, batch: b, start: e.cfg.Now()}
		res, err := try(ctx, a)
		res.Attempts = n
		var fault *faultyFile
		switch {
		case err == nil || res.Committed || ctx.Err() != nil:
			return res, err
		case errors.As(err, &fault):
			at := fmt.Sprintf("%s@%d/%s", fault.key, a.head.Record.Generation, a.head.Record.Commit)
			if at == faulty {
				return res, fault.damage(a.head.Record.Generation)
			}
			faulty, cause = at, "changed"
		case errors.Is(err, objstore.ErrLost), errors.Is(err, objstore.ErrUnknown):
			cause = "lost"
		case errors.Is(err, errAgain):
			cause = "changed"
		default:
			return res, err
		}
		e.metrics.Attempts.WithLabelValues(cause).Inc()
		e.log.Debug("merge starts again", "batch", b.String(), "attempt", n, "cause", err)
		if n == maxAttempts {
			return res, fmt.Errorf("no commit after %d attempts, others change the batch all the time: %w", n, err)
		}
	}
}

func (e *Engine) report(res Result, err error) {
	log := e.log.With("batch", res.Batch.String(), "generation", res.Generation)
	switch {
	case res.Committed:
		log.Info("merged", "commit", res.Commit, "rows", res.Rows, "chunks", res.Chunks, "added", res.Added,
			"duplicates", res.Duplicates, "rejected", res.Rejected, "id_conflicts", res.IDConflicts, "full_pass", res.FullPass,
			"blocks_written", res.Written, "blocks_kept", res.Kept, "attempts", res.Attempts, "took", res.Took)
		e.metrics.Merges.WithLabelValues("committed").Inc()
		e.metrics.Seconds.Observe(res.Took.Seconds())
		for fate, n := range map[string]int64{"added": res.Added, "duplicate": res.Duplicates, "rejected": res.Rejected, "conflict": res.IDConflicts} {
			e.metrics.Rows.WithLabelValues(fate).Add(float64(n))
		}
	case err != nil:
		e.metrics.Merges.WithLabelValues("failed").Inc()
	case res.Deleted:
		log.Info("not merged: the batch was deleted")
		e.metrics.Merges.WithLabelValues("deleted").Inc()
	default:
		log.Debug("nothing to merge")
		e.metrics.Merges.WithLabelValues("idle").Inc()
	}
}

// commitID draws a fresh commit id.
func (e *Engine) commitID() (string, error) {
	var b [8]byte
	if _, err := io.ReadFull(e.cfg.Random, b[:]); err != nil {
		return "", fmt.Errorf("draw commit id: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// sorter is a sorter with a share of the memory of a merge.
func (e *Engine) sorter(dir string, share int64) *block.Sorter {
	return block.NewSorter(dir, max(e.cfg.Memory/share, 1))
}

func (e *Engine) progress(phase string, done, total int64) {
	if e.cfg.Progress != nil {
		e.cfg.Progress(Progress{Phase: phase, Done: done, Total: total})
	}
}

// since is the time that an attempt has taken, in milliseconds.
func (e *Engine) since(t time.Time) int64 { return e.cfg.Now().Sub(t).Milliseconds() }
