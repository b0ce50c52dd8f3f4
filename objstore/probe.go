package objstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
)

// ErrNoConditions says that the store does not keep the conditions of puts. Nothing that
// relies on them, as commits and leases do, may run on it.
var ErrNoConditions = errors.New("the store does not keep conditions of writes")

// Probe finds out whether a store keeps conditions, with objects below prefix
// that it removes again: stores have been seen that ignore a condition, that
// always refuse it, and that refuse it after a delete.
func Probe(ctx context.Context, s Store, prefix string) error {
	key := prefix + "probe-" + rand.Text()
	defer func() { _ = s.Delete(context.WithoutCancel(ctx), key) }()
	put := func(body string, c Condition) (string, error) {
		info, err := s.Put(ctx, key, []byte(body), c)
		return info.ETag, err
	}
	first, err := put("first", IfAbsent())
	if err := outcome("create", err, nil); err != nil {
		return err
	}
	_, err = put("again", IfAbsent())
	if err := outcome("create what exists", err, ErrLost); err != nil {
		return err
	}
	second, err := put("second", IfMatch(first))
	if err := outcome("overwrite the version that was read", err, nil); err != nil {
		return err
	}
	_, err = put("stale", IfMatch(first))
	if err := outcome("overwrite a version that is gone", err, ErrLost); err != nil {
		return err
	}
	body, info, err := ReadAll(ctx, s, key)
	switch {
	case err != nil:
		return fmt.Errorf("probe the store: read (needs s3:GetObject): %w", err)
	case string(body) != "second" || info.ETag != second:
		return fmt.Errorf("%w: after a refused overwrite the object holds %q", ErrNoConditions, body)
	}
	if err := s.Delete(ctx, key); err != nil {
		return fmt.Errorf("probe the store: delete (needs s3:DeleteObject): %w", err)
	}
	_, err = put("third", IfAbsent())
	return outcome("create after a delete", err, nil)
}

// outcome tells a store that fails from one that gives the wrong answer.
func outcome(what string, got, want error) error {
	switch {
	case want == nil && got == nil, want != nil && errors.Is(got, want):
		return nil
	case got == nil, errors.Is(got, ErrLost), errors.Is(got, ErrNotFound):
		return fmt.Errorf("%w: %s: got %v, want %v", ErrNoConditions, what, got, want)
	}
	return fmt.Errorf("probe the store: %s (needs s3:PutObject): %w", what, got)
}
