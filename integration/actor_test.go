package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

// role is what an actor does, under one of its names.
type role func(ctx context.Context, name string, store objstore.Store) error

// actor starts an actor, and starts it again when it crashes.
func (s *simulation) actor(of string, fn role) {
	name := fmt.Sprintf("%s#%d", of, s.lives[of])
	s.lives[of]++
	s.sched.Go(name, func(ctx context.Context, store objstore.Store) error {
		err := fn(ctx, name, store)
		if crashed(ctx, err) && s.lives[of] < 4 {
			s.actor(of, fn)
		}
		return err
	})
}

func crashed(ctx context.Context, err error) bool {
	return errors.Is(err, objtest.ErrCrashed) || errors.Is(context.Cause(ctx), objtest.ErrCrashed)
}

// calm is the error of a crash, or none: an actor may fail, and only that.
func calm(ctx context.Context, err error) error {
	if crashed(ctx, err) {
		return objtest.ErrCrashed
	}
	return nil
}

// random is a source that repeats with the seed, different for each actor.
func (s *simulation) random(name string) *rand.ChaCha8 {
	var key [32]byte
	copy(key[:], fmt.Sprintf("%d/%s", s.seed, name))
	return rand.NewChaCha8(key)
}

// merges merges again and again; Merge may fail, but not claim what is not so.
func (s *simulation) merges(ctx context.Context, name string, store objstore.Store) error {
	e := s.engine(name, store, s.sched.Now)
	for range s.rounds {
		if _, err := e.Merge(ctx, simBatch); crashed(ctx, err) {
			return objtest.ErrCrashed
		}
		if err := s.sched.Sleep(ctx, name, 2*time.Second); err != nil {
			return err
		}
	}
	return nil
}

// engine is a merger that makes small blocks, so that there are several.
func (s *simulation) engine(name string, store objstore.Store, now func() time.Time) *merger.Engine {
	e, err := merger.New(store, s.events, merger.Config{
		WorkDir: s.dir, Memory: 4 << 20, Concurrency: s.atOnce, BlockRows: s.blockRows, BlockBytes: s.blockBytes, Grace: time.Nanosecond,
		DigestGrowth: s.growth, By: name, Now: now, Random: s.random(name), MaxJSONLBytes: s.maxJSONL,
	}, nil, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return e
}

// sweeps sweeps without any grace: the number rule alone must carry safety.
func (s *simulation) sweeps(ctx context.Context, name string, store objstore.Store) error {
	by := committer(name, s.sched.Now)
	for range 6 {
		if _, err := catalog.Sweep(ctx, store, simBatch, s.policy, by); crashed(ctx, err) {
			return objtest.ErrCrashed
		}
		if err := s.sched.Sleep(ctx, name, time.Second); err != nil {
			return err
		}
	}
	return nil
}

func committer(name string, now func() time.Time) catalog.Committer {
	n := 0
	return catalog.Committer{By: name, Now: now, Commit: func() string { n++; return fmt.Sprintf("%s-%d", name, n) }}
}

// events is what mergers announced.
type events struct {
	mu      sync.Mutex
	commits map[string]bool
}

// Publish notes a commit that is announced.
func (e *events) Publish(_ context.Context, ev dataset.Event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.commits == nil {
		e.commits = map[string]bool{}
	}
	e.commits[ev.Commit] = true
	return nil
}

func (e *events) told(commit string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.commits[commit]
}
