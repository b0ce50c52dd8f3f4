package producers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query"
)

// outcome is what came of a row.
type outcome struct {
	row query.Row
	ann dataset.Annotation
	err error
}

// encode gives the two parts of an annotation as JSON on one line.
func (o *outcome) encode() (data, meta []byte, err error) {
	if o.ann.Metadata != nil {
		if meta, err = oneLine(o.ann.Metadata); err != nil {
			return nil, nil, fmt.Errorf("metadata: %w", err)
		}
	}
	if o.err != nil {
		return nil, meta, o.err
	}
	if o.ann.Data == nil {
		return nil, meta, errors.New("the annotation has no data")
	}
	if data, err = oneLine(o.ann.Data); err != nil {
		return nil, meta, fmt.Errorf("data: %w", err)
	}
	return data, meta, nil
}

func oneLine(v any) ([]byte, error) {
	raw, err := encode(v)
	if err != nil {
		return nil, err
	}
	raw = bytes.TrimSpace(raw)
	if bytes.IndexByte(raw, '\n') < 0 {
		return raw, nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// callGrace is how long a call may go on after it was cancelled. Then it is left
// to itself.
const callGrace = 5 * time.Second

// workers annotate rows, several at a time. Rows are read when there is
// somebody to take them.
type workers struct {
	fn      AnnotateFunc
	opt     annotateOptions
	calls   context.Context // of the calls
	cancel  context.CancelFunc
	reading context.Context // of the read
	quit    context.CancelFunc
	results chan outcome // closed when all is done
	err     error        // of the read; valid once results is closed

	mu   sync.Mutex
	why  string    // reading was stopped on purpose
	next time.Time // when the next call may begin
}

func newWorkers(ctx context.Context, fn AnnotateFunc, opt annotateOptions) *workers {
	w := &workers{fn: fn, opt: opt, results: make(chan outcome)}
	w.calls, w.cancel = context.WithCancel(ctx)
	w.reading, w.quit = context.WithCancel(w.calls)
	if opt.stop != nil {
		go func() {
			select {
			case <-opt.stop:
				w.stop(StoppedByCaller)
			case <-w.reading.Done():
			}
		}()
	}
	return w
}

// stop ends the reading; calls under way are finished.
func (w *workers) stop(why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.why == "" {
		w.why = why
	}
	w.quit()
}

func (w *workers) stopped() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.why
}

// end cancels what is under way, and waits for it.
func (w *workers) end() {
	w.cancel()
	for range w.results {
	}
}

// read hands rows out until they end or reading is stopped.
func (w *workers) read(rows iter.Seq2[query.Row, error]) {
	defer close(w.results)
	var wg sync.WaitGroup
	slots := make(chan struct{}, w.opt.concurrency)
	for row, err := range rows {
		if err != nil {
			if w.stopped() == "" {
				w.err = err
			}
			break
		}
		select {
		case slots <- struct{}{}:
		case <-w.reading.Done():
		}
		if w.reading.Err() != nil {
			if w.stopped() == "" {
				w.err = context.Cause(w.reading)
			}
			break
		}
		wg.Go(func() {
			out, ok := w.call(row)
			if ok {
				w.results <- out // somebody takes results until the channel is closed
			}
			<-slots
		})
	}
	w.quit()
	wg.Wait()
}

// call annotates a row, in as many tries as it may take. It is not ok when it was
// cancelled before there was an answer.
func (w *workers) call(row query.Row) (out outcome, ok bool) {
	for try, pause := 0, firstPause; ; try, pause = try+1, min(2*pause, longestPause) {
		if w.pace() != nil {
			return outcome{}, false
		}
		out = w.try(row)
		switch {
		case out.err == nil:
			return out, true
		case w.calls.Err() != nil:
			return outcome{}, false
		case try == w.opt.retry || errors.Is(out.err, ErrGiveUp):
			return out, true
		}
		if sleep(w.calls, pause) != nil {
			return outcome{}, false
		}
	}
}

// pace waits for the time of the next call.
func (w *workers) pace() error {
	if w.opt.every == 0 {
		return context.Cause(w.calls)
	}
	w.mu.Lock()
	now := time.Now()
	if w.next.Before(now) {
		w.next = now
	}
	wait := w.next.Sub(now)
	w.next = w.next.Add(w.opt.every)
	w.mu.Unlock()
	return sleep(w.calls, wait)
}

// try calls the annotator once. It may panic, and it may not come back.
func (w *workers) try(row query.Row) outcome {
	ctx, cancel := w.calls, context.CancelFunc(func() {})
	if w.opt.timeout > 0 {
		ctx, cancel = context.WithTimeout(w.calls, w.opt.timeout)
	}
	defer cancel()
	done := make(chan outcome, 1)
	go func() {
		out := outcome{row: row, err: errors.New("the annotator ended its goroutine")}
		defer func() {
			if p := recover(); p != nil {
				out.err = fmt.Errorf("panic: %v", p)
			}
			done <- out
		}()
		out.ann, out.err = w.fn(ctx, row)
	}()
	select {
	case out := <-done:
		return w.timely(ctx, out)
	case <-ctx.Done():
	}
	left := time.NewTimer(callGrace)
	defer left.Stop()
	select {
	case out := <-done:
		return w.timely(ctx, out)
	case <-left.C:
		return w.timely(ctx, outcome{row: row, err: context.Cause(ctx)})
	}
}

// timely says of an error that came of a timeout that it did.
func (w *workers) timely(ctx context.Context, out outcome) outcome {
	if out.err != nil && ctx.Err() == context.DeadlineExceeded && w.calls.Err() == nil {
		out.err = fmt.Errorf("no answer within %s", w.opt.timeout)
	}
	return out
}
