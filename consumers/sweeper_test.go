package consumers_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/consumers"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore"
)

// shut is a bucket that cannot be written.
type shut struct{ *bus.KV }

func (shut) Create(context.Context, string, []byte) (uint64, error) { return 0, errShaky }
func (shut) Update(context.Context, string, []byte, uint64) (uint64, error) {
	return 0, errShaky
}

func (w *world) sweeper(grace time.Duration, reg *prometheus.Registry) *consumers.Sweeper {
	return consumers.NewSweeper(w.bus, w.kv, w.bus.KV(bus.Pipelines), w.store,
		consumers.SweeperConfig{SweepPolicy: catalog.SweepPolicy{Grace: grace}, Interval: 10 * time.Millisecond, Again: time.Hour}, logger(), reg)
}

// keys lists what lies below a prefix.
func keys(t *testing.T, s objstore.Store, prefix string) []string {
	t.Helper()
	var out []string
	for info, err := range s.List(context.Background(), prefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, info.Key[len(prefix):])
	}
	return out
}

func (w *world) catalogue(b dataset.BatchID, h catalog.Head) {
	w.t.Helper()
	c := consumers.NewCataloger(nil, w.kv, w.store, consumers.CatalogerConfig{}, nil)
	if err := c.Handle(w.t.Context(), mergeEvent(h)); err != nil {
		w.t.Fatal(err)
	}
}

func TestReplacedBlocksAndStrayFilesAreDeletedOnceTheyAreDue(t *testing.T) {
	for _, b := range []dataset.BatchID{own, layer} {
		t.Run(b.String(), func(t *testing.T) {
			w := newWorld(t)
			chunk(t, w.store, b, "a1b2c3", 0, 2)
			merge(t, w.store, b, nil, nil)
			chunk(t, w.store, b, "a1b2c3", 1, 2)
			h := merge(t, w.store, b, nil, nil)
			for _, stray := range []string{b.BlockKey(dataset.BlockFile(7)), b.IndexKey(0), b.IndexKey(1)} {
				if _, err := w.store.Put(t.Context(), stray, []byte("x"), objstore.IfAbsent()); err != nil {
					t.Fatal(err)
				}
			}
			w.catalogue(b, h)
			w.run(w.sweeper(200*time.Millisecond, prometheus.NewRegistry()).Run)
			eventually(t, func() string {
				// The stray block lay past next_file: a commit rules it out, and the sweep after that takes it.
				blocks := keys(t, w.store, b.Dir()+"merged_")
				return cmp.Diff([]string{"00001.jsonl.gz"}, blocks)
			})
			eventually(t, func() string {
				if _, _, err := objstore.ReadAll(t.Context(), w.store, b.IndexKey(0)); !errors.Is(err, objstore.ErrNotFound) {
					return "the index of the replaced block is still there"
				}
				return ""
			})
			if _, _, err := objstore.ReadAll(t.Context(), w.store, b.IndexKey(1)); err != nil {
				t.Errorf("the index of the present block: %v", err)
			}
			eventually(t, func() string { return w.agrees(b) })
		})
	}
}

func TestNothingIsListedBeforeAnythingIsDueNorAfterwards(t *testing.T) {
	w := newWorld(t)
	for n := range 30 {
		b := dataset.BatchID{Dataset: "d", Batch: fmt.Sprint(n)}
		chunk(t, w.store, b, "a1b2c3", 0, 1)
		w.catalogue(b, merge(t, w.store, b, nil, nil))
	}
	reg := prometheus.NewRegistry()
	store := objstore.Counted(w.store, objstore.NewMetrics(reg))
	sweeper := func(grace time.Duration) *consumers.Sweeper {
		return consumers.NewSweeper(w.bus, w.kv, w.bus.KV(bus.Pipelines), store,
			consumers.SweeperConfig{SweepPolicy: catalog.SweepPolicy{Grace: grace}, PerTurn: 20}, logger(), nil)
	}
	turn := func(s *consumers.Sweeper) int {
		t.Helper()
		before := counted(t, reg, "siltstone_store_requests_total")["list"]
		if err := s.Turn(t.Context()); err != nil {
			t.Fatal(err)
		}
		return counted(t, reg, "siltstone_store_requests_total")["list"] - before
	}
	if n := turn(sweeper(time.Hour)); n != 0 {
		t.Errorf("%d lists before anything is due", n)
	}
	s := sweeper(time.Nanosecond)
	if n := turn(s); n == 0 || n > 20*4 {
		t.Errorf("%d lists for the first 20 batches", n)
	}
	if n := turn(s); n == 0 || n > 10*4 {
		t.Errorf("%d lists for the other 10", n)
	}
	// Another leader remembers too.
	if n := turn(sweeper(time.Nanosecond)); n != 0 {
		t.Errorf("%d lists when all has been swept", n)
	}
}

func TestABatchThatCannotBeSweptDoesNotKeepOthersFromIt(t *testing.T) {
	w := newWorld(t)
	bad := dataset.BatchID{Dataset: "d", Batch: "bad"}
	for _, b := range []dataset.BatchID{bad, own} {
		chunk(t, w.store, b, "a1b2c3", 0, 1)
		merge(t, w.store, b, nil, nil)
		chunk(t, w.store, b, "a1b2c3", 1, 1)
		w.catalogue(b, merge(t, w.store, b, nil, nil))
	}
	if _, err := w.store.Put(t.Context(), bad.CommitKey(), []byte(`{"version":1,"commit":"`), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	s := consumers.NewSweeper(w.bus, w.kv, w.bus.KV(bus.Pipelines), w.store,
		consumers.SweeperConfig{SweepPolicy: catalog.SweepPolicy{Grace: time.Nanosecond}, PerTurn: 1}, nil, nil)
	eventually(t, func() string {
		_ = s.Turn(t.Context())
		return cmp.Diff([]string{"00001.jsonl.gz"}, keys(t, w.store, own.Dir()+"merged_"))
	})
	if n := len(keys(t, w.store, bad.Dir()+"merged_")); n != 2 {
		t.Errorf("%d blocks are left of a batch whose record cannot be read", n)
	}
}

func TestABatchThatNeverRestsIsSweptNowAndThen(t *testing.T) {
	w := newWorld(t)
	reg := prometheus.NewRegistry()
	store := objstore.Counted(w.store, objstore.NewMetrics(reg))
	s := consumers.NewSweeper(w.bus, w.kv, w.bus.KV(bus.Pipelines), store,
		consumers.SweeperConfig{SweepPolicy: catalog.SweepPolicy{Grace: time.Hour}}, nil, nil)
	turn := func(merges int) int {
		t.Helper()
		for range merges {
			n := headOf(t, w.store, own)
			chunk(t, w.store, own, "a1b2c3", int(n), 1)
			w.catalogue(own, merge(t, w.store, own, nil, nil))
		}
		before := counted(t, reg, "siltstone_store_requests_total")["list"]
		if err := s.Turn(t.Context()); err != nil {
			t.Fatal(err)
		}
		return counted(t, reg, "siltstone_store_requests_total")["list"] - before
	}
	if n := turn(5); n != 0 {
		t.Errorf("%d lists for a batch whose first files are not due", n)
	}
	if n := turn(20); n == 0 {
		t.Error("a batch of 25 generations, the last one young, was not swept")
	}
	if n := turn(5); n != 0 {
		t.Errorf("%d lists within the grace period after a sweep", n)
	}
}

func headOf(t *testing.T, s objstore.Store, b dataset.BatchID) int64 {
	t.Helper()
	h, err := catalog.ReadHead(t.Context(), s, b)
	if err != nil {
		t.Fatal(err)
	}
	return h.Record.Generation
}
