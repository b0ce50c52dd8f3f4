package producers

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Locker gives leases: claims on a key that end by themselves unless they are
// renewed. Time is the store's, not that of this machine.
type Locker interface {
	// Acquire takes the lease of a key for an owner, or waits for it. A lease that
	// another holds is ErrLeaseHeld.
	Acquire(ctx context.Context, key, owner string, ttl, wait time.Duration) (Lease, error)
}

// Lease is one that was taken.
type Lease interface {
	// Token grows with every holder of the key.
	Token() int64
	// Remaining is for how long the lease is held for sure, by a clock that never
	// jumps. It is never more than what the store thinks.
	Remaining() time.Duration
	// Renew makes it last ttl from now. ErrLeaseLost says that it is another's, or
	// nobody's; any other error that this is not known.
	Renew(ctx context.Context, ttl time.Duration) error
	// Release gives it back.
	Release(ctx context.Context) error
}

var (
	// ErrLeaseHeld reports that another worker has the annotator's lease; the
	// error is a *LeaseHeldError where it is known who.
	ErrLeaseHeld = errors.New("the lease is held")
	// ErrLeaseLost reports that an annotator's worker had to stop because its
	// lease is no longer its own, or was about to end.
	ErrLeaseLost = errors.New("the lease is lost")
	// ErrNotRenewed comes with ErrLeaseLost where nobody has taken the lease, as
	// far as is known: it could not be renewed in time.
	ErrNotRenewed = errors.New("the lease could not be renewed")
)

// LeaseHeldError says who has a lease.
type LeaseHeldError struct {
	Owner string
	Until time.Time // when it ends unless it is renewed, by the store's clock
}

func (e *LeaseHeldError) Error() string {
	return fmt.Sprintf("the lease is held by %s until %s", e.Owner, e.Until.UTC().Format(time.RFC3339))
}

// Is reports that the error is ErrLeaseHeld.
func (e *LeaseHeldError) Is(target error) bool { return target == ErrLeaseHeld }

// leaseError is ErrLeaseLost with what happened.
type leaseError struct {
	what string
	err  error // may be nil
}

func (e *leaseError) Error() string {
	if e.err == nil {
		return e.what
	}
	return e.what + ": " + e.err.Error()
}

func (e *leaseError) Is(target error) bool { return target == ErrLeaseLost }

func (e *leaseError) Unwrap() error { return e.err }
