package lockd_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/lockd"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

// broken is a store whose puts do something else about conditions.
type broken struct {
	objstore.Store
	put func(c objstore.Condition) (objstore.Condition, error)
}

func (b broken) Put(ctx context.Context, key string, body []byte, c objstore.Condition) (objstore.Info, error) {
	c, err := b.put(c)
	if err != nil {
		return objstore.Info{}, err
	}
	return b.Store.Put(ctx, key, body, c)
}

// racy is a store that looks whether a condition holds, and then writes: right
// for one writer, and wrong for two.
type racy struct {
	*mem.Store
	mu   sync.Mutex
	in   int
	open chan struct{}
}

func (r *racy) Put(ctx context.Context, key string, body []byte, c objstore.Condition) (objstore.Info, error) {
	_, info, err := objstore.ReadAll(ctx, r.Store, key)
	switch {
	case c.Absent() && err == nil, c.Match() != "" && info.ETag != c.Match():
		return objstore.Info{}, objstore.ErrLost
	}
	if strings.Contains(key, "race") {
		r.meet()
	}
	return r.Store.Put(ctx, key, body, objstore.Condition{})
}

// meet lets eight writers that have looked go on together.
func (r *racy) meet() {
	r.mu.Lock()
	if r.in++; r.in%8 == 1 {
		r.open = make(chan struct{})
	}
	open := r.open
	if r.in%8 == 0 {
		close(open)
	}
	r.mu.Unlock()
	<-open
}

// timeless is a store whose answers have no Date.
type timeless struct{ objstore.Store }

func (s timeless) Get(ctx context.Context, key string, span objstore.Span) (io.ReadCloser, objstore.Info, error) {
	r, info, err := s.Store.Get(ctx, key, span)
	info.Date = time.Time{}
	return r, info, err
}

// elsewhen is a store that dates objects by another clock than its answers.
type elsewhen struct{ objstore.Store }

func (s elsewhen) Get(ctx context.Context, key string, span objstore.Span) (io.ReadCloser, objstore.Info, error) {
	r, info, err := s.Store.Get(ctx, key, span)
	info.Modified = info.Modified.Add(-time.Hour)
	return r, info, err
}

// unlisted is a store that says "denied" of what is not there, as S3 does to
// those who may not list.
type unlisted struct{ objstore.Store }

var errDenied = errors.New("access denied")

func (s unlisted) Get(ctx context.Context, key string, span objstore.Span) (io.ReadCloser, objstore.Info, error) {
	r, info, err := s.Store.Get(ctx, key, span)
	if errors.Is(err, objstore.ErrNotFound) {
		err = errDenied
	}
	return r, info, err
}

func (s unlisted) List(context.Context, string, string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) { yield(objstore.Info{}, errDenied) }
}

func TestNoLeaseIsGivenOnAStoreThatCannotKeepOne(t *testing.T) {
	ignores := func(which func(objstore.Condition) bool) objstore.Store {
		return broken{mem.New(), func(c objstore.Condition) (objstore.Condition, error) {
			if which(c) {
				c = objstore.Condition{}
			}
			return c, nil
		}}
	}
	deleted := map[string]bool{}
	for what, c := range map[string]struct {
		store objstore.Store
		want  error
	}{
		"ignores that an object exists": {ignores(func(c objstore.Condition) bool { return c.Absent() }), objstore.ErrNoConditions},
		"overwrites what is stale":      {ignores(func(c objstore.Condition) bool { return c.Match() != "" }), objstore.ErrNoConditions},
		"remembers what was deleted":    {remembering{mem.New(), deleted}, objstore.ErrNoConditions},
		"looks, and then writes":        {&racy{Store: mem.New()}, objstore.ErrNoConditions},
		"has no clock":                  {timeless{mem.New()}, lockd.ErrNoClock},
		"has two clocks":                {elsewhen{mem.New()}, lockd.ErrNoClock},
	} {
		l := lockd.New(c.store, lockd.Config{})
		if err := l.SelfTest(t.Context()); !errors.Is(err, c.want) || errors.Is(err, lockd.ErrUnreachable) {
			t.Errorf("a store that %s: %v", what, err)
		}
		if _, err := l.Acquire(t.Context(), name, "a", time.Minute, 0, nil); !errors.Is(err, c.want) {
			t.Errorf("a lease on a store that %s: %v", what, err)
		}
	}
}

// remembering is a store that never lets a deleted object be created again.
type remembering struct {
	objstore.Store
	deleted map[string]bool
}

func (r remembering) Delete(ctx context.Context, key string) error {
	r.deleted[key] = true
	return r.Store.Delete(ctx, key)
}

func (r remembering) Put(ctx context.Context, key string, body []byte, c objstore.Condition) (objstore.Info, error) {
	if c.Absent() && r.deleted[key] {
		return objstore.Info{}, objstore.ErrLost
	}
	return r.Store.Put(ctx, key, body, c)
}

func TestAStoreThatKeepsLeasesIsTriedOnceAndLeftClean(t *testing.T) {
	s := mem.New()
	tries := 0
	f := objtest.NewFaulty(t, s, objtest.On(objtest.List).Before(func() { tries++ }))
	l := lockd.New(f, lockd.Config{})
	for range 3 {
		lease := take(t, l, "a", time.Minute)
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if tries != 1 {
		t.Errorf("tried %d times", tries)
	}
	for info := range s.List(t.Context(), "", "") {
		if info.Key != name {
			t.Errorf("%q is left", info.Key)
		}
	}
}

// B073: whoever may not do what leases need is told which permission is missing,
// before there is a lease that cannot be given back.
func TestAMissingPermissionIsNamed(t *testing.T) {
	for permission, store := range map[string]objstore.Store{
		"s3:PutObject":    objtest.NewFaulty(t, mem.New(), objtest.On(objtest.Put).Fail(errDenied)),
		"s3:GetObject":    objtest.NewFaulty(t, mem.New(), objtest.On(objtest.Get).Fail(errDenied)),
		"s3:DeleteObject": objtest.NewFaulty(t, mem.New(), objtest.On(objtest.Delete).Fail(errDenied)),
		"s3:ListBucket":   unlisted{mem.New()},
	} {
		_, err := lockd.New(store, lockd.Config{}).Acquire(t.Context(), name, "a", time.Minute, 0, nil)
		if !errors.Is(err, errDenied) || !strings.Contains(err.Error(), permission) || errors.Is(err, objstore.ErrNoConditions) {
			t.Errorf("without %s: %v", permission, err)
		}
	}
}
