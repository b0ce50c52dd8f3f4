package lockd

import (
	"context"
	"sync"
	"time"
)

// Lease is a lease that is held, as its holder sees it. Its methods may be
// called from many goroutines.
type Lease struct {
	name, owner, id string
	token           int64
	keeper          keeper
	busy            chan struct{} // one renewal or release at a time

	mu      sync.Mutex
	end     time.Time // on the holder's clock, counted from before the request
	expires time.Time // by the store's clock, for people
	last    seen      // what was written last; of Leases only
	over    bool      // a release was sent
}

// keeper is what a lease is kept by: Leases, or a Client.
type keeper interface {
	renew(ctx context.Context, l *Lease, ttl time.Duration) error
	release(ctx context.Context, l *Lease) error
	now() time.Time
}

func newLease(k keeper, name, owner, id string, token int64) *Lease {
	return &Lease{name: name, owner: owner, id: id, token: token, keeper: k, busy: make(chan struct{}, 1)}
}

// Name is what the lease is on.
func (l *Lease) Name() string { return l.name }

// Owner is who has it.
func (l *Lease) Owner() string { return l.owner }

// Token is the number of this acquisition: higher than that of any before.
func (l *Lease) Token() int64 { return l.token }

// ExpiresAt is when the lease ends by the store's clock. It is for people:
// whoever acts on a lease asks for what remains.
func (l *Lease) ExpiresAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expires
}

// Remaining is how long the lease is surely held, on the holder's monotonic
// clock, counted from before the request for it was sent: it is never longer
// than what others must respect. It is 0 from the end on, and once a release
// was asked for.
func (l *Lease) Remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return 0
	}
	return max(l.end.Sub(l.keeper.now()), 0)
}

// Renew lets the lease end ttl from now. ErrLost says that it is somebody
// else's, or nobody's, by now. ErrUnreachable says that nothing is known: the
// lease holds until its end and no longer. It comes a little before that end,
// however long the store keeps silent, so that there is time to stop.
func (l *Lease) Renew(ctx context.Context, ttl time.Duration) error {
	if err := checkTTL(ttl); err != nil {
		return err
	}
	return l.alone(ctx, func() error {
		if l.isOver() {
			return &LostError{Name: l.name, Token: l.token, Why: "it was released"}
		}
		return l.keeper.renew(ctx, l, ttl)
	})
}

// Release gives the lease back. The holder has it no longer from the call on,
// whatever becomes of it; a lease whose release fails ends by itself. A lease
// that was released is released, however often.
func (l *Lease) Release(ctx context.Context) error {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	return l.alone(ctx, func() error { return l.keeper.release(ctx, l) })
}

func (l *Lease) alone(ctx context.Context, fn func() error) error {
	select {
	case l.busy <- struct{}{}:
		defer func() { <-l.busy }()
		return fn()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Lease) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// upTo notes that the lease is surely held up to a moment.
func (l *Lease) upTo(end, expires time.Time, last seen) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end, l.expires, l.last = end, expires, last
}

// atMost notes that the lease may end earlier than it did: a renewal for a
// shorter time is on its way.
func (l *Lease) atMost(end time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if end.Before(l.end) {
		l.end = end
	}
}

func (l *Lease) written() seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// patience is how long a renewal may take: it ends before the lease does. One
// that is asked for too late has a try all the same.
func (l *Lease) patience(ttl time.Duration) time.Duration {
	return max(l.Remaining()-min(ttl/10, lastMoment), request)
}

const (
	lastMoment = 5 * time.Second // to stop in, before a lease ends
	request    = 2 * time.Second // what one request is given in any case
)
