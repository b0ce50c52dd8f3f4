package producers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/query"
)

// storeGrace is how long annotations that are done may take to be stored once
// the lease or the caller's context has ended.
const storeGrace = 15 * time.Second

// Annotate calls fn for each merged row of a dataset that the annotator has not
// annotated, in (id, batch) order, several at once, and stores what it gives in
// the annotator's layer. Each call's annotation is stored in a chunk with others
// and is safe from then on: whoever runs the same annotator later goes on with
// the rest, also with the rows whose calls failed. When the process is killed, at
// most as many calls are lost as a chunk has rows and as run at once.
//
// It holds the annotator's lease while it works, and renews it a minute before
// its end. When that fails, every call is cancelled, what is done is stored, and
// the error is ErrLeaseLost. The result says what was done beside an error too.
func Annotate(ctx context.Context, store objstore.Store, announce Announcer, locker Locker, log *slog.Logger,
	ds, annotator string, fn Func, opts ...AnnotateOption) (AnnotateResult, error) {
	left := new(atomic.Int64)
	return AnnotateWith(ctx, store, announce, locker, log, ds, annotator,
		func(int) (Worker, error) { return funcWorker{fn, left}, nil }, opts...)
}

// AnnotateWith is Annotate with a Worker for each slot of the concurrency.
func AnnotateWith(ctx context.Context, store objstore.Store, announce Announcer, locker Locker, log *slog.Logger,
	ds, annotator string, workers func(slot int) (Worker, error), opts ...AnnotateOption) (AnnotateResult, error) {
	res := AnnotateResult{Dataset: ds, Annotator: annotator, Reasons: []Reason{}}
	if err := errors.Join(dataset.CheckDataset(ds), dataset.CheckAnnotator(annotator)); err != nil {
		return res, err
	}
	o, w, err := newAnnotateOptions(opts)
	if err != nil {
		return res, fmt.Errorf("annotate %s with %s: %w", ds, annotator, err)
	}
	// A lease of a dataset that is not there would look like a dataset.
	if err := probe(ctx, store, ds, o); err != nil {
		return res, err
	}
	lease, err := locker.Acquire(ctx, dataset.LeaseKey(ds, annotator), w.name, o.leaseTTL, o.leaseWait)
	if err != nil {
		return res, fmt.Errorf("annotate %s with %s: %w", ds, annotator, err)
	}
	a := &annotating{
		store: store, announce: announce, log: log, ds: ds, annotator: annotator, o: o, writer: w,
		tokens:  make(chan struct{}, w.chunkRows+o.concurrency),
		pace:    newPacer(o.rate),
		reasons: &reasons{seen: map[string]*Reason{}},
		looked:  map[string]look{},
	}
	a.layer = &layer{open: a.openRun, most: int64(w.chunkRows), parts: map[string]*part{}}
	err = a.run(ctx, lease, workers)
	a.result(&res)
	return res, err
}

// probe says whether there is anything to read, in the words of a reader.
func probe(ctx context.Context, store objstore.Store, ds string, o annotateOptions) error {
	for _, err := range query.Rows(ctx, store, query.Options{Dataset: ds, Batches: o.batches, Limit: 1, WorkDir: o.workDir}) {
		if err != nil && !(o.merges != nil && errors.Is(err, dataset.ErrNotMerged)) {
			return err
		}
		break
	}
	return nil
}

// annotating is one worker's stay with an annotator.
type annotating struct {
	store     objstore.Store
	announce  Announcer
	log       *slog.Logger
	ds        string
	annotator string
	o         annotateOptions
	writer    options

	fence *fence
	layer *layer
	// tokens are held from a call's beginning until its annotation is stored.
	tokens  chan struct{}
	pace    *pacer
	reasons *reasons
	workers []Worker
	tally   tally

	// work ends when no call may begin any more, calls when those that run are
	// cancelled, storing when nothing may be stored any more.
	work, calls, storing context.Context
	stopWork, stopCalls  context.CancelCauseFunc

	looked  map[string]look // by batch
	failed  failedRows
	sums    Result // at the end
	runs    int
	unknown []string
	scale   scale
}

var (
	errDrained  = errors.New("interrupted")
	errBudget   = errors.New("the budget is spent")
	errFinished = errors.New("finished")
)

// run does the work under a lease, and gives the lease back.
func (a *annotating) run(ctx context.Context, lease Lease, workers func(int) (Worker, error)) error {
	var stopStoring context.CancelCauseFunc
	a.calls, a.stopCalls = context.WithCancelCause(ctx)
	a.work, a.stopWork = context.WithCancelCause(a.calls)
	a.storing, stopStoring = context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopStoring(errFinished)
	defer context.AfterFunc(a.o.drain, func() { a.stopWork(errDrained) })()
	defer context.AfterFunc(a.calls, func() {
		time.AfterFunc(storeGrace, func() { stopStoring(context.Cause(a.calls)) })
	})()
	a.fence = newFence(lease, a.ds+"/"+a.annotator, a.o.leaseTTL, a.log, func(err error) { a.stopCalls(err) })

	var background sync.WaitGroup
	kept, stopKeeping := context.WithCancel(a.storing)
	background.Go(func() { a.fence.run(kept) })
	if a.o.progress != nil {
		background.Go(func() { a.tellProgress(kept) })
	}
	err := a.passes(workers)
	err = errors.Join(err, a.dismiss())
	var closeErr error
	a.sums, a.runs, closeErr = a.layer.close(a.storing)
	stopKeeping()
	background.Wait()
	return a.outcome(ctx, lease, err, closeErr)
}

// passes goes through all rows, and then through those that come.
func (a *annotating) passes(workers func(int) (Worker, error)) error {
	for slot := range a.o.concurrency {
		w, err := workers(slot)
		if err != nil {
			return err
		}
		a.workers = append(a.workers, w)
	}
	if err := a.survey(); err != nil {
		return a.quiet(err)
	}
	if err := a.besides(); err != nil {
		return a.quiet(err)
	}
	if a.o.merges != nil {
		return a.follow()
	}
	return a.pass(a.options())
}

// dismiss ends the workers, all at once: each may take its time.
func (a *annotating) dismiss() error {
	var g errgroup.Group
	errs := make([]error, len(a.workers))
	for i, w := range a.workers {
		g.Go(func() error {
			errs[i] = w.Close()
			return nil
		})
	}
	_ = g.Wait()
	return errors.Join(errs...)
}

// besides adds the layers that columns are asked of, as A.field.
func (a *annotating) besides() error {
	var known []string
	for _, c := range a.o.columns {
		name, _, dotted := strings.Cut(c, ".")
		if !dotted {
			continue
		}
		if known == nil {
			var err error
			if known, err = catalog.Annotators(a.work, a.store, a.ds); err != nil {
				return err
			}
		}
		if slices.Contains(known, name) && !slices.Contains(a.o.beside, name) {
			a.o.beside = append(slices.Clip(a.o.beside), name)
		}
	}
	return nil
}

// quiet leaves out errors that only say that the work was stopped.
func (a *annotating) quiet(err error) error {
	if err != nil && a.work.Err() != nil {
		return nil
	}
	return err
}

func (a *annotating) options() query.Options {
	return query.Options{
		Dataset: a.ds, Batches: a.o.batches, Columns: a.o.columns, Annotators: a.o.beside, Missing: a.annotator,
		Where: a.o.where, SQL: a.o.sql, WorkDir: a.o.workDir, Unknown: func(columns []string) { a.unknown = columns },
	}
}

// openRun starts the run of a batch. Before its first chunk the lease is renewed:
// whoever holds it later has seen the run's manifest then, and can seal the run.
func (a *annotating) openRun(ctx context.Context, batch string, sealed func(int64)) (*Writer, error) {
	opts := append(a.o.writer[:len(a.o.writer):len(a.o.writer)],
		Name(a.writer.name), underLease(a.fence.lease.Token(), sealed), OnStored(a.stored))
	w, err := OpenBatch(ctx, a.store, a.announce, a.log, dataset.BatchID{Dataset: a.ds, Batch: batch, Annotator: a.annotator}, opts...)
	if err != nil {
		return nil, err
	}
	if err := a.fence.prove(ctx); err != nil {
		_, _ = w.Abort(ctx) // or the next holder ends it
		return nil, err
	}
	return w, nil
}

// stored notes that annotations are safe.
func (a *annotating) stored(ids []string) {
	a.tally.count(func(t *tally) { t.stored += int64(len(ids)) })
	for range ids {
		<-a.tokens
	}
}

// outcome gives the lease back, and picks the error that says most.
func (a *annotating) outcome(ctx context.Context, lease Lease, err, closeErr error) error {
	if cause := context.Cause(a.calls); cause != nil && (ctx.Err() == nil || errors.Is(cause, ErrLeaseLost)) {
		err = cause
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = a.explain(closeErr)
	}
	if errors.Is(err, ErrLeaseLost) {
		return err
	}
	releasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if rerr := lease.Release(releasing); rerr != nil {
		a.log.Warn("the lease could not be given back; it ends by itself", "lease", a.fence.name, "err", rerr)
	}
	return err
}

// explain tells a name that is taken as what it means here.
func (a *annotating) explain(err error) error {
	if errors.Is(err, ErrRunTaken) && !errors.Is(err, ErrLeaseLost) {
		return &leaseError{fmt.Sprintf("the lease of %s was taken over, and its next holder has ended this run", a.fence.name), err}
	}
	return err
}

// fail ends everything because of an error.
func (a *annotating) fail(err error) { a.stopCalls(a.explain(err)) }

func (a *annotating) result(res *AnnotateResult) {
	t := &a.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	res.Rows, res.Failed, res.Unstored, res.Calls = a.sums.Rows, t.failed, t.answered-a.sums.Rows, t.calls
	res.Runs, res.Chunks, res.Bytes = a.runs, a.sums.Chunks, a.sums.Bytes
	res.Reasons, res.Unknown = a.reasons.list(), a.unknown
	if a.o.budget != nil {
		res.Spent = &t.spent
	}
	switch cause := context.Cause(a.work); {
	case errors.Is(cause, ErrLeaseLost):
		res.Stopped = StoppedByLease
	case errors.Is(cause, errBudget):
		res.Stopped = StoppedByBudget
	case errors.Is(cause, errDrained), errors.Is(cause, context.Canceled), errors.Is(cause, context.DeadlineExceeded):
		res.Stopped = StoppedByInterrupt
	}
}

// survey ends what earlier workers have left open, and then looks what there is.
func (a *annotating) survey() error {
	s := &sealing{store: a.store, within: a.writer.retryFor}
	parts, err := catalog.LayerBatches(a.work, a.store, a.ds, a.annotator)
	if err != nil {
		return err
	}
	if err := a.unsplit(); err != nil {
		return err
	}
	var mu sync.Mutex
	err = eachOf(a.work, parts, func(ctx context.Context, b dataset.BatchID) error {
		found, err := s.part(ctx, b)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		a.scale.annotated.Add(found.rows)
		if !found.empty {
			a.looked[b.Batch] = look{layer: true}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return a.measure()
}

// unsplit refuses annotations that nobody can read yet.
func (a *annotating) unsplit() error {
	for info, err := range a.store.List(a.work, dataset.OldChunkDir(a.ds, a.annotator)+"chunk_", "") {
		if err != nil {
			return fmt.Errorf("list older chunks: %w", err)
		}
		if dataset.ParseKey(info.Key).Kind == dataset.KindOldChunk && info.Size > 0 {
			return fmt.Errorf("layer %s of %s: %w: %s is of an older tool, and a merge has to split it first", a.annotator, a.ds, dataset.ErrNotMerged, info.Key)
		}
	}
	return nil
}
