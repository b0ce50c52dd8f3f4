package siltstone

import (
	"context"
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

// locker says to producers what lockd says, in their words.
type locker struct{ leases *lockd.Leases }

// Acquire takes a lease.
func (l locker) Acquire(ctx context.Context, key, owner string, ttl, wait time.Duration) (producers.Lease, error) {
	got, err := l.leases.Acquire(ctx, key, owner, ttl, wait, nil)
	var held *lockd.HeldError
	if errors.As(err, &held) {
		return nil, &producers.LeaseHeldError{Owner: held.HeldBy, Until: held.ExpiresAt}
	}
	if err != nil {
		return nil, err
	}
	return lease{got}, nil
}

type lease struct{ *lockd.Lease }

// Renew makes the lease last longer.
func (l lease) Renew(ctx context.Context, ttl time.Duration) error {
	err := l.Lease.Renew(ctx, ttl)
	if errors.Is(err, lockd.ErrLost) {
		return fmt.Errorf("%w: %w", producers.ErrLeaseLost, err)
	}
	return err
}
