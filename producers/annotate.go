package producers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/query"
)

// AnnotateFunc annotates one row. An error skips the row: it is counted, and
// tried again by the next run.
type AnnotateFunc func(context.Context, query.Row) (dataset.Annotation, error)

// AnnotateResult says what an annotation has done.
type AnnotateResult struct {
	Dataset   string `json:"dataset"`
	Annotator string `json:"annotator"`
	Done      int64  `json:"done"`   // annotations that are stored
	Failed    int64  `json:"failed"` // rows that were skipped
	// Reasons counts failed rows by what went wrong, the commonest few; the
	// others are counted under "other".
	Reasons map[string]int64 `json:"reasons"`
	Spent   float64          `json:"spent"` // of the budget's field
	Chunks  int64            `json:"chunks"`
	Bytes   int64            `json:"bytes"`
	Token   int64            `json:"token"` // of the lease
	// Total is how many merged rows the batches have that are not annotated,
	// whatever the filter says of them; -1 where it is not known.
	Total int64 `json:"total"`
	// Stopped is "budget" or "stopped" where rows were left for that reason.
	Stopped string `json:"stopped,omitempty"`
}

// The reasons for which rows are left.
const (
	StoppedByBudget = "budget"
	StoppedByCaller = "stopped"
)

// maxReasons bounds the reasons that are told apart.
const maxReasons = 20

// layerAge is how long an annotation waits to be stored with others: with slow
// annotators a chunk takes long to fill, and people look at what they pay for.
const layerAge = 10 * time.Second

// storeGrace is how long storing what is done may take when everything ends.
const storeGrace = 30 * time.Second

// Annotate runs fn over the merged rows that the annotator has not annotated,
// in (id, batch) order, and stores what it gives as a layer. It holds the
// annotator's lease all the while: ErrLeaseHeld says who has it, and when it is
// lost every call is cancelled, what is done is stored if it still can be, and
// the error is ErrLeaseLost. Where ctx ends, calls are cancelled as well.
//
// An annotation counts as done once it is stored. Fewer annotations than one
// chunk has rows wait for that, over all batches together, so what a crash costs
// are at most so many calls and those under way.
func Annotate(ctx context.Context, store objstore.Store, announce Announcer, locker Locker, log *slog.Logger, ds, annotator string, fn AnnotateFunc, opts ...Option) (AnnotateResult, error) {
	res := AnnotateResult{Dataset: ds, Annotator: annotator, Reasons: map[string]int64{}, Total: -1}
	if err := (dataset.BatchID{Dataset: ds, Batch: "b", Annotator: annotator}).Check(); err != nil {
		return res, err
	}
	if annotator == "" {
		return res, fmt.Errorf("%w: the annotator needs a name", ErrOption)
	}
	o, err := newAnnotateOptions(opts)
	if err != nil {
		return res, err
	}
	lease, err := locker.Acquire(ctx, dataset.LeaseKey(ds, annotator), o.name, o.annotate.lease, o.annotate.wait)
	if err != nil {
		return res, err
	}
	res.Token = lease.Token()
	a := &annotating{
		store: store, announce: announce, log: log, opt: o, dataset: ds, annotator: annotator, fn: fn,
		keeper: keep(ctx, lease, o.annotate.lease, log), res: res,
	}
	a.out = &layerWriter{a: a, batches: map[string]*layerBatch{}}
	defer func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), storeGrace)
		defer stop()
		a.keeper.release(ctx)
	}()
	err = a.run()
	return a.res, err
}

func newAnnotateOptions(opts []Option) (options, error) {
	o, err := newOptions(append([]Option{Concurrency(DefaultConcurrency), LeaseFor(DefaultLease)}, opts...))
	if err != nil {
		return o, err
	}
	if err := o.annotate.check(); err != nil {
		return o, fmt.Errorf("%w: %w", ErrOption, err)
	}
	return o, nil
}

// annotating is one run of Annotate.
type annotating struct {
	store     objstore.Store
	announce  Announcer
	log       *slog.Logger
	opt       options
	dataset   string
	annotator string
	fn        AnnotateFunc
	keeper    *keeper
	out       *layerWriter
	res       AnnotateResult
}

func (a *annotating) run() error {
	ctx := a.keeper.ctx
	batches, err := layerBatches(ctx, a.store, a.dataset, a.annotator)
	if err == nil {
		err = fence(ctx, a.store, a.dataset, a.annotator, batches)
	}
	if err != nil {
		return a.cause(err)
	}
	err = a.passes(ctx)
	storing, stop := context.WithTimeout(context.WithoutCancel(ctx), storeGrace)
	defer stop()
	if cerr := a.out.closeAll(storing); err == nil {
		err = cerr
	}
	return a.cause(err)
}

// cause is why the work ended, where that is more than an error that came of it.
func (a *annotating) cause(err error) error {
	if lost := context.Cause(a.keeper.ctx); errors.Is(lost, ErrLeaseLost) {
		return lost
	}
	if errors.Is(err, ErrRunTaken) { // by who holds the lease now
		return fmt.Errorf("%w: %w", ErrLeaseLost, err)
	}
	return err
}

// passes annotates what there is, and then, where it is to follow, what is merged
// later.
func (a *annotating) passes(ctx context.Context) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	if stop := a.opt.annotate.stop; stop != nil {
		go func() {
			select {
			case <-stop:
				cancel()
			case <-waiting.Done():
			}
		}()
	}
	for batches := a.opt.annotate.batches; ; {
		err := a.rows(ctx, batches)
		if errors.Is(err, dataset.ErrNotMerged) && a.opt.annotate.follow != nil {
			err = nil
		}
		if err != nil || a.res.Stopped != "" || a.opt.annotate.follow == nil {
			return err
		}
		if err := a.out.flushAll(ctx); err != nil {
			return err
		}
		a.tell()
		if batches, err = a.opt.annotate.follow(waiting); err != nil {
			if waiting.Err() != nil && ctx.Err() == nil {
				a.res.Stopped = StoppedByCaller
				return nil
			}
			return err
		}
	}
}

// input is what is read: the rows that the annotator has not annotated.
func (a *annotating) input(ctx context.Context, batches []string) (query.Options, error) {
	o := query.Options{Dataset: a.dataset, Batches: batches, Columns: a.opt.annotate.columns, Where: a.opt.annotate.where, Missing: a.annotator}
	var known []string
	for _, c := range o.Columns {
		name, _, dotted := strings.Cut(c, ".")
		if !dotted {
			continue
		}
		if known == nil {
			var err error
			if known, err = catalog.Annotators(ctx, a.store, a.dataset); err != nil {
				return o, err
			}
		}
		if slices.Contains(known, name) && !slices.Contains(o.Annotators, name) {
			o.Annotators = append(o.Annotators, name)
		}
	}
	return o, nil
}

// rows annotates rows until there are no more, or something ends the work.
func (a *annotating) rows(ctx context.Context, batches []string) error {
	o, err := a.input(ctx, batches)
	if err != nil {
		return err
	}
	var opened query.Opened
	o.Opened = func(op query.Opened) { opened = op }
	w := newWorkers(ctx, a.fn, a.opt.annotate)
	go w.read(query.Rows(w.reading, a.store, o))
	// Whatever ends this, no call is left behind.
	defer w.end()
	timer := time.NewTimer(layerAge)
	defer timer.Stop()
	for {
		select {
		case out, ok := <-w.results:
			if !ok {
				if w.err != nil {
					return w.err
				}
				a.res.Stopped = w.stopped()
				if opened.Rows == 0 && a.res.Stopped == "" {
					return a.empty(ctx)
				}
				return nil
			}
			if err := a.take(ctx, out); err != nil {
				return err
			}
			if a.res.Total < 0 && a.opt.annotate.where == nil {
				a.res.Total = opened.Rows - opened.Annotated
			}
			if b := a.opt.annotate.budget; b.Limit > 0 && a.res.Spent >= b.Limit {
				w.stop(StoppedByBudget)
			}
		case <-timer.C:
			timer.Reset(layerAge)
			if a.out.unsaved > 0 && a.opt.now().Sub(a.out.since) >= layerAge {
				if err := a.out.flushAll(ctx); err != nil {
					return err
				}
				a.tell()
			}
		}
	}
}

// take counts an outcome, and stores an annotation. What was done when the lease
// was lost is tried to be stored as well.
func (a *annotating) take(ctx context.Context, out outcome) error {
	if errors.Is(out.err, ErrGiveUp) {
		return out.err
	}
	row := dataset.Row{}
	data, meta, err := out.encode()
	if err == nil {
		row, err = dataset.AnnotationRow(out.row.Batch, out.row.ID, a.opt.now(), data, meta)
	}
	if field := a.opt.annotate.budget.Field; field != "" {
		a.res.Spent += spent(meta, field) // failed or not, it was paid for
	}
	if err != nil {
		a.fail(err)
		a.tell()
		return nil
	}
	err = a.out.add(context.WithoutCancel(ctx), out.row.Batch, row)
	a.tell()
	return err
}

func (a *annotating) fail(err error) {
	a.res.Failed++
	reason := err.Error()
	if len(reason) > 200 {
		reason = strings.ToValidUTF8(reason[:200], "") + "…"
	}
	if _, known := a.res.Reasons[reason]; !known && len(a.res.Reasons) >= maxReasons {
		reason = "other"
	}
	a.res.Reasons[reason]++
}

func (a *annotating) tell() {
	if a.opt.annotate.progress != nil {
		a.opt.annotate.progress(a.res)
	}
}

// empty leaves a layer behind for a dataset of no rows: that it was annotated is
// not the same as that nobody has.
func (a *annotating) empty(ctx context.Context) error {
	batches := a.opt.annotate.batches
	if batches == nil {
		ids, err := catalog.Batches(ctx, a.store, a.dataset)
		if err != nil {
			return err
		}
		for _, id := range ids {
			batches = append(batches, id.Batch)
		}
	}
	for _, name := range batches {
		id := dataset.BatchID{Dataset: a.dataset, Batch: name, Annotator: a.annotator}
		base, err := catalog.FindRecord(ctx, a.store, dataset.BatchID{Dataset: a.dataset, Batch: name})
		if err != nil {
			return err
		}
		layer, err := catalog.Open(ctx, a.store, id)
		if err != nil {
			return err
		}
		if !base.Exists() || base.Record.Deleted || layer.Head.Exists() || len(layer.Live) > 0 {
			continue
		}
		if err := a.out.empty(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// spent is the number in a field of metadata, 0 where there is none.
func spent(meta []byte, field string) float64 {
	raw, ok := (dataset.Row{Raw: meta}).Column(field)
	if !ok {
		return 0
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
