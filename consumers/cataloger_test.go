package consumers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/consumers"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
)

// shaky is a bucket whose writes fail now and then, before or after they were
// stored.
type shaky struct {
	*bus.KV
	mu  sync.Mutex
	rng *rand.Rand
}

var errShaky = errors.New("planned fault")

func (s *shaky) fault(write func() (uint64, error)) (uint64, error) {
	s.mu.Lock()
	n := s.rng.IntN(20)
	s.mu.Unlock()
	switch n {
	case 0:
		return 0, errShaky
	case 1:
		_, _ = write()
		return 0, errShaky
	}
	return write()
}

func (s *shaky) Create(ctx context.Context, key string, v []byte) (uint64, error) {
	return s.fault(func() (uint64, error) { return s.KV.Create(ctx, key, v) })
}

func (s *shaky) Update(ctx context.Context, key string, v []byte, rev uint64) (uint64, error) {
	return s.fault(func() (uint64, error) { return s.KV.Update(ctx, key, v, rev) })
}

func (s *shaky) Delete(ctx context.Context, key string, rev uint64) error {
	_, err := s.fault(func() (uint64, error) { return 0, s.KV.Delete(ctx, key, rev) })
	return err
}

// history is what happens to the store, with the events that tell of it.
type history struct {
	t    *testing.T
	w    *world
	rng  *rand.Rand
	next map[dataset.BatchID]int

	events  []dataset.Event
	waiting []dataset.Event // those that have to be delivered yet
}

func newHistory(t *testing.T, w *world, rng *rand.Rand) *history {
	h := &history{t: t, w: w, rng: rng, next: map[dataset.BatchID]int{}}
	open(t, w.store, own, "a1b2c3", catalog.RunOpen, nil)
	return h
}

func (h *history) tell(e dataset.Event) {
	h.events = append(h.events, e)
	h.waiting = append(h.waiting, e)
}

// step lets one thing happen.
func (h *history) step() {
	b, run := own, dataset.Run("a1b2c3")
	if h.rng.IntN(3) == 0 {
		b, run = layer, "ffffff" // a run without a manifest
	}
	switch h.rng.IntN(6) {
	case 0:
		merge(h.t, h.w.store, b, func(catalog.Chunk) bool { return h.rng.IntN(3) > 0 }, func(head catalog.Head) {
			h.tell(mergeEvent(head))
		})
	case 1: // somebody's hand
		l, err := catalog.ListLive(context.Background(), h.w.store, b)
		if err != nil {
			h.t.Fatal(err)
		}
		if len(l.Chunks) == 0 {
			return
		}
		c := l.Chunks[h.rng.IntN(len(l.Chunks))]
		if err := h.w.store.Delete(context.Background(), c.Key()); err != nil {
			h.t.Fatal(err)
		}
		e := dataset.NewEvent(dataset.ObjectsDeleted, b, time.Now())
		e.Key = c.Key()
		h.tell(e)
	default:
		h.tell(chunk(h.t, h.w.store, b, run, h.next[b], 1+h.rng.IntN(3)))
		h.next[b]++
	}
}

// any gives one of the events so far.
func (h *history) any() (dataset.Event, bool) {
	if len(h.events) == 0 {
		return dataset.Event{}, false
	}
	return h.events[h.rng.IntN(len(h.events))], true
}

// deliver hands events to several handlers at once until each has succeeded.
func deliver(t *testing.T, handle func(context.Context, dataset.Event) error, events []dataset.Event) {
	t.Helper()
	var wg sync.WaitGroup
	queue := make(chan dataset.Event)
	for range 4 {
		wg.Go(func() {
			for e := range queue {
				err := errShaky
				for try := 0; errors.Is(err, errShaky) && try < 100; try++ {
					err = handle(t.Context(), e)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, e := range events {
		queue <- e
	}
	close(queue)
	wg.Wait()
}

// In whatever order events come, doubled and late, and whatever fails on the
// way, the catalog ends where the store is.
func batchOf(t *testing.T, e bus.Entry) bus.BatchEntry {
	t.Helper()
	var v bus.BatchEntry
	if err := json.Unmarshal(e.Value, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTheCatalogEndsWhereTheStoreIs(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t)
			rng := rand.New(rand.NewPCG(seed, 0))
			h := newHistory(t, w, rng)
			c := consumers.NewCataloger(nil, &shaky{KV: w.kv, rng: rand.New(rand.NewPCG(seed, 1))}, w.store, consumers.CatalogerConfig{}, nil)
			for range 40 {
				h.step()
				// Each event comes once at least, some at once and some after others.
				for range rng.IntN(3) {
					h.handleOne(c.Handle)
				}
			}
			deliver(t, c.Handle, h.waiting)
			if diff := w.agrees(own, layer); diff != "" {
				t.Errorf("store (-) and catalog (+) differ:\n%s", diff)
			}
		})
	}
}

// handleOne delivers an event that waits. Mostly it waits no more then.
func (h *history) handleOne(handle func(context.Context, dataset.Event) error) {
	if len(h.waiting) == 0 {
		return
	}
	i := h.rng.IntN(len(h.waiting))
	err := handle(h.t.Context(), h.waiting[i])
	if err != nil && !errors.Is(err, errShaky) {
		h.t.Fatal(err)
	}
	if err == nil && h.rng.IntN(5) > 0 {
		h.waiting = slices.Delete(h.waiting, i, i+1)
	}
}

func TestEventsInReverseGiveTheSameCatalog(t *testing.T) {
	w := newWorld(t)
	h := newHistory(t, w, rand.New(rand.NewPCG(1, 2)))
	for range 30 {
		h.step()
	}
	c := consumers.NewCataloger(nil, w.kv, w.store, consumers.CatalogerConfig{}, nil)
	for i := len(h.events) - 1; i >= 0; i-- {
		if err := c.Handle(t.Context(), h.events[i]); err != nil {
			t.Fatal(err)
		}
	}
	if diff := w.agrees(own, layer); diff != "" {
		t.Error(diff)
	}
}

// A reader takes chunks from the bucket first and the generation second. A chunk
// that it no longer finds must be in the blocks of that generation.
func TestAChunkLeavesTheCatalogAfterTheGenerationThatAbsorbedIt(t *testing.T) {
	w := newWorld(t)
	open(t, w.store, own, "a1b2c3", catalog.RunOpen, nil)
	c := consumers.NewCataloger(nil, w.kv, w.store, consumers.CatalogerConfig{}, nil)
	var mu sync.Mutex
	var events []dataset.Event
	records := map[int64]catalog.Record{}

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { // the reader
		seen := map[string]catalog.Chunk{}
		for ctx.Err() == nil {
			present := map[string]bool{}
			for e, err := range w.kv.List(t.Context(), bus.ChunksOf(own)) {
				if err != nil {
					t.Error(err)
					return
				}
				k, err := bus.ParseCatalogKey(e.Key)
				if err != nil {
					t.Error(err)
				}
				present[e.Key] = true
				seen[e.Key] = catalog.Chunk{Batch: own, Run: k.Run, Number: k.Number}
			}
			generation := int64(0)
			if e, err := w.kv.Get(t.Context(), bus.BatchKey(own)); err == nil {
				generation = batchOf(t, e).Generation
			}
			mu.Lock()
			r := records[generation]
			mu.Unlock()
			for key, ch := range seen {
				if !present[key] && !r.Absorbed(ch) {
					t.Errorf("%s is neither live nor in generation %d", key, generation)
					return
				}
			}
		}
	})
	handled := make(chan dataset.Event, 1000)
	for range 3 {
		wg.Go(func() {
			for e := range handled {
				if err := c.Handle(t.Context(), e); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := range 40 {
		e := chunk(t, w.store, own, "a1b2c3", n, 1)
		events = append(events, e)
		handled <- e
		if n%5 == 4 {
			merge(t, w.store, own, nil, func(h catalog.Head) {
				mu.Lock()
				records[h.Record.Generation] = h.Record
				mu.Unlock()
				handled <- mergeEvent(h)
			})
			for _, e := range events[len(events)-5:] {
				handled <- e // again, late
			}
		}
	}
	close(handled)
	eventually(t, func() string { return w.agrees(own) })
	cancel()
	wg.Wait()
}

// hooked lets something happen before the entry of a chunk is read or made.
type hooked struct {
	*bus.KV
	get, create func()
}

func (h *hooked) Get(ctx context.Context, key string) (bus.Entry, error) {
	if do := h.get; do != nil && strings.HasPrefix(key, "chunk.") {
		h.get = nil
		do()
	}
	return h.KV.Get(ctx, key)
}

func (h *hooked) Create(ctx context.Context, key string, v []byte) (uint64, error) {
	if do := h.create; do != nil && strings.HasPrefix(key, "chunk.") {
		h.create = nil
		do()
	}
	return h.KV.Create(ctx, key, v)
}

func TestAChunkThatIsMergedWhileItIsEnteredDoesNotStay(t *testing.T) {
	w := newWorld(t)
	open(t, w.store, own, "a1b2c3", catalog.RunOpen, nil)
	e := chunk(t, w.store, own, "a1b2c3", 0, 1)
	kv := &hooked{KV: w.kv}
	kv.create = func() { // all of the merge, and its event, pass by
		w.catalogue(own, merge(t, w.store, own, nil, nil))
	}
	if err := consumers.NewCataloger(nil, kv, w.store, consumers.CatalogerConfig{}, nil).Handle(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if diff := w.agrees(own); diff != "" {
		t.Error(diff)
	}
}

// The entry is read before the store: what is written over it is never older.
func TestAnEntryIsNotWrittenOverByAnEarlierVersionOfItsChunk(t *testing.T) {
	w := newWorld(t)
	handle := func(kv consumers.KV, e dataset.Event) {
		if err := consumers.NewCataloger(nil, kv, w.store, consumers.CatalogerConfig{}, nil).Handle(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	first := chunk(t, w.store, own, "a1b2c3", 0, 1)
	kv := &hooked{KV: w.kv}
	kv.get = func() { handle(w.kv, chunk(t, w.store, own, "a1b2c3", 0, 2)) }
	handle(kv, first)
	if diff := w.agrees(own); diff != "" {
		t.Error(diff)
	}
}

func TestADeletionThatComesBeforeItsMergeBringsTheGeneration(t *testing.T) {
	w := newWorld(t)
	c := consumers.NewCataloger(nil, w.kv, w.store, consumers.CatalogerConfig{}, nil)
	e := chunk(t, w.store, own, "a1b2c3", 0, 1)
	deleted := dataset.NewEvent(dataset.ObjectsDeleted, own, time.Now())
	deleted.Key = e.Key
	if err := c.Handle(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	merge(t, w.store, own, nil, nil)
	if err := c.Handle(t.Context(), deleted); err != nil {
		t.Fatal(err)
	}
	if diff := w.agrees(own); diff != "" {
		t.Error(diff)
	}
}

func TestRowsStayKnownWhenOnlyTheStoreTellsAgain(t *testing.T) {
	w := newWorld(t)
	c := consumers.NewCataloger(nil, w.kv, w.store, consumers.CatalogerConfig{}, nil)
	e := chunk(t, w.store, own, "a1b2c3", 0, 7)
	late := e
	late.Rows = nil
	for _, e := range []dataset.Event{late, e, late} {
		if err := c.Handle(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	want := fmt.Sprintf("%s %s %d bytes 7 rows", e.Key, e.ETag, e.Bytes)
	if diff := cmp.Diff(want, catalogText(t, w.kv, true)); diff != "" {
		t.Error(diff)
	}
}

// An older tool may use a chunk's name again.
func TestRowsAreThoseOfTheVersionThatIsThere(t *testing.T) {
	w := newWorld(t)
	c := consumers.NewCataloger(nil, w.kv, w.store, consumers.CatalogerConfig{}, nil)
	rows := func(events ...dataset.Event) string {
		for _, e := range events {
			if err := c.Handle(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		return catalogText(t, w.kv, true)
	}
	first := chunk(t, w.store, own, "a1b2c3", 0, 1)
	second := chunk(t, w.store, own, "a1b2c3", 0, 3)
	if got := rows(second, first); !strings.HasSuffix(got, " 3 rows") {
		t.Errorf("the event of an earlier version came last: %s", got)
	}
	third := chunk(t, w.store, own, "a1b2c3", 0, 2)
	third.Rows = nil // the store tells
	if got := rows(third); strings.Contains(got, "rows") {
		t.Errorf("nobody knows the rows of this version: %s", got)
	}
}

func TestTheCatalogIsKeptFromTheEventsOfTheBus(t *testing.T) {
	w := newWorld(t)
	c := consumers.NewCataloger(w.bus, w.kv, w.store, consumers.CatalogerConfig{}, logger())
	w.run(c.Run)
	for _, b := range []dataset.BatchID{own, layer} {
		open(t, w.store, b, "a1b2c3", catalog.RunOpen, nil)
		for n := range 20 {
			if err := w.bus.Publish(t.Context(), chunk(t, w.store, b, "a1b2c3", n, 2)); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, func() string { return w.agrees(own, layer) })
	merge(t, w.store, own, nil, func(h catalog.Head) {
		if err := w.bus.Publish(t.Context(), mergeEvent(h)); err != nil {
			t.Fatal(err)
		}
	})
	eventually(t, func() string { return w.agrees(own, layer) })
}

var _ consumers.KV = (*shaky)(nil)
var _ interface {
	List(context.Context, string) iter.Seq2[bus.Entry, error]
} = (*shaky)(nil)
