package producers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// The times of an annotator's lease.
const (
	// DefaultLeaseTTL is how long a lease lasts: when its holder dies, the next
	// one waits for so long at most.
	DefaultLeaseTTL = 2 * time.Minute
	// MinLeaseTTL is the shortest that leaves time to renew it.
	MinLeaseTTL = 2 * time.Second

	renewAhead = time.Minute      // a lease is renewed so long before its end,
	mostMargin = 15 * time.Second // and given up so long before it: done work has to be stored
)

// fence keeps a lease while its holder works. When the lease is lost, or cannot
// be renewed in time, it says so once, before the lease ends.
type fence struct {
	lease Lease
	name  string // of what is locked, for people
	ttl   time.Duration
	log   *slog.Logger
	lost  func(error) // called once

	turn  chan struct{} // one renewal at a time
	mu    sync.Mutex
	begun int // renewals
	done  int // the last one that began and succeeded
	ended error
}

func newFence(l Lease, name string, ttl time.Duration, log *slog.Logger, lost func(error)) *fence {
	return &fence{lease: l, name: name, ttl: ttl, log: log, lost: lost, turn: make(chan struct{}, 1)}
}

// ahead is how long before its end the lease is renewed.
func (f *fence) ahead() time.Duration { return min(renewAhead, f.ttl/2) }

// margin is how long before its end the lease is given up.
func (f *fence) margin() time.Duration { return min(mostMargin, f.ttl/4) }

// run renews the lease until ctx ends or the lease does.
func (f *fence) run(ctx context.Context) {
	for {
		// It may have been renewed meanwhile, so this only waits and looks again.
		wait := f.lease.Remaining() - f.ahead()
		if wait <= 0 {
			if f.prove(ctx) != nil {
				return
			}
			continue
		}
		if sleep(ctx, wait) != nil {
			return
		}
	}
}

// prove renews the lease. When it returns nil, the lease was still held at some
// moment after the call: whoever holds it next sees everything that was stored
// before the call. Calls that wait for each other share one renewal.
func (f *fence) prove(ctx context.Context) error {
	f.mu.Lock()
	before := f.begun
	f.mu.Unlock()
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-f.turn }()
	f.mu.Lock()
	if f.ended != nil || f.done > before {
		defer f.mu.Unlock()
		return f.ended
	}
	f.begun++
	number := f.begun
	f.mu.Unlock()
	err := f.renew(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.done = number
		return nil
	}
	if errors.Is(err, ErrLeaseLost) && f.ended == nil {
		f.ended = err
		f.lost(err)
	}
	return err
}

// renew tries until the lease is renewed, or lost, or ends too soon.
func (f *fence) renew(ctx context.Context) error {
	var last error
	for pause := firstPause; ; pause = min(2*pause, longestPause, f.ttl/10) {
		left := f.lease.Remaining() - f.margin()
		if left <= 0 {
			what := fmt.Sprintf("the lease of %s could not be renewed in time", f.name)
			if last == nil {
				what = fmt.Sprintf("the lease of %s ended while this process stood still", f.name)
				last = ErrNotRenewed
			} else {
				last = fmt.Errorf("%w: %w", ErrNotRenewed, last)
			}
			return &leaseError{what, last}
		}
		err := f.ask(ctx, left)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrLeaseLost):
			return &leaseError{fmt.Sprintf("the lease of %s is no longer ours", f.name), err}
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		if last == nil {
			f.log.Warn("the lease could not be renewed; trying again", "lease", f.name, "for", left.Round(time.Second), "err", err)
		}
		last = err
		if err := sleep(ctx, min(pause/2+rand.N(pause/2), left)); err != nil {
			return err
		}
	}
}

// ask renews the lease, and waits so long for it at most, whatever the lease
// makes of its context.
func (f *fence) ask(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	answer := make(chan error, 1)
	go func() { answer <- f.lease.Renew(ctx, f.ttl) }()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
