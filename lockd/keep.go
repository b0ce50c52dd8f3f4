package lockd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/siltstone-data/siltstone/objstore"
)

// Renew renews the lease that has the token, for whoever knows no more of it.
func (l *Leases) Renew(ctx context.Context, name string, token int64, ttl time.Duration) (Status, error) {
	if err := errors.Join(CheckName(name), checkToken(token), checkTTL(ttl)); err != nil {
		return Status{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	o := holding{name: name, token: token}
	cur, err := l.mine(ctx, o)
	if err == nil {
		cur, _, err = l.prolong(ctx, o, cur, ttl)
	}
	l.metrics.renewed(err)
	if err != nil {
		return Status{}, fmt.Errorf("renew: %w", err)
	}
	return cur.status(l.queue.waiting(name)), nil
}

// Release releases the lease that has the token.
func (l *Leases) Release(ctx context.Context, name string, token int64) error {
	if err := errors.Join(CheckName(name), checkToken(token)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	return l.giveBack(ctx, holding{name: name, token: token}, nil)
}

func (l *Leases) renew(ctx context.Context, lease *Lease, ttl time.Duration) error {
	patient, cancel := context.WithTimeout(ctx, lease.patience(ttl))
	defer cancel()
	lease.atMost(l.now().Add(ttl))
	got, start, err := l.prolong(patient, holding{lease.name, lease.token, lease.id}, lease.written(), ttl)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	l.metrics.renewed(err)
	if err != nil {
		return fmt.Errorf("renew: %w", err)
	}
	lease.upTo(start.Add(ttl), got.ends(), got)
	return nil
}

func (l *Leases) release(ctx context.Context, lease *Lease) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	last := lease.written()
	return l.giveBack(ctx, holding{lease.name, lease.token, lease.id}, &last)
}

// holding is what a holder knows of its lease.
type holding struct {
	name  string
	token int64
	id    string // may be empty: the token is enough to tell it from others
}

func (h holding) has(r *record) bool {
	return r != nil && r.Token == h.token && (h.id == "" || r.Lease == h.id)
}

// lost says what became of a lease instead.
func (h holding) lost(cur seen) error {
	e := &LostError{Name: h.name, Token: h.token}
	switch r := cur.rec; {
	case r == nil:
		e.Why = "its object is gone"
	case h.has(r) && r.State == free && r.Freed == byForce:
		last := r.Forced[len(r.Forced)-1]
		e.Why = fmt.Sprintf("%s released it by force at %s", last.By, last.At.UTC().Format(time.RFC3339))
	case h.has(r):
		e.Why = "it was released"
	case r.State == free:
		e.Why = fmt.Sprintf("it is free, and was last %s's (token %d)", r.Owner, r.Token)
	default:
		e.Why = fmt.Sprintf("%s has it (token %d) until %s", r.Owner, r.Token, cur.ends().UTC().Format(time.RFC3339))
	}
	return e
}

// mine looks at a lease, and fails unless it is held under that token.
func (l *Leases) mine(ctx context.Context, h holding) (seen, error) {
	cur, err := l.look(ctx, h.name)
	if err == nil && (!h.has(cur.rec) || cur.rec.State != held) {
		err = h.lost(cur)
	}
	return cur, err
}

// prolong replaces the version of a lease that was seen last by one that ends
// ttl after start. A lease whose time is over can be prolonged for as long as
// nobody has taken it: that the swap succeeds proves it.
func (l *Leases) prolong(ctx context.Context, h holding, cur seen, ttl time.Duration) (got seen, start time.Time, err error) {
	for {
		r := *cur.rec
		r.TTL, r.Renewals = Seconds(ttl), r.Renewals+1
		if r.AcquiredAt == nil && cur.rec.Renewals == 0 {
			at := cur.at.UTC()
			r.AcquiredAt = &at
		}
		start = l.now()
		got, err = l.put(ctx, h.name, &r, objstore.IfMatch(cur.etag))
		if !errors.Is(err, errRaced) {
			return got, start, err
		}
		// An earlier renewal, given up, may have come to pass since.
		if cur, err = l.mine(ctx, h); err != nil {
			return seen{}, start, err
		}
	}
}

// giveBack marks a lease free. cur is its version as seen last, if there is one.
func (l *Leases) giveBack(ctx context.Context, h holding, last *seen) error {
	err := l.markFree(ctx, h, last)
	l.metrics.released(err)
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	l.queue.released(h.name)
	return nil
}

func (l *Leases) markFree(ctx context.Context, h holding, last *seen) error {
	for {
		if last == nil {
			cur, err := l.look(ctx, h.name)
			switch {
			case err != nil:
				return err
			case h.has(cur.rec) && cur.rec.State == free && cur.rec.Freed == byRelease:
				return nil // before: the answer was lost
			case !h.has(cur.rec) || cur.rec.State == free:
				return h.lost(cur)
			}
			last = &cur
		}
		r := *last.rec
		r.State, r.Freed = free, byRelease
		_, err := l.put(ctx, h.name, &r, objstore.IfMatch(last.etag))
		if !errors.Is(err, errRaced) {
			return err
		}
		last = nil
	}
}
