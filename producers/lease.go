package producers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Locker hands out leases. Of one key only one holder has a lease at a time,
// and each has a greater token than the one before.
type Locker interface {
	// Acquire takes a lease for ttl, waiting up to wait while another holds it;
	// then it is a *LeaseHeldError.
	Acquire(ctx context.Context, key, owner string, ttl, wait time.Duration) (Lease, error)
}

// Lease is a lease that was taken.
type Lease interface {
	Token() int64
	// Remaining is how long it lasts at least, by this machine's steady clock.
	Remaining() time.Duration
	// Renew makes it last for ttl from now on. ErrLeaseLost says that somebody
	// else may have it; any other error that nobody could be asked.
	Renew(ctx context.Context, ttl time.Duration) error
	Release(ctx context.Context) error
}

var (
	// ErrLeaseHeld reports that somebody else annotates under the same name.
	ErrLeaseHeld = errors.New("the lease is held by another")
	// ErrLeaseLost reports that the lease ended while its holder worked. What
	// was done by then is stored, unless a new holder was faster.
	ErrLeaseLost = errors.New("the lease was lost")
)

// LeaseHeldError says who holds a lease, and until when at most.
type LeaseHeldError struct {
	Key, Owner string
	Until      time.Time // by the store's clock
}

func (e *LeaseHeldError) Error() string {
	return fmt.Sprintf("%s: %v: %s has it until %s", e.Key, ErrLeaseHeld, e.Owner, e.Until.UTC().Format(time.RFC3339))
}

// Is makes it ErrLeaseHeld.
func (e *LeaseHeldError) Is(target error) bool { return target == ErrLeaseHeld }

// DefaultLease is how long a lease lasts. It is renewed a minute before its end,
// so a dead annotator is replaced after three minutes at most, and a store that
// cannot be reached for less than a minute stops nobody.
const DefaultLease = 3 * time.Minute

// MinLease is the shortest lease that leaves time to renew it.
const MinLease = 2 * time.Second

// keeper keeps a lease as long as it can. Its context ends when the lease does,
// with ErrLeaseLost as its cause.
type keeper struct {
	lease  Lease
	ttl    time.Duration
	log    *slog.Logger
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	turn   sync.Mutex // one renewal at a time
}

func keep(ctx context.Context, lease Lease, ttl time.Duration, log *slog.Logger) *keeper {
	k := &keeper{lease: lease, ttl: ttl, log: log}
	k.ctx, k.cancel = context.WithCancelCause(ctx)
	k.wg.Go(k.run)
	return k
}

// ahead is how long before its end a lease is renewed: a minute, or half of a
// shorter one.
func (k *keeper) ahead() time.Duration { return min(time.Minute, k.ttl/2) }

// margin is how long before its end a lease that could not be renewed is given
// up, so that nothing is begun that ends behind it.
func (k *keeper) margin() time.Duration { return min(5*time.Second, k.ttl/10) }

// run renews the lease in time, and again and again where the store cannot be
// reached, until it is too late.
func (k *keeper) run() {
	for {
		if sleep(k.ctx, max(0, k.lease.Remaining()-k.ahead())) != nil {
			return
		}
		for pause := k.margin() / 4; ; pause = min(2*pause, k.margin()) {
			err := k.renew(k.ctx)
			if err == nil {
				break
			}
			if k.ctx.Err() != nil {
				return
			}
			left := k.lease.Remaining() - k.margin()
			if left <= 0 {
				k.cancel(fmt.Errorf("%w: it ends, and the store could not be asked for more time: %w", ErrLeaseLost, err))
				return
			}
			k.log.Warn("the lease was not renewed; trying again", "left", left.Round(time.Second), "err", err)
			if sleep(k.ctx, min(pause, left)) != nil {
				return
			}
		}
	}
}

// renew asks for more time, which proves that the lease was still held when it
// was asked.
func (k *keeper) renew(ctx context.Context) error {
	k.turn.Lock()
	defer k.turn.Unlock()
	left := k.lease.Remaining() - k.margin()
	if left <= 0 {
		err := fmt.Errorf("%w: it ended before it was renewed", ErrLeaseLost)
		k.cancel(err)
		return err
	}
	asking, stop := context.WithTimeout(ctx, left)
	defer stop()
	err := k.lease.Renew(asking, k.ttl)
	if errors.Is(err, ErrLeaseLost) {
		k.cancel(err)
	}
	return err
}

// release ends the keeping, and the lease if it is still held.
func (k *keeper) release(ctx context.Context) {
	lost := errors.Is(context.Cause(k.ctx), ErrLeaseLost)
	k.cancel(context.Canceled)
	k.wg.Wait()
	if lost {
		return
	}
	if err := k.lease.Release(ctx); err != nil {
		k.log.Warn("the lease was not released; it ends by itself", "in", k.lease.Remaining().Round(time.Second), "err", err)
	}
}
