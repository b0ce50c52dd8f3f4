package producers

import (
	"context"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
)

// full reports whether the buffer has no room for another row r.
func (w *Writer) full(r dataset.Row) bool {
	return w.buf.rows >= int64(w.opt.chunkRows) ||
		w.buf.rows > 0 && len(w.buf.body)+len(r.Raw)+1 > w.opt.chunkBytes
}

// startTimer puts the buffer on its way when its first row is too old.
func (w *Writer) startTimer() {
	number := w.next
	w.wg.Add(1)
	w.timer = time.AfterFunc(w.opt.chunkAge, func() {
		defer w.wg.Done()
		if w.take(w.ctx) != nil {
			return
		}
		defer w.give()
		if w.next == number {
			_ = w.seal(w.ctx) // it fails only when the writer does, and says so
		}
	})
}

func (w *Writer) stopTimer() {
	if w.timer != nil && w.timer.Stop() {
		w.wg.Done()
	}
	w.timer = nil
}

// seal gives the buffer a number and puts it on its way, once there is a slot.
// The caller has the turn.
func (w *Writer) seal(ctx context.Context) error {
	if err := w.brokenErr(); err != nil {
		return err
	}
	select {
	case w.slots <- struct{}{}:
	case <-w.broken:
		return w.brokenErr()
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	// A slot that a failed chunk gave back is none: whoever seals a run counts on
	// it that its writer has not more than InFlight chunks under way (seal.go).
	if err := w.brokenErr(); err != nil {
		<-w.slots
		return err
	}
	w.stopTimer()
	c := w.buf
	c.number, c.done = w.next, make(chan struct{})
	w.buf, w.room = chunk{}, min(len(c.body)+len(c.body)/8, w.opt.chunkBytes)
	w.next++
	w.mu.Lock()
	w.underWay[c.number] = &c
	w.mu.Unlock()
	if w.opt.onSealed != nil {
		w.opt.onSealed(c.rows)
	}
	w.wg.Go(func() {
		defer func() { <-w.slots }()
		w.upload(&c)
	})
	return nil
}
