package producers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
)

// Flush puts what is buffered and waits until every row written before is
// stored.
func (w *Writer) Flush(ctx context.Context) error {
	if err := w.take(ctx); err != nil {
		return err
	}
	if w.buf.rows > 0 {
		if err := w.seal(ctx); err != nil {
			w.give()
			return err
		}
	}
	w.mu.Lock()
	waits := make([]*chunk, 0, len(w.underWay))
	for _, c := range w.underWay {
		waits = append(waits, c)
	}
	w.mu.Unlock()
	w.give()
	for _, c := range waits {
		select {
		case <-c.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return w.brokenErr()
}

// Close stores what is buffered, waits for every chunk, closes the run and
// announces its end. The result says what is stored, also beside an error. When
// ctx ends first, what is not stored by then is given up. A second Close gives
// the outcome of the first.
func (w *Writer) Close(ctx context.Context) (Result, error) {
	return w.end(ctx, false)
}

// Abort ends the run as failed: rows that are stored stay, the others are
// dropped. After Close it only gives the outcome of that.
func (w *Writer) Abort(ctx context.Context) (Result, error) {
	return w.end(ctx, true)
}

func (w *Writer) end(ctx context.Context, abort bool) (Result, error) {
	w.mu.Lock()
	ending := w.ending
	w.ending = true
	w.mu.Unlock()
	if ending {
		select {
		case <-w.finished:
			return w.result, w.finalErr
		case <-ctx.Done():
			return w.Stored(), context.Cause(ctx)
		}
	}
	if abort {
		w.cancel(errAborted)
	}
	// When ctx ends, everything that the writer waits for does, so that neither
	// the turn nor wg is waited for in vain.
	stop := context.AfterFunc(ctx, func() { w.cancel(context.Cause(ctx)) })
	w.turn <- struct{}{}
	w.closed = true
	var err error
	if w.buf.rows > 0 && !abort {
		err = w.seal(ctx)
	}
	w.stopTimer()
	w.give()
	w.wg.Wait()
	stop()
	w.result, w.finalErr = w.finish(ctx, err, abort)
	w.cancel(ErrClosed)
	close(w.finished)
	return w.result, w.finalErr
}

// finish writes the manifest for the last time and announces the end of the run.
// Every chunk is stored or given up by now.
func (w *Writer) finish(ctx context.Context, sealErr error, abort bool) (Result, error) {
	var settleErr error
	if w.opt.token > 0 {
		settleErr = w.settle(ctx)
	}
	w.mu.Lock()
	if w.failure == nil {
		w.failure = sealErr
	}
	err := w.unstored()
	res := w.stored()
	m := w.manifest
	w.mu.Unlock()
	m.State, m.UpdatedAt = catalog.RunCompleted, w.opt.now().UTC()
	if abort || err != nil {
		m.State = catalog.RunFailed
	}
	if abort && errors.Is(err, errAborted) {
		err = nil // as asked for
	}
	perr := settleErr
	switch {
	case perr != nil:
	case w.opt.token > 0:
		perr = w.endRun(ctx, m)
	default:
		perr = w.putManifest(ctx, m)
	}
	if perr != nil {
		return res, errors.Join(err, fmt.Errorf("%d rows of %s are stored, but run %s stays open: %w", res.Rows, w.batch, w.run, perr))
	}
	e := dataset.NewEvent(dataset.RunCompleted, w.batch, m.UpdatedAt)
	e.Run, e.State, e.Rows, e.Chunks = w.run, m.State, &res.Rows, res.Chunks
	w.announce.publish(ctx, e)
	return res, err
}

// putManifest rewrites the run manifest, which nobody else does.
func (w *Writer) putManifest(ctx context.Context, m catalog.RunManifest) error {
	began := time.Now()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := catalog.PutRun(ctx, w.store, m)
		if err == nil || ctx.Err() != nil || time.Since(began)+pause > w.opt.retryFor {
			return err
		}
		if err := sleep(ctx, pause/2+rand.N(pause/2)); err != nil {
			return err
		}
	}
}
