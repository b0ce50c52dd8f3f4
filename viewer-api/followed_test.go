package viewerapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/query"
	viewerapi "github.com/siltstone-data/siltstone/viewer-api"
)

// byListing is a catalog that tells that it was asked.
type byListing struct{}

func (byListing) Datasets(context.Context) ([]string, error) { return []string{"listed"}, nil }
func (byListing) Batches(_ context.Context, d string) ([]string, error) {
	return []string{"listed " + d}, nil
}
func (byListing) Layer(_ context.Context, d, annotator string) ([]string, error) {
	return []string{"listed " + d + " " + annotator}, nil
}
func (byListing) Live(context.Context, dataset.BatchID) (query.LiveChunks, error) {
	return query.LiveChunks{Generation: -1}, nil
}

// followed is a catalog over a real bucket.
type followed struct {
	t testing.TB
	*viewerapi.Followed
	kv *bus.KV
}

func follow(t testing.TB, b *bus.Bus) *followed {
	t.Helper()
	f := &followed{t, viewerapi.NewFollowed(b.KV(bus.Catalog), b, byListing{}, logger(t)), b.KV(bus.Catalog)}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := f.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return f
}

func (f *followed) put(key string, value any) {
	f.t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.kv.Put(f.t.Context(), key, raw); err != nil {
		f.t.Fatal(err)
	}
}

func (f *followed) delete(key string) {
	f.t.Helper()
	if err := f.kv.Delete(f.t.Context(), key, 0); err != nil {
		f.t.Fatal(err)
	}
}

// text is everything that the catalog says.
func (f *followed) text() string {
	f.t.Helper()
	ctx := f.t.Context()
	var out []string
	ds, err := f.Datasets(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, d := range ds {
		bs, err := f.Batches(ctx, d)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, b := range bs {
			l, err := f.Live(ctx, dataset.BatchID{Dataset: d, Batch: b})
			if err != nil {
				f.t.Fatal(err)
			}
			s := fmt.Sprintf("%s/%s@%d", d, b, l.Generation)
			for _, c := range l.Chunks {
				s += fmt.Sprintf(" %s_%d:%s:%d:%d", c.Run, c.Number, c.ETag, c.Bytes, c.Rows)
			}
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func (f *followed) says(want string) {
	f.t.Helper()
	eventually(f.t, func() string {
		if got := f.text(); got != want {
			return fmt.Sprintf("got %q, want %q (%s)", got, want, f.State())
		}
		return ""
	})
}

const listing = "listed/listed listed@-1"

func rows(n int64) *int64 { return &n }

func TestTheCatalogListsUntilItIsWhole(t *testing.T) {
	t.Parallel()
	h := serveNATS(t)
	b := h.join()
	id := dataset.BatchID{Dataset: "日本 a+b", Batch: "b.1"}
	f := follow(t, b)
	f.put(bus.ChunkKey(id, "a1b2c3", 10), bus.ChunkEntry{ETag: "e10", Bytes: 5, At: time.Now()})
	f.put(bus.ChunkKey(id, "a1b2c3", 9), bus.ChunkEntry{ETag: "e9", Bytes: 7, Rows: rows(3)})
	f.put(bus.WholeKey+"-started", map[string]any{})
	eventually(t, func() string {
		if s := f.State(); !strings.Contains(s, "no reconciler") {
			return s
		}
		return ""
	})
	f.says(listing)
	f.put(bus.WholeKey, map[string]any{"at": time.Now()})
	f.says("日本 a+b/b.1@0 a1b2c3_9:e9:7:3 a1b2c3_10:e10:5:-1")
	if f.State() != "whole" {
		t.Error(f.State())
	}

	// A merge: the generation first, then the chunks.
	f.put(bus.BatchKey(id), bus.BatchEntry{Generation: 4})
	f.delete(bus.ChunkKey(id, "a1b2c3", 9))
	f.says("日本 a+b/b.1@4 a1b2c3_10:e10:5:-1")
	layer := dataset.BatchID{Dataset: "日本 a+b", Batch: "b.1", Annotator: "lang"}
	f.put(bus.BatchKey(layer), bus.BatchEntry{Generation: 99})
	f.put(bus.ChunkKey(layer, "a1b2c3", 1), bus.ChunkEntry{ETag: "l1", Bytes: 6, Rows: rows(2)})
	f.put(bus.BatchKey(dataset.BatchID{Dataset: "gone", Batch: "b"}), bus.BatchEntry{Generation: 2, Deleted: true})
	f.put(bus.BatchKey(dataset.BatchID{Dataset: "z", Batch: "b"}), bus.BatchEntry{Generation: 1})
	f.says("z/b@1\n日本 a+b/b.1@4 a1b2c3_10:e10:5:-1")

	// Layers are told of apart.
	if bs, err := f.Layer(t.Context(), "日本 a+b", "lang"); err != nil || len(bs) != 1 || bs[0] != "b.1" {
		t.Error(bs, err)
	}
	if l, err := f.Live(t.Context(), layer); err != nil || l.Generation != 99 || len(l.Chunks) != 1 || l.Chunks[0].ETag != "l1" || l.Chunks[0].Rows != 2 {
		t.Error(l, err)
	}
	if bs, err := f.Layer(t.Context(), "日本 a+b", "new"); err != nil || len(bs) != 1 || bs[0] != "listed 日本 a+b new" {
		t.Error(bs, err)
	}

	// Somebody's hand: what cannot be read is not left out.
	f.put(bus.BatchKey(id), "no entry")
	f.says(listing)
	f.put(bus.BatchKey(id), bus.BatchEntry{Generation: 5})
	f.says("z/b@1\n日本 a+b/b.1@5 a1b2c3_10:e10:5:-1")

	// What is not in it may have begun a moment ago.
	if bs, err := f.Batches(t.Context(), "new"); err != nil || len(bs) != 1 || bs[0] != "listed new" {
		t.Error(bs, err)
	}
	if l, err := f.Live(t.Context(), dataset.BatchID{Dataset: "z", Batch: "new"}); err != nil || l.Generation != -1 {
		t.Error(l, err)
	}
}

func TestACatalogMadeAnewIsListedUntilItIsWholeAgain(t *testing.T) {
	t.Parallel()
	h := serveNATS(t)
	b := h.join()
	f := follow(t, b)
	one, two := dataset.BatchID{Dataset: "d", Batch: "1"}, dataset.BatchID{Dataset: "d", Batch: "2"}
	f.put(bus.BatchKey(one), bus.BatchEntry{Generation: 1})
	f.put(bus.WholeKey, map[string]any{})
	f.says("d/1@1")

	h.down()
	eventually(t, func() string {
		if b.Connected() {
			return "still connected"
		}
		return ""
	})
	f.says(listing) // it may be behind
	h.up()
	f.says("d/1@1")

	h.wipe()
	h.topology(b)
	f.put(bus.BatchKey(two), bus.BatchEntry{Generation: 7})
	f.says(listing)
	f.put(bus.WholeKey, map[string]any{})
	f.says("d/2@7")
}
