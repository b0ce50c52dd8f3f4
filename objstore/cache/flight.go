package cache

import (
	"context"
	"errors"
	"sync"
)

// flight lets one caller do the work that several want done at the same time.
// The first one does it in its own goroutine and under its own context; when
// that context ends, one of the others starts again, so nobody fails because
// somebody else went away.
type flight[K comparable, V any] struct {
	mu    sync.Mutex
	calls map[K]*call[V]
}

type call[V any] struct {
	done   chan struct{}
	v      V
	err    error
	gaveUp bool // because of the caller's own context
}

var errPanicked = errors.New("the caller that was loading it panicked")

func (f *flight[K, V]) do(ctx context.Context, key K, fn func() (V, error)) (V, error) {
	for {
		f.mu.Lock()
		c, running := f.calls[key]
		if !running {
			c = &call[V]{done: make(chan struct{}), err: errPanicked}
			if f.calls == nil {
				f.calls = make(map[K]*call[V])
			}
			f.calls[key] = c
		}
		f.mu.Unlock()
		if !running {
			f.run(ctx, key, c, fn)
			return c.v, c.err
		}
		select {
		case <-c.done:
			if !c.gaveUp {
				return c.v, c.err
			}
		case <-ctx.Done():
			var none V
			return none, context.Cause(ctx)
		}
		if ctx.Err() != nil {
			var none V
			return none, context.Cause(ctx)
		}
	}
}

// run settles a call, also when fn panics: nobody may wait for ever.
func (f *flight[K, V]) run(ctx context.Context, key K, c *call[V], fn func() (V, error)) {
	defer func() {
		c.gaveUp = c.err != nil && ctx.Err() != nil
		f.mu.Lock()
		delete(f.calls, key)
		f.mu.Unlock()
		close(c.done)
	}()
	c.v, c.err = fn()
}
