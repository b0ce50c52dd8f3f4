package lockd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/siltstone-data/siltstone/objstore"
)

// trust runs the self-test once, unless the store is trusted.
func (l *Leases) trust(ctx context.Context) error {
	l.testing.Lock()
	defer l.testing.Unlock()
	if l.trusted {
		return nil
	}
	return l.selfTest(ctx)
}

// SelfTest finds out, with objects that it removes again, whether the store can
// keep leases: whether it keeps the conditions of writes, when one comes after
// the other and when many come at once, and tells a time that is that of its
// objects. No lease is given on a store that fails. What the store denies is
// named with the permission that is missing.
func (l *Leases) SelfTest(ctx context.Context) error {
	l.testing.Lock()
	defer l.testing.Unlock()
	return l.selfTest(ctx)
}

func (l *Leases) selfTest(ctx context.Context) error {
	err := l.examine(ctx)
	switch {
	case err == nil:
		l.trusted = true
		return nil
	case errors.Is(err, objstore.ErrNoConditions), errors.Is(err, ErrNoClock):
		return fmt.Errorf("the store cannot keep leases: %w", err)
	}
	return unreachable(fmt.Errorf("try out the store: %w", err))
}

func (l *Leases) examine(ctx context.Context) error {
	if err := objstore.Probe(ctx, l.store, selfTestDir); err != nil {
		return err
	}
	key := selfTestDir + "race-" + rand.Text()
	defer func() { _ = l.store.Delete(context.WithoutCancel(ctx), key) }()
	if _, _, err := objstore.ReadAll(ctx, l.store, key); !errors.Is(err, objstore.ErrNotFound) {
		return fmt.Errorf("read an object that is not there (without s3:ListBucket the store does not say so): %w", err)
	}
	first, err := l.race(ctx, key, "create", objstore.IfAbsent())
	if err != nil {
		return err
	}
	if _, err = l.race(ctx, key, "overwrite", objstore.IfMatch(first)); err != nil {
		return err
	}
	_, info, err := objstore.ReadAll(ctx, l.store, key)
	if err != nil {
		return fmt.Errorf("read (needs s3:GetObject): %w", err)
	}
	if err := tellsTime(info); err != nil {
		return err
	}
	for _, err := range l.store.List(ctx, selfTestDir, "") {
		if err != nil {
			return fmt.Errorf("list (needs s3:ListBucket): %w", err)
		}
	}
	return nil
}

// racers write at the same time. Stores have been seen that keep conditions of
// writes that come one after the other, and of no others.
const racers = 8

func (l *Leases) race(ctx context.Context, key, what string, cond objstore.Condition) (etag string, err error) {
	var wg sync.WaitGroup
	etags, errs := make([]string, racers), make([]error, racers)
	for i := range racers {
		wg.Go(func() {
			info, err := l.store.Put(ctx, key, []byte(fmt.Sprintf("%s %d %s", what, i, rand.Text())), cond)
			etags[i], errs[i] = info.ETag, err
		})
	}
	wg.Wait()
	won := 0
	for i, err := range errs {
		switch {
		case err == nil:
			won, etag = won+1, etags[i]
		case !errors.Is(err, objstore.ErrLost):
			return "", fmt.Errorf("%s with %d at once (needs s3:PutObject): %w", what, racers, err)
		}
	}
	if won != 1 {
		return "", fmt.Errorf("%w: of %d that %s one object at once, %d succeeded", objstore.ErrNoConditions, racers, what, won)
	}
	return etag, nil
}

// maxAge is how old an object may seem that was just written.
const maxAge = 15 * time.Second

func tellsTime(info objstore.Info) error {
	switch age := info.Date.Sub(info.Modified); {
	case info.Date.IsZero():
		return fmt.Errorf("%w: there is no Date in them", ErrNoClock)
	case info.Modified.IsZero():
		return fmt.Errorf("%w: there is no Last-Modified in them", ErrNoClock)
	case age < -slack, age > maxAge:
		return fmt.Errorf("%w: by its Date, an object that was just written is %s old", ErrNoClock, age)
	}
	return nil
}
