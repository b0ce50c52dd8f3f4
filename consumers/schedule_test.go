package consumers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/consumers"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

// scene is a batch with a writer, mergers, catalogers, a reconciler and a reader
// of the bucket, one call to store or bucket at a time in an order that a seed
// decides. Events come late, doubled and in any order; where lossy, some never.
type scene struct {
	t      *testing.T
	sched  *objtest.Schedule
	bucket *memBucket
	lossy  bool
	silent bool // the store does not tell what was deleted

	mu     sync.Mutex
	rng    *rand.Rand
	events []dataset.Event // that wait
	busy   int             // actors that may still make events
	seen   map[string]catalog.Chunk
}

var errUntrue = errors.New("the catalog is not true")

func newScene(t *testing.T, seed uint64) *scene {
	s := &scene{t: t, bucket: newMemBucket(), rng: rand.New(rand.NewPCG(seed, 9)), lossy: seed%3 == 0, silent: seed%2 == 0, seen: map[string]catalog.Chunk{}}
	s.sched = objtest.NewSchedule(seed, objtest.ScheduleConfig{
		Chances: objtest.Chances{ReadError: .02, Pause: .2},
		Spare: func(actor, _, _ string) bool {
			return !strings.HasPrefix(actor, "cataloger") && !strings.HasPrefix(actor, "reconciler")
		},
	})
	return s
}

// kv is the bucket as an actor sees it.
func (s *scene) kv(actor string) memKV {
	return memKV{func(ctx context.Context) error { return s.sched.Sleep(ctx, actor, 0) }, s.bucket}
}

func (s *scene) dice(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

// tell lets an event wait, or two of it, or in a lossy scene none.
func (s *scene) tell(e dataset.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lossy && s.rng.IntN(3) == 0 {
		return
	}
	for range 1 + s.rng.IntN(2) {
		s.events = append(s.events, e)
	}
}

// event takes one of the events that wait; more tells whether any may come.
func (s *scene) event() (e dataset.Event, ok, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.events) == 0 {
		return e, false, s.busy > 0
	}
	i := s.rng.IntN(len(s.events))
	e = s.events[i]
	s.events = slices.Delete(s.events, i, i+1)
	return e, true, true
}

func (s *scene) ends() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
}

func (s *scene) run() error {
	open(s.t, s.sched.Store(), own, "a1b2c3", catalog.RunOpen, nil)
	s.busy = 3
	s.sched.Go("writer", s.write)
	for i := range 2 {
		s.sched.Go(fmt.Sprintf("merger%d", i), s.merges)
	}
	for i := range 3 {
		name := fmt.Sprintf("cataloger%d", i)
		s.sched.Go(name, func(ctx context.Context, store objstore.Store) error { return s.catalogs(ctx, name, store) })
	}
	s.sched.Go("reconciler", s.reconciles)
	s.sched.Go("reader", s.reads)
	if err := s.sched.Run(s.t.Context()); err != nil {
		return err
	}
	free := memKV{func(context.Context) error { return nil }, s.bucket}
	if s.lossy {
		r := consumers.NewReconciler(&leader{}, free, s.sched.Store(), consumers.ReconcilerConfig{}, nil, nil)
		<-time.After(time.Hour) // by the clock of the bubble
		if err := r.Pass(s.t.Context()); err != nil {
			return err
		}
	}
	if diff := cmp.Diff(storeText(s.t, s.sched.Store(), own), catalogText(s.t, free, false)); diff != "" {
		return fmt.Errorf("in the end store (-) and catalog (+) differ:\n%s", diff)
	}
	return nil
}

func (s *scene) write(ctx context.Context, store objstore.Store) error {
	defer s.ends()
	for n := range 8 {
		s.tell(chunk(s.t, store, own, "a1b2c3", n, 1))
		if err := s.sched.Sleep(ctx, "writer", time.Duration(s.dice(3000))*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// merges merges some chunks, and the store tells of those that were deleted.
func (s *scene) merges(_ context.Context, store objstore.Store) error {
	defer s.ends()
	for range 2 {
		var took []catalog.Chunk
		merge(s.t, store, own, func(c catalog.Chunk) bool {
			if s.dice(3) == 0 {
				return false
			}
			took = append(took, c)
			return true
		}, func(h catalog.Head) { s.tell(mergeEvent(h)) })
		for _, c := range took {
			if s.silent {
				break
			}
			e := dataset.NewEvent(dataset.ObjectsDeleted, own, time.Now())
			e.Key = c.Key()
			s.tell(e)
		}
	}
	return nil
}

// catalogs handles events; one that fails comes again.
func (s *scene) catalogs(ctx context.Context, name string, store objstore.Store) error {
	c := consumers.NewCataloger(nil, s.kv(name), store, consumers.CatalogerConfig{}, nil)
	for {
		if err := s.sched.Sleep(ctx, name, time.Duration(s.dice(500))*time.Millisecond); err != nil {
			return err
		}
		e, ok, more := s.event()
		if !more {
			return nil
		}
		if !ok {
			continue
		}
		if err := c.Handle(ctx, e); err != nil {
			s.mu.Lock()
			s.events = append(s.events, e)
			s.mu.Unlock()
		}
	}
}

func (s *scene) reconciles(ctx context.Context, store objstore.Store) error {
	r := consumers.NewReconciler(&leader{}, s.kv("reconciler"), store, consumers.ReconcilerConfig{Page: 4, Policy: consumers.Policy{Quiet: time.Millisecond}}, nil, nil)
	for range 4 {
		_, _ = r.Turn(ctx) // a turn that fails is done again
		if err := s.sched.Sleep(ctx, "reconciler", time.Second); err != nil {
			return err
		}
	}
	return nil
}

// reads takes the chunks from the bucket, and then the record of just the
// generation that the bucket names. What was there once is in one of them.
func (s *scene) reads(ctx context.Context, store objstore.Store) error {
	kv := s.kv("reader")
	last := int64(0)
	for range 25 {
		present := map[string]bool{}
		for e, err := range kv.List(ctx, bus.ChunksOf(own)) {
			if err != nil {
				return err
			}
			k, err := bus.ParseCatalogKey(e.Key)
			if err != nil {
				return err
			}
			present[e.Key] = true
			s.seen[e.Key] = catalog.Chunk{Batch: own, Run: k.Run, Number: k.Number}
		}
		generation := int64(0)
		switch e, err := kv.Get(ctx, bus.BatchKey(own)); {
		case err == nil:
			generation = batchOf(s.t, e).Generation
		case !errors.Is(err, bus.ErrNoKey):
			return err
		}
		if generation < last {
			return fmt.Errorf("%w: generation %d comes after %d", errUntrue, generation, last)
		}
		last = generation
		r, err := s.record(generation)
		if err != nil {
			return err
		}
		for key, c := range s.seen {
			if !present[key] && !r.Absorbed(c) {
				return fmt.Errorf("%w: %s is neither live nor in generation %d", errUntrue, c.Key(), generation)
			}
		}
		if err := s.sched.Sleep(ctx, "reader", time.Duration(s.dice(500))*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// record gives the record of a generation, present or past.
func (s *scene) record(generation int64) (catalog.Record, error) {
	h, err := catalog.ReadHead(s.t.Context(), s.sched.Store(), own)
	switch {
	case generation == 0:
		return catalog.Record{}, nil
	case err != nil, h.Record.Generation == generation:
		return h.Record, err
	}
	raw, _, err := objstore.ReadAll(s.t.Context(), s.sched.Store(), own.HistoryKey(generation))
	if err != nil {
		return catalog.Record{}, err
	}
	return recordOf(s.t, raw), nil
}

func TestTheCatalogIsTrueInAnyOrderOfSteps(t *testing.T) {
	seeds := uint64(400)
	if testing.Short() {
		seeds = 100
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, seed)
			if err := s.run(); err != nil {
				t.Errorf("seed %d: %v\n%s", seed, err, s.sched.Trace())
			}
		})
		if t.Failed() {
			return
		}
	}
}

func recordOf(t *testing.T, raw []byte) (r catalog.Record) {
	t.Helper()
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r
}
