package lockd

import (
	"errors"
	"fmt"
	"time"
)

// The outcomes that callers tell apart. All are compared with errors.Is.
var (
	// ErrHeld: somebody else has the lease. It comes as a *HeldError.
	ErrHeld = errors.New("lease is held")
	// ErrLost: the lease is no longer yours. It comes as a *LostError.
	ErrLost = errors.New("lease is lost")
	// ErrUnreachable: the store, or lockd, gave no answer, or none that helps.
	// A lease that could not be renewed for that reason may still be yours until
	// its end, and is not yours after it.
	ErrUnreachable = errors.New("lease store cannot be reached")
	// ErrNoLease: nobody has ever taken a lease of that name.
	ErrNoLease = errors.New("no such lease")
	// ErrAlien: the object under the name is no lease.
	ErrAlien = errors.New("the object is no lease")
	// ErrNewer: a newer siltstone wrote the lease.
	ErrNewer = errors.New("the lease is of a newer version")
	// ErrNoClock: the store's answers do not tell the store's time.
	ErrNoClock = errors.New("the store's answers carry no usable time")
	// ErrDenied: lockd wants another token than ours.
	ErrDenied = errors.New("lockd refuses the token")
	// ErrNoLockd: something else answers where lockd should be.
	ErrNoLockd = errors.New("that is no lockd")
)

// ErrInvalid reports what was asked for and is nothing that can be had.
var ErrInvalid = errors.New("invalid request")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

// HeldError says who has a lease, and until when.
type HeldError struct {
	Name      string
	HeldBy    string
	ExpiresAt time.Time     // by the store's clock; zero when it is only about to be taken
	In        time.Duration // until then
}

// Error names the holder, and how long it has.
func (e *HeldError) Error() string {
	if e.ExpiresAt.IsZero() {
		return fmt.Sprintf("lease %s is being taken by %s", e.Name, e.HeldBy)
	}
	return fmt.Sprintf("lease %s is held by %s until %s (%s from now)", e.Name, e.HeldBy,
		e.ExpiresAt.UTC().Format(time.RFC3339), max(e.In, 0).Round(time.Second))
}

// Is makes it an ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// LostError says what became of a lease.
type LostError struct {
	Name  string
	Token int64  // the one it had
	Why   string // in words
}

// Error tells what became of it.
func (e *LostError) Error() string {
	return fmt.Sprintf("lease %s (token %d) is no longer yours: %s", e.Name, e.Token, e.Why)
}

// Is makes it an ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// unreachable marks the error of a store as what it means to a lease, unless it
// has a meaning of its own.
func unreachable(err error) error {
	if err == nil || errors.Is(err, ErrUnreachable) || tells(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// tells says that an error has a meaning of its own, and that asking again
// changes nothing.
func tells(err error) bool {
	return errors.Is(err, ErrAlien) || errors.Is(err, ErrNewer) || errors.Is(err, ErrNoClock) || errors.Is(err, ErrDenied)
}
