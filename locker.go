package siltstone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/siltstone-data/siltstone/lockd"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/producers"
)

// NewLocker hands out leases that lie in a store, by the protocol of lockd.
func NewLocker(store objstore.Store, log *slog.Logger) producers.Locker {
	return locker{lockd.New(store, lockd.Config{Log: log})}
}

// OpenLocker hands out leases of the lockd that c names, or, where it names
// none, those that lie in store: they are the same ones where that lockd serves
// the same store. It sends nothing yet.
func OpenLocker(c Config, store objstore.Store, log *slog.Logger) (producers.Locker, error) {
	if c.LockdURL == "" {
		return NewLocker(store, log), nil
	}
	client, err := lockd.NewClient(lockd.ClientConfig{URL: c.LockdURL, Token: c.LockdToken})
	if err != nil {
		return nil, fmt.Errorf("LOCKD_URL: %w", err)
	}
	return locker{client}, nil
}

// leases is what lockd's Leases and Client have in common.
type leases interface {
	Acquire(ctx context.Context, name, owner string, ttl, wait time.Duration, meta json.RawMessage) (*lockd.Lease, error)
}

// locker says to producers what lockd says, in their words.
type locker struct{ leases leases }

// Acquire takes a lease.
func (l locker) Acquire(ctx context.Context, key, owner string, ttl, wait time.Duration) (producers.Lease, error) {
	got, err := l.leases.Acquire(ctx, key, owner, ttl, wait, nil)
	var held *lockd.HeldError
	switch _, direct := l.leases.(*lockd.Leases); {
	case err == nil:
		return lease{got}, nil
	case errors.As(err, &held):
		return nil, &producers.LeaseHeldError{Owner: held.HeldBy, Until: held.ExpiresAt}
	case direct && errors.Is(err, objstore.ErrNoConditions):
		return nil, fmt.Errorf("%w; lockd is required here: run `siltstone serve lockd` over a store that keeps them, and set LOCKD_URL", err)
	}
	return nil, err
}

type lease struct{ *lockd.Lease }

// Renew makes the lease last longer. That it is lost is ErrLeaseLost; that the
// store or lockd gives no answer is lockd.ErrUnreachable, and then it is held
// until its end.
func (l lease) Renew(ctx context.Context, ttl time.Duration) error {
	err := l.Lease.Renew(ctx, ttl)
	if errors.Is(err, lockd.ErrLost) {
		return fmt.Errorf("%w: %w", producers.ErrLeaseLost, err)
	}
	return err
}
