package consumers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/consumers"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/index"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore"
)

func (w *world) indexer(s objstore.Store) *consumers.Indexer {
	return consumers.NewIndexer(w.bus, s, consumers.IndexerConfig{Grace: time.Nanosecond}, logger(), nil)
}

func (w *world) publish(e dataset.Event) {
	w.t.Helper()
	if err := w.bus.Publish(w.t.Context(), e); err != nil {
		w.t.Fatal(err)
	}
}

// summed says what is wrong with the summary of the newest record.
func (w *world) summed(b dataset.BatchID) string {
	h, err := catalog.ReadHead(context.Background(), w.store, b)
	if err != nil {
		return err.Error()
	}
	m, err := index.ReadMeta(context.Background(), w.store, b)
	if err != nil {
		return err.Error()
	}
	all := map[int]bool{}
	for _, bl := range h.Record.Blocks {
		all[dataset.ParseKey(b.BlockKey(bl.File)).Number] = true
	}
	return cmp.Diff(index.Summarize(h.Record, all), m)
}

func TestACommitGetsItsBlocksIndexed(t *testing.T) {
	for _, b := range []dataset.BatchID{own, layer} {
		t.Run(b.String(), func(t *testing.T) {
			w := newWorld(t)
			w.run(w.indexer(w.store).Run)
			for n := range 3 {
				chunk(t, w.store, b, "a1b2c3", n, 5)
				h := merge(t, w.store, b, nil, nil)
				w.publish(mergeEvent(h))
				eventually(t, func() string { return w.summed(b) })
				if err := index.Verify(t.Context(), w.store, b, h.Record.Blocks[0]); err != nil {
					t.Error(err)
				}
			}
			eventually(t, func() string {
				for e, err := range w.bus.Tail(t.Context(), bus.TailFrom{Since: time.Now().Add(-time.Hour)}, false) {
					if err == nil && e.Event.Type == dataset.IndexRefreshed && e.Event.Generation == 3 && *e.Event.Rows == 15 {
						return ""
					}
				}
				return "no event tells of the new index"
			})
			have, err := index.Numbers(t.Context(), w.store, b)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[int]bool{2: true}, have); diff != "" {
				t.Errorf("indexes of replaced blocks stay: %s", diff)
			}
		})
	}
}

// leaves is a store that fails after a number of puts.
type leaves struct {
	objstore.Store
	puts int
}

func (l *leaves) Put(ctx context.Context, key string, body []byte, c objstore.Condition) (objstore.Info, error) {
	if l.puts--; l.puts < 0 {
		return objstore.Info{}, errShaky
	}
	return l.Store.Put(ctx, key, body, c)
}

func TestAnIndexerThatIsStoppedHalfwayDoesTheRestLater(t *testing.T) {
	w := newWorld(t)
	chunk(t, w.store, own, "a1b2c3", 0, 5)
	head := merge(t, w.store, own, nil, nil)
	next := head.Record.Next("0123456789abcdef", "test", time.Now())
	for _, id := range []string{"x", "y"} { // two more blocks
		next.Blocks = append(next.Blocks, putBlock(t, w.store, own, &next.NextFile, []string{`{"id":"` + id + `"}`}))
	}
	if _, err := catalog.Commit(t.Context(), w.store, head, next); err != nil {
		t.Fatal(err)
	}
	job := bus.Job{Kind: bus.KindIndex, Batch: own}
	runs := 0
	for err := errShaky; err != nil; runs++ {
		if !errors.Is(err, errShaky) || runs > 10 {
			t.Fatal(err)
		}
		err = w.indexer(&leaves{w.store, 1}).Index(t.Context(), job)
	}
	if runs != 4 {
		t.Errorf("three indexes and a summary took %d runs of one put each", runs)
	}
	if diff := w.summed(own); diff != "" {
		t.Error(diff)
	}
	for _, bl := range next.Blocks {
		if err := index.Verify(t.Context(), w.store, own, bl); err != nil {
			t.Error(err)
		}
	}
}

func TestBlocksThatWereReplacedMeanwhileAreSkipped(t *testing.T) {
	w := newWorld(t)
	chunk(t, w.store, own, "a1b2c3", 0, 5)
	h := merge(t, w.store, own, nil, nil)
	if err := w.store.Delete(t.Context(), own.BlockKey(h.Record.Blocks[0].File)); err != nil {
		t.Fatal(err)
	}
	if err := w.indexer(w.store).Index(t.Context(), bus.Job{Kind: bus.KindIndex, Batch: own}); err != nil {
		t.Error(err)
	}
	if err := w.indexer(w.store).Index(t.Context(), bus.Job{Kind: bus.KindIndex, Batch: layer}); err != nil {
		t.Errorf("a batch without a record: %v", err)
	}
}
