package merger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
)

// Converter converts datasets batch by batch, and tells how far it is. Any number
// of them may share the work: what is done is what the commit records say, and
// the status of a dataset only sums it up.
type Converter struct {
	engine *Engine
	limit  int64

	mu    sync.Mutex
	plans map[string]plannedAt
}

type plannedAt struct {
	plan ConversionPlan
	at   time.Time
}

const (
	planAge      = time.Minute     // for which the size of a dataset is taken for right
	planKeep     = 1000            // datasets
	progressEach = 5 * time.Second // between two writes of how far a batch is
	fewLeft      = 16              // batches that are looked at once more when nobody works on them
)

// NewConverter makes a converter for datasets of at most limit bytes.
func NewConverter(e *Engine, limit int64) *Converter {
	return &Converter{engine: e, limit: limit, plans: map[string]plannedAt{}}
}

// Plan looks at all batches of a dataset and of its layers.
func (c *Converter) Plan(ctx context.Context, d string) (ConversionPlan, error) {
	ids, err := catalog.AllBatches(ctx, c.engine.store, d)
	if err != nil {
		return ConversionPlan{}, err
	}
	plan := ConversionPlan{Dataset: d, Limit: c.limit}
	found := make([]Convertible, len(ids))
	sizes := make([]int64, len(ids))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(c.engine.cfg.Concurrency)
	for i, b := range ids {
		g.Go(func() (err error) {
			found[i], sizes[i], err = c.look(gctx, b)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return ConversionPlan{}, fmt.Errorf("plan the conversion of %s: %w", d, err)
	}
	for i, f := range found {
		plan.Bytes += sizes[i]
		if f.Files > 0 || f.Err != "" {
			plan.Batches = append(plan.Batches, f)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.plans) >= planKeep {
		clear(c.plans)
	}
	c.plans[d] = plannedAt{plan, c.engine.cfg.Now()}
	return plan, nil
}

// look finds what of a batch is to be converted, and how large the batch is.
func (c *Converter) look(ctx context.Context, b dataset.BatchID) (found Convertible, size int64, err error) {
	found.Batch = b
	h, err := catalog.FindRecord(ctx, c.engine.store, b)
	switch {
	case errors.Is(err, catalog.ErrDamaged):
		found.Err = err.Error()
		return found, 0, nil
	case err != nil:
		return found, 0, err
	case h.Exists() && !h.Record.Deleted:
		found.Files, found.Bytes = inParquet(h.Record)
		return found, h.Record.Bytes, nil
	case !h.Foreign:
		return found, 0, nil
	}
	files, err := listNumbered(ctx, c.engine.store, b)
	if err != nil {
		return found, 0, err
	}
	found.Older = true
	for _, f := range files {
		if f.Kind == dataset.KindDigest {
			continue
		}
		size += f.Size
		if dataset.IsParquetBlock(f.File) {
			found.Files++
			found.Bytes += f.Size
		}
	}
	return found, size, nil
}

// recent gives a plan that is not older than a minute.
func (c *Converter) recent(ctx context.Context, d string) (ConversionPlan, error) {
	c.mu.Lock()
	p, ok := c.plans[d]
	c.mu.Unlock()
	if ok && c.engine.cfg.Now().Sub(p.at) < planAge {
		return p.plan, nil
	}
	return c.Plan(ctx, d)
}

// Begin notes in the status what is to be done.
func (c *Converter) Begin(ctx context.Context, plan ConversionPlan) error {
	if len(plan.Due()) == 0 {
		_, err := catalog.UpdateConversion(ctx, c.engine.store, plan.Dataset, func(s *catalog.Conversion) bool {
			stale := len(s.Pending) > 0 // merges have seen to what was left
			if stale {
				s.Plan(nil, c.engine.cfg.Now())
			}
			return stale
		})
		return err
	}
	now := c.engine.cfg.Now()
	_, err := catalog.UpdateConversion(ctx, c.engine.store, plan.Dataset, func(s *catalog.Conversion) bool {
		s.Plan(plan.pending(), now)
		for _, b := range plan.Due() {
			if b.Err != "" {
				s.Fail(catalog.ConversionName(b.Batch), b.Err, now)
			}
		}
		return true
	})
	return err
}

// Batch converts one batch, or merges it as any merge does where its dataset is
// too large, and tells of it. progress may be nil. A batch that is converted
// already is done at once.
func (c *Converter) Batch(ctx context.Context, b dataset.BatchID, progress func(Progress)) (Result, error) {
	if err := b.Check(); err != nil {
		return Result{Batch: b}, err
	}
	plan, err := c.recent(ctx, b.Dataset)
	if err != nil {
		return Result{Batch: b}, err
	}
	job := &conversion{Converter: c, batch: b, name: catalog.ConversionName(b), show: progress}
	if err := job.begin(ctx, plan); err != nil {
		return Result{Batch: b}, err
	}
	run := c.engine.Convert
	if plan.Over() {
		run = c.engine.mergeShown
	}
	res, err := run(ctx, b, job.progress(ctx))
	if ctx.Err() != nil {
		return res, err // not the batch's fault: whoever goes on tells
	}
	if uerr := job.end(ctx, err); err == nil {
		err = uerr
	}
	return res, err
}

// mergeShown is Merge with a progress of its own.
func (e *Engine) mergeShown(ctx context.Context, b dataset.BatchID, progress func(Progress)) (Result, error) {
	own := *e
	own.cfg.Progress = progress
	return own.Merge(ctx, b)
}

// conversion is the work on one batch.
type conversion struct {
	*Converter
	batch dataset.BatchID
	name  string
	show  func(Progress)
	last  time.Time // of the last note of how far it is
}

// begin notes that the batch is worked on, and the whole plan where no conversion
// is under way.
func (j *conversion) begin(ctx context.Context, plan ConversionPlan) error {
	found, _, err := j.look(ctx, j.batch)
	if err != nil {
		return err
	}
	due := found.Err != "" || found.Files > 0 && (found.Older || !plan.Over())
	if due {
		s, err := catalog.ReadConversion(ctx, j.engine.store, j.batch.Dataset)
		if err != nil {
			return err
		}
		if s.State != catalog.ConversionRunning { // nobody has one that is of this moment
			if plan, err = j.Plan(ctx, j.batch.Dataset); err != nil {
				return err
			}
		}
	}
	now := j.engine.cfg.Now()
	j.last = now
	return j.note(ctx, func(s *catalog.Conversion) bool {
		_, pending := s.Pending[j.name]
		switch {
		case !due:
			return false // done already: end tells
		case s.State != catalog.ConversionRunning:
			s.Plan(plan.pending(), now)
		}
		if !pending {
			s.Add(j.name, found.Bytes, now)
		}
		s.Begin(j.name, catalog.AtWork{By: j.engine.cfg.By, At: now.UTC()})
		return true
	})
}

// progress notes how far the batch is, now and then.
func (j *conversion) progress(ctx context.Context) func(Progress) {
	return func(p Progress) {
		if j.show != nil {
			j.show(p)
		}
		now := j.engine.cfg.Now()
		if now.Sub(j.last) < progressEach {
			return
		}
		j.last = now
		at := catalog.AtWork{By: j.engine.cfg.By, Phase: p.Phase, Done: p.Done, Total: p.Total, At: now.UTC()}
		err := j.note(ctx, func(s *catalog.Conversion) bool {
			if _, pending := s.Pending[j.name]; !pending {
				return false
			}
			s.Begin(j.name, at)
			return true
		})
		if err != nil && ctx.Err() == nil {
			j.engine.log.Warn("cannot tell how far a conversion is", "batch", j.batch.String(), "err", err)
		}
	}
}

// end notes what came out.
func (j *conversion) end(ctx context.Context, failed error) error {
	now := j.engine.cfg.Now()
	var left int
	err := j.note(ctx, func(s *catalog.Conversion) bool {
		_, pending := s.Pending[j.name]
		defer func() {
			if left = len(s.Pending) - len(s.Errors); len(s.Running) > 0 {
				left = 0
			}
		}()
		switch {
		case failed == nil && !pending:
			return false // somebody else has told
		case failed == nil:
			s.Done(j.name, now)
		default:
			s.Fail(j.name, failed.Error(), now)
		}
		return true
	})
	if err != nil || left <= 0 || left > fewLeft {
		return err
	}
	// Nobody works on the last ones: merges may have seen to them.
	plan, err := j.Plan(ctx, j.batch.Dataset)
	if err != nil {
		return err
	}
	return j.note(ctx, func(s *catalog.Conversion) bool { return s.Drop(plan.pending(), now) })
}

// note changes the status and announces it.
func (j *conversion) note(ctx context.Context, change func(*catalog.Conversion) bool) error {
	changed := false
	s, err := catalog.UpdateConversion(ctx, j.engine.store, j.batch.Dataset, func(s *catalog.Conversion) bool {
		changed = change(s)
		return changed
	})
	if err != nil || !changed || j.engine.announce == nil {
		return err
	}
	e := dataset.NewEvent(dataset.ConversionProgress, j.batch, j.engine.cfg.Now())
	e.Seq, e.State = s.Seq, s.State
	e.BatchesDone, e.BatchesTotal, e.BytesDone, e.BytesTotal = &s.BatchesDone, &s.BatchesTotal, &s.BytesDone, &s.BytesTotal
	if err := j.engine.announce.Publish(ctx, e); err != nil {
		j.engine.log.Warn("cannot announce how far a conversion is", "batch", j.batch.String(), "err", err)
	}
	return nil
}
