package merger

import (
	"errors"
	"fmt"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/objstore"
)

// faultyFile says that a file which the commit record names is missing, or is
// not what the record says. It may have been replaced since: what it means shows
// when the record is read again.
type faultyFile struct {
	key string
	err error
}

func (f *faultyFile) Error() string { return fmt.Sprintf("%s: %v", f.key, f.err) }
func (f *faultyFile) Unwrap() error { return f.err }

// damage is the error of a file that was faulty twice under one generation.
func (f *faultyFile) damage(generation int64) error {
	if errors.Is(f.err, objstore.ErrNotFound) {
		return fmt.Errorf("%s: %w: the commit record of generation %d names it, and it is not there", f.key, block.ErrDamaged, generation)
	}
	return fmt.Errorf("%s: the commit record of generation %d does not fit: %w", f.key, generation, f.err)
}

// errAgain means that the batch has changed under an attempt: the next one
// starts from a new listing.
var errAgain = errors.New("the batch has changed")

func again(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errAgain, fmt.Errorf(format, args...))
}
