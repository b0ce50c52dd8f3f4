package producers

import (
	"context"
	"fmt"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query"
)

// The defaults of an annotator.
const (
	DefaultConcurrency = 16
	// DefaultAnnotationAge is how long an annotation waits for others to fill its
	// chunk: the longest that a slow annotator's work can be lost for.
	DefaultAnnotationAge = 10 * time.Second
)

// AnnotateOption changes how rows are annotated.
type AnnotateOption interface{ annotate(*annotateOptions) }

type annotateOptions struct {
	where       *dataset.Filter
	sql         *query.SQL
	columns     []string
	beside      []string // layers
	batches     []string
	concurrency int
	retries     int
	timeout     time.Duration
	rate        Rate
	budget      *Limit
	progress    func(Progress)
	merges      MergeSource
	drain       context.Context
	leaseTTL    time.Duration
	leaseWait   time.Duration
	workDir     string
	writer      []Option // of the runs
}

type annotateOption func(*annotateOptions)

func (fn annotateOption) annotate(o *annotateOptions) { fn(o) }

// An option of writers is one of annotators too: ChunkRows, RetryFor, Clock.
func (fn Option) annotate(o *annotateOptions) { o.writer = append(o.writer, fn) }

// Where annotates only the rows of which a filter is true.
func Where(f *dataset.Filter) AnnotateOption {
	return annotateOption(func(o *annotateOptions) { o.where = f })
}

// SQL sets what runs the expressions of the filter; one that the process shares
// otherwise.
func SQL(s *query.SQL) AnnotateOption {
	return annotateOption(func(o *annotateOptions) { o.sql = s })
}

// Columns cuts the rows that are annotated down to id, _created_at and these.
func Columns(names ...string) AnnotateOption {
	return annotateOption(func(o *annotateOptions) { o.columns = append([]string{}, names...) })
}

// Annotators lays the layers of others beside the rows, as columns named A.field.
func Annotators(names ...string) AnnotateOption {
	return annotateOption(func(o *annotateOptions) { o.beside = names })
}

// Batches annotates only the rows of these batches.
func Batches(names ...string) AnnotateOption {
	return annotateOption(func(o *annotateOptions) { o.batches = append([]string{}, names...) })
}

// Concurrency sets how many calls run at once.
func Concurrency(n int) AnnotateOption {
	return annotateOption(func(o *annotateOptions) { o.concurrency = n })
}

// Retry sets how often a failed call is made again, after a growing pause,
// before its row is left to the next run.
func Retry(n int) AnnotateOption { return annotateOption(func(o *annotateOptions) { o.retries = n }) }

// Timeout sets how long one call may take; 0 is for ever.
func Timeout(d time.Duration) AnnotateOption {
	return annotateOption(func(o *annotateOptions) { o.timeout = d })
}

// AtRate limits how many calls begin in a second.
func AtRate(r Rate) AnnotateOption { return annotateOption(func(o *annotateOptions) { o.rate = r }) }

// Budget lets no call begin once the sum of a numeric field of the metadata has
// come to the limit. Calls that run by then end, and are paid for.
func Budget(l Limit) AnnotateOption {
	return annotateOption(func(o *annotateOptions) { o.budget = &l })
}

// OnProgress sets a function that is told a few times a second how far it is.
func OnProgress(fn func(Progress)) AnnotateOption {
	return annotateOption(func(o *annotateOptions) { o.progress = fn })
}

// Follow stays when all rows are annotated, and takes new ones as their batches
// merge.
func Follow(s MergeSource) AnnotateOption {
	return annotateOption(func(o *annotateOptions) { o.merges = s })
}

// DrainWhen ends the work early but in order: when ctx ends, no call begins any
// more, and those that run are waited for. To cancel them too, end the context
// of the call.
func DrainWhen(ctx context.Context) AnnotateOption {
	return annotateOption(func(o *annotateOptions) { o.drain = ctx })
}

// LeaseTTL sets how long the lease lasts; it is renewed a minute before its end,
// or after half of it. When the holder dies, the next one waits for that long.
func LeaseTTL(d time.Duration) AnnotateOption {
	return annotateOption(func(o *annotateOptions) { o.leaseTTL = d })
}

// LeaseWait sets how long to wait for a lease that another has.
func LeaseWait(d time.Duration) AnnotateOption {
	return annotateOption(func(o *annotateOptions) { o.leaseWait = d })
}

// WorkDir sets where spill files go; the system's temporary folder otherwise.
func WorkDir(dir string) AnnotateOption {
	return annotateOption(func(o *annotateOptions) { o.workDir = dir })
}

func newAnnotateOptions(opts []AnnotateOption) (annotateOptions, options, error) {
	o := annotateOptions{concurrency: DefaultConcurrency, leaseTTL: DefaultLeaseTTL, drain: context.Background()}
	o.writer = append(o.writer, ChunkAge(DefaultAnnotationAge))
	for _, opt := range opts {
		opt.annotate(&o)
	}
	w, err := newOptions(o.writer)
	if err == nil {
		if err = o.check(w); err != nil {
			err = fmt.Errorf("%w: %w", ErrOption, err)
		}
	}
	return o, w, err
}

func (o *annotateOptions) check(w options) error {
	switch {
	case o.concurrency < 1:
		return fmt.Errorf("concurrency %d: at least 1 is needed", o.concurrency)
	case o.retries < 0:
		return fmt.Errorf("%d retries: the number cannot be negative", o.retries)
	case o.timeout < 0:
		return fmt.Errorf("timeout %s: it cannot be negative (0 turns it off)", o.timeout)
	case o.rate < 0:
		return fmt.Errorf("rate %v: it cannot be negative (0 turns it off)", float64(o.rate))
	case o.leaseTTL < MinLeaseTTL:
		return fmt.Errorf("a lease of %s: at least %s is needed to renew it in time", o.leaseTTL, MinLeaseTTL)
	case w.deduplicateOn != nil:
		return fmt.Errorf("annotations are not deduplicated: they are one for each row")
	case w.onStored != nil:
		return fmt.Errorf("OnStored is for writers")
	}
	for _, b := range o.batches {
		if err := dataset.CheckBatch(b); err != nil {
			return err
		}
	}
	return nil
}
