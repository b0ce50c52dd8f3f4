package consumers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore"
)

// Notifications hands store notifications to a handler, as *bus.Bus does.
type Notifications interface {
	HandleNotifications(ctx context.Context, durable string, fn func(context.Context, []byte) error) error
}

// Publisher stores events, as *bus.Bus does; reports of one happening become
// one event.
type Publisher interface {
	Publish(ctx context.Context, e dataset.Event) error
}

// NormalizerConfig holds the settings of a Normalizer.
type NormalizerConfig struct {
	Bucket string // the store's bucket: notifications of others are ignored
	Prefix string // and what lies elsewhere in it
	// Lag is how long a writer has to announce by itself, in more detail, what
	// the store notifies of: 1 s. Negative: no time at all.
	Lag time.Duration
	Policy
}

// Normalizer turns what the store notifies of into domain events.
type Normalizer struct {
	notes  Notifications
	events Publisher
	jobs   Scheduler
	store  objstore.Store
	cfg    NormalizerConfig
	log    *slog.Logger
	lag    lag
	seen   *prometheus.CounterVec
}

// The values of the normalizer's counter.
const (
	sawEvent   = "event"   // became an event
	sawTrigger = "trigger" // a run began, or an older tool left something: schedules a job
	sawIgnored = "ignored" // what siltstone itself wrote, or not of a dataset
	sawForeign = "foreign" // another bucket or prefix
	sawUnknown = "unknown" // a record of an unknown form or event
	sawTest    = "test"    // a test message of the store
	sawPoison  = "poison"  // no notification at all
	sawDamaged = "damaged" // of a record or manifest that cannot be read
)

// NewNormalizer makes a Normalizer. Keys of the store are relative to the
// prefix; keys in notifications are not.
func NewNormalizer(notes Notifications, events Publisher, jobs Scheduler, store objstore.Store, cfg NormalizerConfig, log *slog.Logger, reg prometheus.Registerer) (*Normalizer, error) {
	if cfg.Bucket == "" {
		return nil, errors.New("normalizer: no bucket given: notifications of which one count?")
	}
	if p := strings.Trim(cfg.Prefix, "/"); p != "" {
		cfg.Prefix = p + "/"
	} else {
		cfg.Prefix = ""
	}
	if cfg.Lag == 0 {
		cfg.Lag = time.Second
	}
	cfg.Policy = cfg.Policy.withDefaults()
	return &Normalizer{notes: notes, events: events, jobs: jobs, store: store, cfg: cfg, log: quietLogger(log), lag: lag{span: cfg.Lag},
		seen: counters(reg, "siltstone_notifications_total", "Records of store notifications by what became of them.", "outcome",
			sawEvent, sawTrigger, sawIgnored, sawForeign, sawUnknown, sawTest, sawPoison, sawDamaged)}, nil
}

// Run handles notifications until ctx ends.
func (n *Normalizer) Run(ctx context.Context) error {
	return n.notes.HandleNotifications(ctx, bus.Normalizer, n.Handle)
}

// Handle turns one notification into events. Nothing that a store can send
// blocks those after it: what is not understood is counted and done with. An
// error means that the store or NATS failed; the records that did succeed then
// come again under the ids that they had.
func (n *Normalizer) Handle(ctx context.Context, payload []byte) error {
	note := parseNote(payload)
	switch {
	case note.test:
		n.seen.WithLabelValues(sawTest).Inc()
	case note.none != "":
		n.seen.WithLabelValues(sawPoison).Inc()
		n.log.Warn("a notification is not understood and skipped", keyErr, note.none, "bytes", len(payload))
	}
	n.seen.WithLabelValues(sawUnknown).Add(float64(note.unknown))
	var failed error
	for _, r := range note.records {
		outcome, err := n.one(ctx, r)
		if damaged(err) {
			n.log.Error("a notification names a damaged object and is skipped", keyKey, r.S3.Object.Key, keyErr, err)
			outcome, err = sawDamaged, nil
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("notification of %s: %w", r.S3.Object.Key, err))
			continue
		}
		n.seen.WithLabelValues(outcome).Inc()
	}
	return failed
}

func (n *Normalizer) one(ctx context.Context, r record) (string, error) {
	if r.S3.Bucket.Name != n.cfg.Bucket {
		return sawForeign, nil
	}
	if !r.created() && !r.removed() {
		return sawUnknown, nil
	}
	k, object, outcome, err := n.resolve(ctx, r)
	if err != nil || outcome != "" {
		return outcome, err
	}
	at := r.Time
	if at.IsZero() {
		at = time.Now()
	}
	if r.removed() {
		if k.Kind != dataset.KindChunk {
			return sawIgnored, nil
		}
		e := dataset.NewEvent(dataset.ObjectsDeleted, k.Batch, at)
		e.Key, e.Sequencer = object, r.S3.Object.Sequencer
		return sawEvent, n.events.Publish(ctx, e)
	}
	switch k.Kind {
	case dataset.KindChunk:
		if err := n.lag.wait(ctx, r.Time); err != nil {
			return "", err
		}
		return sawEvent, n.events.Publish(ctx, putEvent(k.Batch, object, r.S3.Object.ETag, r.S3.Object.Size, at))
	case dataset.KindRun:
		return n.run(ctx, k, r.Time)
	case dataset.KindCommit:
		if err := n.lag.wait(ctx, r.Time); err != nil {
			return "", err
		}
		h, err := catalog.ReadHead(ctx, n.store, k.Batch)
		switch {
		case err != nil:
			return sawIgnored, err
		case h.Foreign:
			return n.older(ctx, k)
		case !h.Exists():
			return sawIgnored, nil
		}
		return sawEvent, n.events.Publish(ctx, mergeEvent(h))
	case dataset.KindLegacy, dataset.KindOldChunk:
		return n.older(ctx, k)
	}
	return sawIgnored, nil
}

// older makes a job due for what an older tool has left. Its blocks alone are
// left to the reconciler: most blocks are our own.
func (n *Normalizer) older(ctx context.Context, k dataset.Key) (string, error) {
	job, due, err := olderJob(ctx, n.store, k)
	if err != nil || !due {
		return sawIgnored, err
	}
	return sawTrigger, n.jobs.Debounce(ctx, job, n.cfg.Quiet, n.cfg.MaxAge)
}

// putEvent announces a chunk.
func putEvent(b dataset.BatchID, key, etag string, size int64, at time.Time) dataset.Event {
	t := dataset.RowsIngested
	if b.Annotator != "" {
		t = dataset.AnnotationUpdated
	}
	e := dataset.NewEvent(t, b, at)
	e.Key, e.ETag, e.Bytes = key, etag, size
	return e
}

// mergeEvent announces the generation of a record.
func mergeEvent(h catalog.Head) dataset.Event {
	r := h.Record
	t := dataset.BatchMerged
	if r.ID().Annotator != "" {
		t = dataset.AnnotationUpdated
	}
	e := dataset.NewEvent(t, r.ID(), r.CommittedAt)
	e.Generation, e.Commit, e.Rows, e.Bytes = r.Generation, r.Commit, &r.Rows, r.Bytes
	e.Duplicates, e.Rejected = r.Duplicates, r.Rejected
	return e
}

// runEvent announces the end of a run.
func runEvent(b dataset.BatchID, m catalog.RunManifest) dataset.Event {
	e := dataset.NewEvent(dataset.RunCompleted, b, m.UpdatedAt)
	e.Run, e.State, e.Rows, e.Chunks, e.Bytes = m.Run, m.State, &m.Rows, m.Chunks, m.Bytes
	return e
}

// closed reports whether a run in that state has ended.
func closed(state string) bool { return state == catalog.RunCompleted || state == catalog.RunFailed }

// run announces the end of a run. The manifest of an open one says how rows are
// deduplicated, which may be news to a batch that is merged already: it makes a
// merge due, as a chunk does.
func (n *Normalizer) run(ctx context.Context, k dataset.Key, at time.Time) (string, error) {
	if err := n.lag.wait(ctx, at); err != nil {
		return "", err
	}
	m, err := catalog.ReadRun(ctx, n.store, k.Batch, k.Run)
	if errors.Is(err, objstore.ErrNotFound) {
		return sawIgnored, nil
	}
	if err != nil {
		return "", err
	}
	if !closed(m.State) {
		h, err := catalog.ReadHead(ctx, n.store, k.Batch)
		if err != nil && !damaged(err) {
			return "", err
		}
		quiet, most := n.cfg.Waits(h.Record.Spread)
		return sawTrigger, n.jobs.Debounce(ctx, bus.Job{Kind: bus.KindMerge, Batch: k.Batch}, quiet, most)
	}
	m.Run = k.Run
	return sawEvent, n.events.Publish(ctx, runEvent(k.Batch, m))
}

// resolve finds what the key of a record names; outcome is set where that is
// nothing of ours. Where the key could be encoded or not and names a thing of
// ours both ways, the store says which of the two it has.
func (n *Normalizer) resolve(ctx context.Context, r record) (k dataset.Key, object, outcome string, err error) {
	outcome = sawForeign
	var objects []string
	for _, key := range spellings(r.S3.Object.Key) {
		rest, ok := strings.CutPrefix(key, n.cfg.Prefix)
		if !ok {
			continue
		}
		outcome = sawIgnored
		if dataset.ParseKey(rest).Kind != dataset.KindUnknown {
			objects = append(objects, rest)
		}
	}
	if len(objects) == 0 {
		return k, "", outcome, nil
	}
	if len(objects) > 1 {
		_, err := stat(ctx, n.store, objects[0])
		if errors.Is(err, objstore.ErrNotFound) {
			if _, err = stat(ctx, n.store, objects[1]); err == nil {
				objects = objects[1:]
			}
		}
		if err != nil && !errors.Is(err, objstore.ErrNotFound) {
			return k, "", "", err
		}
	}
	return dataset.ParseKey(objects[0]), objects[0], "", nil
}
