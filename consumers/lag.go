package consumers

import (
	"context"
	"sync"
	"time"
)

// lag holds notifications back for a moment. The same object is announced by
// its writer, who knows how many rows it has, and by the store, which does not;
// the first of the two becomes the event. Without a lag the store would mostly
// win.
//
// The wait is counted from the time in the notification, by the store's clock.
// Where that runs ahead of ours only differences of store times count: what the
// store saw a second later is let go a second later, so that a burst waits once,
// not once for each of its notifications.
type lag struct {
	span time.Duration

	mu    sync.Mutex
	store time.Time // store time of a notification from the future
	local time.Time // and when it was let go
}

// until is when a notification with the store time `at` is let go.
func (l *lag) until(at, now time.Time) time.Time {
	if at.IsZero() || l.span <= 0 || !at.Add(l.span).After(now) {
		return now
	}
	if !at.After(now) {
		return at.Add(l.span)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	due := now.Add(l.span)
	if !l.store.IsZero() {
		if d := l.local.Add(at.Sub(l.store)); d.Before(due) {
			due = d
		}
	}
	if due.Before(now) {
		return now
	}
	l.store, l.local = at, due
	return due
}

func (l *lag) wait(ctx context.Context, at time.Time) error {
	now := time.Now()
	return sleep(ctx, l.until(at, now).Sub(now))
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
