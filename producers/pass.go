package producers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query"
)

// look is what was seen of a batch.
type look struct {
	layer      bool // the annotator's layer has a part in it
	generation int64
	blocks     map[string]struct{} // where merges are followed: by SHA-256
}

// scale is how large the task is.
type scale struct {
	total     atomic.Int64 // merged rows
	annotated atomic.Int64 // of them, as far as merged
	scanned   atomic.Int64
	given     atomic.Int64 // to be annotated
	following atomic.Bool
}

// measure looks at the batches' own rows. One without any gets a part of the
// layer without any, so that the layer is there.
func (a *annotating) measure() error {
	ids, err := a.batches()
	if err != nil {
		return err
	}
	var mu sync.Mutex
	return eachOf(a.work, ids, func(ctx context.Context, b dataset.BatchID) error {
		h, err := catalog.ReadHead(ctx, a.store, b)
		if err != nil || !h.Exists() || h.Record.Deleted {
			return err
		}
		a.scale.total.Add(h.Record.Rows)
		if h.Record.Rows > 0 {
			return nil
		}
		return a.emptyPart(ctx, b.Batch, &mu)
	})
}

func (a *annotating) batches() ([]dataset.BatchID, error) {
	if a.o.batches == nil {
		return catalog.Batches(a.work, a.store, a.ds)
	}
	var ids []dataset.BatchID
	for _, b := range a.o.batches {
		ids = append(ids, dataset.BatchID{Dataset: a.ds, Batch: b})
	}
	return ids, nil
}

func (a *annotating) emptyPart(ctx context.Context, batch string, mu *sync.Mutex) error {
	mu.Lock()
	at := a.looked[batch]
	there := at.layer
	at.layer = true
	a.looked[batch] = at
	mu.Unlock()
	if there {
		return nil
	}
	w, err := a.openRun(ctx, batch, func(int64) {})
	if err != nil {
		return err
	}
	if err := w.push(ctx, true); err != nil {
		_, _ = w.Abort(a.storing)
		return err
	}
	_, err = w.Close(a.storing)
	return a.explain(err)
}

// pass annotates the rows that a read gives, and returns when all of them are
// stored or have failed.
func (a *annotating) pass(o query.Options) error { return a.passUntil(o, "") }

// passUntil is pass up to an id; empty is up to the end.
func (a *annotating) passUntil(o query.Options, last string) error {
	todo := newWaiting(a.o.concurrency)
	var slots errgroup.Group
	for _, w := range a.workers {
		slots.Go(func() error {
			s := slot{annotating: a, w: w}
			for a.work.Err() == nil {
				select {
				case <-a.work.Done():
				case row, ok := <-todo.rows:
					if !ok {
						return nil
					}
					todo.took(row)
					s.rows(row, todo)
				}
			}
			return nil
		})
	}
	err := a.read(o, last, todo)
	close(todo.rows)
	_ = slots.Wait()
	if err != nil && a.work.Err() == nil {
		return err
	}
	if a.work.Err() != nil {
		return nil // closing the runs stores the rest
	}
	return a.explain(a.layer.flush(a.storing))
}

func (a *annotating) read(o query.Options, last string, todo *waiting) error {
	o.Scanned = &a.scale.scanned
	for row, err := range query.Rows(a.work, a.store, o) {
		if err != nil {
			return err
		}
		if last != "" && row.ID > last {
			return nil
		}
		if a.failed.has(row) {
			continue
		}
		if !todo.add(a.work, row) {
			return nil
		}
		a.scale.given.Add(1)
	}
	return nil
}

// waiting are rows that wait to be annotated: enough of them to hand out several
// at once, and never many bytes.
type waiting struct {
	rows chan query.Row
	room *semaphore.Weighted
}

const waitingBytes = 16 << 20

func newWaiting(concurrency int) *waiting {
	return &waiting{rows: make(chan query.Row, max(concurrency, 256)), room: semaphore.NewWeighted(waitingBytes)}
}

// add waits for room; it reports false when ctx ends first.
func (w *waiting) add(ctx context.Context, row query.Row) bool {
	if w.room.Acquire(ctx, weight(row)) != nil {
		return false
	}
	select {
	case w.rows <- row:
		return true
	case <-ctx.Done():
		return false
	}
}

// now gives a row if one waits.
func (w *waiting) now() (query.Row, bool) {
	select {
	case row, ok := <-w.rows:
		if ok {
			w.took(row)
		}
		return row, ok
	default:
		return query.Row{}, false
	}
}

func (w *waiting) took(row query.Row) { w.room.Release(weight(row)) }

func weight(row query.Row) int64 { return int64(min(len(row.Raw), waitingBytes)) }

// slot is one place of the concurrency.
type slot struct {
	*annotating
	w    Worker
	line []byte
	next []query.Row // several rows that are asked about at once
}

// rows annotates a row, and with it those that wait, as many as the worker wants
// at once. Those that it does not come to are done one by one.
func (s *slot) rows(row query.Row, todo *waiting) {
	w, several := s.w.(severalWorker)
	if !several || s.o.rate > 0 || w.Ahead() < 2 {
		s.row(row)
		return
	}
	// Nobody waits for a token while it holds others: they all could be held by
	// somebody who does the same.
	if !s.tokenNow() {
		s.row(row)
		return
	}
	s.next = append(s.next[:0], row)
	for len(s.next) < w.Ahead() && s.tokenNow() {
		row, ok := todo.now()
		if !ok {
			s.tokensBack(1)
			break
		}
		s.next = append(s.next, row)
	}
	done := s.several(w, s.next)
	s.tokensBack(len(s.next) - done)
	for _, row := range s.next[done:] {
		s.row(row)
	}
}

func (s *slot) tokenNow() bool {
	select {
	case s.tokens <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s *slot) tokensBack(n int) {
	for range n {
		<-s.tokens
	}
}

// several asks about several rows at once, each of which has a token, and says to
// how many it came.
func (s *slot) several(w severalWorker, rows []query.Row) int {
	if s.work.Err() != nil {
		return 0
	}
	type failure struct {
		row      query.Row
		metadata []byte
		err      error
	}
	var failed []failure
	ctx, cancel := s.deadline()
	defer cancel()
	done := w.AnnotateAll(ctx, rows, func(row query.Row, data, metadata []byte, err error) {
		s.tally.count(func(t *tally) { t.calls++ })
		if err == nil {
			err = s.encode(row, data, metadata)
		}
		if err != nil {
			failed = append(failed, failure{row, bytes.Clone(metadata), err})
		} else if _, err = s.keep(row, metadata); err != nil {
			s.fail(err)
		}
	})
	// Later, as they may be tried again by the same worker.
	for _, f := range failed {
		ok, err := s.settle(f.row, f.metadata, f.err, 0)
		if !ok {
			s.tokensBack(1)
		}
		if err != nil {
			s.fail(err)
		}
	}
	return done
}

// row annotates one row.
func (s *slot) row(row query.Row) {
	select {
	case s.tokens <- struct{}{}:
	case <-s.work.Done():
		return
	}
	ok, err := s.try(row, 0)
	if !ok {
		s.tokensBack(1)
	}
	if err != nil {
		s.fail(err)
	}
}

// try calls until there is an annotation, and hands it over to be stored. It
// reports whether that was done.
func (s *slot) try(row query.Row, try int) (ok bool, err error) {
	if s.pace.wait(s.work) != nil || s.work.Err() != nil {
		return false, nil
	}
	s.tally.count(func(t *tally) { t.calls++ })
	metadata, err := s.call(row)
	return s.settle(row, metadata, err, try)
}

// settle decides what becomes of a row by what came of a call.
func (s *slot) settle(row query.Row, metadata []byte, err error, try int) (ok bool, _ error) {
	var fatal *FatalError
	switch {
	case err == nil:
		return s.keep(row, metadata)
	case errors.As(err, &fatal):
		return false, err
	case s.calls.Err() != nil:
		return false, nil // cancelled: nothing is wrong with the row
	}
	if spent, _ := s.charge(metadata, false); spent { // what failed was paid for too
		s.stopWork(errBudget)
	}
	if try < s.o.retries && sleep(s.work, retryPause(try)) == nil {
		return s.try(row, try+1)
	}
	s.tally.count(func(t *tally) { t.failed++ })
	s.reasons.add(row.Batch, row.ID, err)
	if s.o.merges != nil {
		s.failed.add(row)
	}
	return false, nil
}

// retryPause grows from half a second to half a minute: what most often fails
// is a service that is asked too much.
func retryPause(try int) time.Duration {
	d := min(time.Second<<min(try, 6), 30*time.Second)
	return d/2 + rand.N(d/2)
}

// deadline is the context of a call. Several rows at once have no more time: they
// are quick, or asked for one by one in the end.
func (s *slot) deadline() (context.Context, context.CancelFunc) {
	if s.o.timeout == 0 {
		return s.calls, func() {}
	}
	return context.WithTimeout(s.calls, s.o.timeout)
}

// call makes the line of one annotation. Metadata may come beside an error.
func (s *slot) call(row query.Row) (metadata []byte, err error) {
	ctx, cancel := s.deadline()
	defer cancel()
	data, metadata, err := s.w.Annotate(ctx, row)
	if err != nil {
		var fatal *FatalError
		if ctx.Err() != nil && s.calls.Err() == nil && !errors.As(err, &fatal) {
			err = callErrorf(KindTimeout, "no answer in %s", s.o.timeout)
		}
		return metadata, err
	}
	return metadata, s.encode(row, data, metadata)
}

// encode makes the line of an annotation.
func (s *slot) encode(row query.Row, data, metadata []byte) (err error) {
	s.line, err = dataset.AppendAnnotation(s.line[:0], row.Batch, row.Row, s.writer.now(), data, metadata)
	if err != nil {
		return callErrorf(KindInvalid, "%v", err)
	}
	return nil
}

// keep counts an annotation and hands it over.
func (s *slot) keep(row query.Row, metadata []byte) (bool, error) {
	stop, err := s.charge(metadata, true)
	if err := s.layer.add(s.storing, row.Batch, dataset.Row{ID: row.ID, Raw: s.line}); err != nil {
		return false, err
	}
	if cap(s.line) > 1<<20 {
		s.line = nil // room that only a huge one needs
	}
	if stop {
		s.stopWork(errBudget)
	}
	return true, err
}

// charge counts an annotation, or a call without one, and reports whether the
// budget is spent.
func (a *annotating) charge(metadata []byte, done bool) (spent bool, err error) {
	cost, priced := 0.0, true
	if a.o.budget != nil {
		cost, priced = numberIn(metadata, a.o.budget.Field)
	}
	a.tally.count(func(t *tally) {
		t.spent += cost
		if done {
			t.answered++
			if !priced {
				t.unpriced++
			}
		}
		switch {
		case a.o.budget == nil:
		case t.spent >= a.o.budget.Most:
			spent = true
		case t.unpriced == t.answered && t.answered >= mostUnpriced:
			err = &budgetError{a.o.budget.Field, t.answered}
		}
	})
	return spent, err
}

// mostUnpriced is how many annotations may come before the first that says what
// it cost.
const mostUnpriced = 100

type budgetError struct {
	field string
	rows  int64
}

func (e *budgetError) Error() string {
	return ErrBudget.Error() + ": none of the first " + strconv.FormatInt(e.rows, 10) + " annotations has a number " + strconv.Quote(e.field) + " in its metadata"
}

// Is reports that the error is ErrBudget.
func (e *budgetError) Is(target error) bool { return target == ErrBudget }

// numberIn is the value of a numeric field of an object.
func numberIn(object []byte, field string) (float64, bool) {
	raw, ok := dataset.Row{Raw: object}.Column(field)
	if !ok || len(raw) == 0 || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(bytes.TrimSpace(raw)), 64)
	return n, err == nil
}

// failedRows are rows that have failed in this process, so that the next pass
// does not pay for them again. It is bounded: what it forgets is tried again.
type failedRows struct {
	mu   sync.Mutex
	rows map[[16]byte]struct{}
}

const mostFailedRows = 1 << 17

func failedKey(row query.Row) (k [16]byte) {
	sum := sha256.Sum256([]byte(strconv.Itoa(len(row.Batch)) + " " + row.Batch + row.ID))
	copy(k[:], sum[:])
	return k
}

func (f *failedRows) add(row query.Row) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rows == nil {
		f.rows = map[[16]byte]struct{}{}
	}
	if len(f.rows) < mostFailedRows {
		f.rows[failedKey(row)] = struct{}{}
	}
}

func (f *failedRows) has(row query.Row) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.rows) == 0 {
		return false
	}
	_, ok := f.rows[failedKey(row)]
	return ok
}

// eachOf calls fn for several things at once.
func eachOf[T any](ctx context.Context, things []T, fn func(context.Context, T) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelRuns)
	for _, t := range things {
		g.Go(func() error { return fn(ctx, t) })
	}
	return g.Wait()
}
