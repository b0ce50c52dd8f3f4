package producers

import (
	"context"
	"fmt"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
)

// DefaultConcurrency is how many rows are annotated at a time.
const DefaultConcurrency = 16

// annotateOptions are those that only Annotate has.
type annotateOptions struct {
	where       *dataset.Filter
	columns     []string
	batches     []string
	concurrency int
	retry       int
	timeout     time.Duration
	every       time.Duration
	budget      Budget
	lease       time.Duration
	wait        time.Duration
	stop        <-chan struct{}
	progress    func(AnnotateResult)
	follow      Follower
}

// Follower waits until batches have been merged since it was called last, and
// names them. What it named counts as seen when it is called again: whatever
// follows for it must be able to die in between.
type Follower func(context.Context) (batches []string, err error)

// Follow goes on with what is merged while the annotation runs, until it is
// stopped. It does not end for want of rows.
func Follow(f Follower) Option { return func(o *options) { o.annotate.follow = f } }

// Budget ends an annotation when the sum of a numeric field of the metadata,
// such as cost_usd, has passed a limit. Calls under way by then are finished.
type Budget struct {
	Field string
	Limit float64
}

// Where annotates only the rows of which the filter is true.
func Where(f *dataset.Filter) Option { return func(o *options) { o.annotate.where = f } }

// Columns gives the annotator only these columns, beside id and _created_at.
func Columns(names ...string) Option {
	return func(o *options) { o.annotate.columns = append([]string{}, names...) }
}

// Batches annotates only the rows of these batches.
func Batches(names ...string) Option { return func(o *options) { o.annotate.batches = names } }

// Concurrency sets how many rows are annotated at a time.
func Concurrency(n int) Option { return func(o *options) { o.annotate.concurrency = n } }

// Retry sets how many times a row that failed is tried again at once.
func Retry(n int) Option { return func(o *options) { o.annotate.retry = n } }

// Timeout sets how long one try may take; 0 is for ever.
func Timeout(d time.Duration) Option { return func(o *options) { o.annotate.timeout = d } }

// Every sets the least time from the start of one try to that of the next.
func Every(d time.Duration) Option { return func(o *options) { o.annotate.every = d } }

// Spend sets a budget.
func Spend(b Budget) Option { return func(o *options) { o.annotate.budget = b } }

// LeaseFor sets how long the annotator's lease lasts. It is renewed a minute, or
// half of it, before its end.
func LeaseFor(d time.Duration) Option { return func(o *options) { o.annotate.lease = d } }

// WaitForLease sets how long to wait while another annotates under the name.
func WaitForLease(d time.Duration) Option { return func(o *options) { o.annotate.wait = d } }

// StopWhen ends an annotation when stop is closed: no row is begun any more,
// those under way are finished, and all are stored.
func StopWhen(stop <-chan struct{}) Option { return func(o *options) { o.annotate.stop = stop } }

// OnProgress sets a function that is told how far an annotation is, after each
// row. It is called by one goroutine at a time and must be quick.
func OnProgress(fn func(AnnotateResult)) Option { return func(o *options) { o.annotate.progress = fn } }

func (a *annotateOptions) check() error {
	switch {
	case a.concurrency < 1:
		return fmt.Errorf("concurrency %d: at least 1 is needed", a.concurrency)
	case a.retry < 0:
		return fmt.Errorf("retry %d: it cannot be negative", a.retry)
	case a.timeout < 0:
		return fmt.Errorf("timeout %s: it cannot be negative (0 turns it off)", a.timeout)
	case a.every < 0:
		return fmt.Errorf("every %s: it cannot be negative", a.every)
	case a.lease < MinLease:
		return fmt.Errorf("lease of %s: at least %s are needed", a.lease, MinLease)
	case a.wait < 0:
		return fmt.Errorf("wait of %s for the lease: it cannot be negative", a.wait)
	case a.budget.Limit < 0 || a.budget.Limit > 0 && a.budget.Field == "":
		return fmt.Errorf("budget %v of %q: it takes a field of the metadata and a limit above 0", a.budget.Limit, a.budget.Field)
	}
	return nil
}
