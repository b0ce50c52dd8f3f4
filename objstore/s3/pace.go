package s3

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// pace spaces out the requests of a Store while it is being throttled. All
// goroutines share it: if each backed off alone, the others would keep the store
// as busy as before. It multiplies the space on a refusal and shrinks it with
// each success. A refusal counts only when its request started after the last
// widening: one burst of refusals is one message from the store, not fifty.
//
// The space is bounded, so that a store which refuses a fixed share of requests,
// whatever their rate, does not bring everything to a halt.
type pace struct {
	now func() time.Time

	mu    sync.Mutex
	space time.Duration // between two requests; 0 in good times
	next  time.Time     // the next free slot
	wide  time.Time     // when the space was last widened
}

const (
	firstSpace = 2 * time.Millisecond
	mostSpace  = 50 * time.Millisecond
	leastSpace = 500 * time.Microsecond // below this there is none
)

func newPace() *pace { return &pace{now: time.Now} }

// wait waits for a slot and gives the time at which it starts.
func (p *pace) wait(ctx context.Context) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, context.Cause(ctx)
	}
	p.mu.Lock()
	now := p.now()
	if p.space == 0 {
		p.mu.Unlock()
		return now, nil
	}
	slot := p.next
	if slot.Before(now) {
		slot = now
	}
	p.next = slot.Add(p.space/2 + rand.N(p.space)) // jitter keeps processes apart
	p.mu.Unlock()
	if err := sleep(ctx, slot.Sub(now)); err != nil {
		return time.Time{}, err
	}
	return p.now(), nil
}

// refused widens the space: a request that started then was throttled.
func (p *pace) refused(started time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !started.After(p.wide) {
		return
	}
	p.wide = p.now()
	p.space = min(max(2*p.space, firstSpace), mostSpace)
}

// served shrinks the space.
func (p *pace) served() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.space = p.space * 9 / 10; p.space < leastSpace {
		p.space = 0
	}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
