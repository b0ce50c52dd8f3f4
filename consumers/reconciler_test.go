package consumers_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/consumers"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

// leader leads at once, and records what is published and scheduled.
type leader struct {
	told
	jobs []bus.JobState
}

func (*leader) Lead(ctx context.Context, _ string, fn func(context.Context) error) error {
	return fn(ctx)
}

func (l *leader) Jobs(context.Context) iter.Seq2[bus.JobState, error] {
	return func(yield func(bus.JobState, error) bool) {
		for _, j := range l.jobs {
			if !yield(j, nil) {
				return
			}
		}
	}
}

func (w *world) reconciler(b consumers.ReconcilerBus, c consumers.ReconcilerConfig, reg prometheus.Registerer) *consumers.Reconciler {
	return consumers.NewReconciler(b, w.kv, w.store, c, logger(), reg)
}

func pass(t *testing.T, r *consumers.Reconciler) {
	t.Helper()
	if err := r.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (w *world) whole() bool {
	_, err := w.kv.Get(w.t.Context(), bus.WholeKey)
	return err == nil
}

// With the NATS folder gone, the store alone says what is to be done.
func TestAnEmptyCatalogIsFilledAndUnmergedBatchesAreScheduled(t *testing.T) {
	for _, page := range []int{1, 2, 7, 1000} {
		t.Run(fmt.Sprint(page), func(t *testing.T) {
			w := newWorld(t)
			merged := dataset.BatchID{Dataset: "d", Batch: "merged"}
			for _, b := range []dataset.BatchID{own, layer, merged} {
				open(t, w.store, b, "a1b2c3", catalog.RunOpen, nil)
				for n := range 3 {
					chunk(t, w.store, b, "a1b2c3", n, 2)
				}
				if b != own {
					merge(t, w.store, b, func(c catalog.Chunk) bool { return b == merged || c.Number == 1 }, nil)
				}
			}
			chunk(t, w.store, own, "000000", 0, 2) // a run without a manifest
			l := &leader{}
			reg := prometheus.NewRegistry()
			r := w.reconciler(l, consumers.ReconcilerConfig{Page: page}, reg)
			if w.whole() {
				t.Fatal("whole before anything was seen")
			}
			pass(t, r)
			if diff := w.agrees(own, layer, merged); diff != "" {
				t.Error(diff)
			}
			if !w.whole() {
				t.Error("the catalog is not called whole")
			}
			if l.later[own] == 0 || l.later[layer] == 0 || l.later[merged] != 0 {
				t.Errorf("scheduled: %v", l.later)
			}
			var told []string
			for _, e := range l.take() {
				told = append(told, e.MsgID())
			}
			if len(told) != 4+2+1+1 {
				t.Errorf("announced: %q", told)
			}
			found := counted(t, reg, "siltstone_reconciler_found_total")
			if found["chunk"] != 6 {
				t.Errorf("found: %v", found)
			}
			// A second look finds nothing new.
			pass(t, r)
			if again := l.take(); len(again) != 0 {
				t.Errorf("announced again: %+v", again)
			}
		})
	}
}

func TestEntriesWithoutAnObjectGo(t *testing.T) {
	for _, page := range []int{1, 3, 1000} {
		t.Run(fmt.Sprint(page), func(t *testing.T) {
			w := newWorld(t)
			l := &leader{}
			r := w.reconciler(l, consumers.ReconcilerConfig{Page: page}, nil)
			for n := range 20 {
				chunk(t, w.store, own, "a1b2c3", n, 1)
				chunk(t, w.store, layer, "a1b2c3", n, 1)
			}
			merge(t, w.store, layer, func(c catalog.Chunk) bool { return c.Number < 10 }, nil)
			pass(t, r)
			for n := range 20 { // by hand, and nobody is told
				if n != 7 {
					if err := w.store.Delete(t.Context(), own.ChunkKey("a1b2c3", n)); err != nil {
						t.Fatal(err)
					}
				}
			}
			merge(t, w.store, layer, nil, nil)
			if err := w.store.Delete(t.Context(), layer.CommitKey()); err != nil {
				t.Fatal(err)
			}
			pass(t, r)
			if diff := w.agrees(own, layer); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLostEventsMakeThingsLateAndNothingWrong(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t)
			rng := rand.New(rand.NewPCG(seed, 7))
			h := newHistory(t, w, rng)
			kv := &shaky{KV: w.kv, rng: rand.New(rand.NewPCG(seed, 8))}
			c := consumers.NewCataloger(nil, kv, w.store, consumers.CatalogerConfig{}, nil)
			l := &leader{}
			r := consumers.NewReconciler(l, kv, w.store, consumers.ReconcilerConfig{Page: 1 + rng.IntN(6), Policy: consumers.Policy{Quiet: time.Nanosecond}}, nil, nil)
			for range 40 {
				h.step()
				if e, ok := h.any(); ok && rng.IntN(3) == 0 {
					if err := c.Handle(t.Context(), e); err != nil && !errors.Is(err, errShaky) {
						t.Fatal(err)
					}
				}
				if rng.IntN(3) == 0 {
					if _, err := r.Turn(t.Context()); err != nil && !errors.Is(err, errShaky) {
						t.Fatal(err)
					}
				}
			}
			last := consumers.NewReconciler(l, w.kv, w.store, consumers.ReconcilerConfig{Page: 3}, nil, nil)
			pass(t, last)
			if diff := w.agrees(own, layer); diff != "" {
				t.Errorf("store (-) and catalog (+) differ:\n%s", diff)
			}
		})
	}
}

// meddling lets something happen between the reconciler's reading of the
// catalog and its listing, or while it lists.
type meddling struct {
	objstore.Store
	before func()
}

func (m *meddling) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		var all []objstore.Info
		for info, err := range m.Store.List(ctx, prefix, after) {
			if err != nil {
				yield(info, err)
				return
			}
			all = append(all, info)
		}
		if do := m.before; do != nil {
			m.before = nil
			do()
		}
		for _, info := range all {
			if !yield(info, nil) {
				return
			}
		}
	}
}

func TestAnEntryThatIsMadeDuringTheListingStays(t *testing.T) {
	w := newWorld(t)
	open(t, w.store, own, "a1b2c3", catalog.RunOpen, nil)
	c := consumers.NewCataloger(nil, w.kv, w.store, consumers.CatalogerConfig{}, nil)
	m := &meddling{Store: w.store}
	m.before = func() { // stored and entered after the page was taken
		if err := c.Handle(context.Background(), chunk(t, w.store, own, "a1b2c3", 0, 1)); err != nil {
			t.Error(err)
		}
	}
	r := consumers.NewReconciler(&leader{}, w.kv, m, consumers.ReconcilerConfig{}, nil, nil)
	if _, err := r.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := w.agrees(own); diff != "" {
		t.Error(diff)
	}
}

func TestAnEntryThatChangesDuringTheListingStays(t *testing.T) {
	w := newWorld(t)
	c := consumers.NewCataloger(nil, w.kv, w.store, consumers.CatalogerConfig{}, nil)
	put := func(rows int) {
		if err := c.Handle(context.Background(), chunk(t, w.store, own, "a1b2c3", 0, rows)); err != nil {
			t.Error(err)
		}
	}
	put(1)
	if err := w.store.Delete(t.Context(), own.ChunkKey("a1b2c3", 0)); err != nil {
		t.Fatal(err)
	}
	m := &meddling{Store: w.store}
	m.before = func() { put(2) }
	r := consumers.NewReconciler(&leader{}, w.kv, m, consumers.ReconcilerConfig{}, nil, nil)
	if _, err := r.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := w.agrees(own); diff != "" {
		t.Error(diff)
	}
}

func TestAChunkThatIsMergedDuringTheListingDoesNotComeBack(t *testing.T) {
	w := newWorld(t)
	open(t, w.store, own, "a1b2c3", catalog.RunOpen, nil)
	chunk(t, w.store, own, "a1b2c3", 0, 1)
	m := &meddling{Store: w.store}
	m.before = func() { merge(t, w.store, own, nil, nil) }
	l := &leader{}
	r := consumers.NewReconciler(l, w.kv, m, consumers.ReconcilerConfig{Policy: consumers.Policy{Quiet: time.Nanosecond}}, nil, nil)
	if _, err := r.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := w.agrees(own); diff != "" || len(l.later) != 0 {
		t.Error(diff, l.later)
	}
}

func TestAChunkThatIsMergedWhileTheReconcilerEntersItDoesNotStay(t *testing.T) {
	w := newWorld(t)
	open(t, w.store, own, "a1b2c3", catalog.RunOpen, nil)
	chunk(t, w.store, own, "a1b2c3", 0, 1)
	kv := &hooked{KV: w.kv}
	kv.create = func() { w.catalogue(own, merge(t, w.store, own, nil, nil)) }
	r := consumers.NewReconciler(&leader{}, kv, w.store, consumers.ReconcilerConfig{}, nil, nil)
	pass(t, r)
	if kv.create != nil {
		t.Error("no chunk was entered")
	}
	if diff := w.agrees(own); diff != "" {
		t.Error(diff)
	}
}

func TestWhatWasJustWrittenIsLeftToItsEvent(t *testing.T) {
	w := newWorld(t)
	chunk(t, w.store, own, "a1b2c3", 0, 1)
	l := &leader{}
	r := w.reconciler(l, consumers.ReconcilerConfig{Policy: consumers.Policy{Quiet: time.Hour}}, nil)
	if _, err := r.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := catalogText(t, w.kv, false); got != "" || len(l.later) != 0 {
		t.Errorf("%q %v", got, l.later)
	}
	pass(t, r) // at the start its event may be long gone
	if diff := w.agrees(own); diff != "" {
		t.Error(diff)
	}
}

func TestABatchThatNobodyMergesIsScheduledUnlessAJobWasGivenUp(t *testing.T) {
	w := newWorld(t)
	open(t, w.store, own, "a1b2c3", catalog.RunOpen, nil)
	c := consumers.NewCataloger(nil, w.kv, w.store, consumers.CatalogerConfig{}, nil)
	if err := c.Handle(t.Context(), chunk(t, w.store, own, "a1b2c3", 0, 1)); err != nil {
		t.Fatal(err)
	}
	undead := chunk(t, w.store, layer, "ffffff", 0, 1) // absorbed, and its deletion failed
	body, _, err := objstore.ReadAll(t.Context(), w.store, undead.Key)
	if err != nil {
		t.Fatal(err)
	}
	w.catalogue(layer, merge(t, w.store, layer, nil, nil))
	if _, err := w.store.Put(t.Context(), undead.Key, body, objstore.IfAbsent()); err != nil {
		t.Fatal(err)
	}
	reconcile := func(maxAge time.Duration, jobs ...bus.JobState) map[dataset.BatchID]int {
		l := &leader{jobs: jobs}
		r := w.reconciler(l, consumers.ReconcilerConfig{Policy: consumers.Policy{Quiet: time.Nanosecond, MaxAge: maxAge}}, nil)
		if _, err := r.Turn(t.Context()); err != nil {
			t.Fatal(err)
		}
		return l.later
	}
	if got := reconcile(time.Hour); len(got) != 0 {
		t.Errorf("before it is late: %v", got)
	}
	if diff := cmp.Diff(map[dataset.BatchID]int{own: 1, layer: 1}, reconcile(time.Nanosecond)); diff != "" {
		t.Error(diff)
	}
	for _, s := range []bus.State{bus.Scheduled, bus.Waiting, bus.Running, bus.Failing, bus.Dead} {
		if got := reconcile(time.Nanosecond, bus.JobState{Job: mergeJob(own), State: s}, bus.JobState{Job: mergeJob(layer), State: s}); len(got) != 0 {
			t.Errorf("%s: %v", s, got)
		}
	}
	if diff := w.agrees(own, layer); diff != "" {
		t.Error(diff)
	}
}

func TestAManifestThatChangesTheListInForceMakesAMergeDue(t *testing.T) {
	w := newWorld(t)
	chunk(t, w.store, own, "a1b2c3", 0, 1)
	w.catalogue(own, merge(t, w.store, own, nil, nil))
	open(t, w.store, own, "a1b2c3", catalog.RunOpen, []string{"text"}) // it comes late
	l := &leader{}
	r := w.reconciler(l, consumers.ReconcilerConfig{}, nil)
	pass(t, r)
	if l.later[own] != 1 || len(l.take()) != 0 {
		t.Errorf("scheduled: %v", l.later)
	}
	open(t, w.store, own, "a1b2c3", catalog.RunCompleted, []string{"text"})
	pass(t, r)
	if events := l.take(); len(events) != 1 || events[0].Type != dataset.RunCompleted {
		t.Errorf("the end of the run: %+v", events)
	}
	merge(t, w.store, own, nil, nil)
	l = &leader{}
	pass(t, w.reconciler(l, consumers.ReconcilerConfig{}, nil))
	if l.later[own] != 0 {
		t.Error("scheduled although the record knows the list")
	}
}

func TestAnIndexThatWasNeverBuiltIsAskedFor(t *testing.T) {
	w := newWorld(t)
	chunk(t, w.store, own, "a1b2c3", 0, 1)
	w.catalogue(own, merge(t, w.store, own, nil, nil)) // the catalog knows, and no indexer was told
	reconcile := func(maxAge time.Duration) []dataset.BatchID {
		l := &leader{}
		pass(t, w.reconciler(l, consumers.ReconcilerConfig{Policy: consumers.Policy{MaxAge: maxAge}}, nil))
		return l.index
	}
	if got := reconcile(time.Hour); len(got) != 0 {
		t.Errorf("before it is late: %v", got)
	}
	if diff := cmp.Diff([]dataset.BatchID{own}, reconcile(time.Nanosecond)); diff != "" {
		t.Error(diff)
	}
	if err := w.indexer(w.store).Index(t.Context(), bus.Job{Kind: bus.KindIndex, Batch: own}); err != nil {
		t.Fatal(err)
	}
	if got := reconcile(time.Nanosecond); len(got) != 0 {
		t.Errorf("although it is there: %v", got)
	}
}

func TestADamagedBatchDoesNotStopThePass(t *testing.T) {
	w := newWorld(t)
	bad := dataset.BatchID{Dataset: "a", Batch: "bad"}
	chunk(t, w.store, bad, "a1b2c3", 0, 1)
	chunk(t, w.store, own, "a1b2c3", 0, 1)
	for key, body := range map[string]string{bad.CommitKey(): `{"version":1,"commit":"`, own.RunKey("bbbbbb"): `{"state":`, layer.CommitKey(): "a: foreign\n"} {
		if _, err := w.store.Put(t.Context(), key, []byte(body), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	pass(t, w.reconciler(&leader{}, consumers.ReconcilerConfig{}, nil))
	if diff := w.agrees(own, layer); diff != "" {
		t.Error(diff)
	}
}

func TestACatalogThatWasMadeAnewDuringAPassIsNotWhole(t *testing.T) {
	w := newWorld(t)
	chunk(t, w.store, own, "a1b2c3", 0, 1)
	m := &meddling{Store: w.store}
	m.before = func() { // all keys go
		for e, err := range w.kv.List(context.Background(), ">") {
			if err != nil {
				t.Error(err)
			}
			if err := w.kv.Delete(context.Background(), e.Key, 0); err != nil {
				t.Error(err)
			}
		}
	}
	r := consumers.NewReconciler(&leader{}, w.kv, m, consumers.ReconcilerConfig{}, nil, nil)
	if err := r.Pass(t.Context()); err == nil || w.whole() {
		t.Errorf("whole: %v, %v", w.whole(), err)
	}
	pass(t, r)
	if diff := w.agrees(own); diff != "" || !w.whole() {
		t.Error(diff)
	}
}

func lists(t *testing.T, reg *prometheus.Registry) int {
	t.Helper()
	return counted(t, reg, "siltstone_store_requests_total")["list"]
}

func turns(t *testing.T, reg *prometheus.Registry) (n int) {
	t.Helper()
	for _, v := range counted(t, reg, "siltstone_reconciler_turns_total") {
		n += v
	}
	return n
}

// With 100,000 objects and nobody there, the only LIST requests are those of
// the reconciler's turns, one each. The race detector is too slow for so many.
func TestAnIdleStoreIsListedOncePerTurn(t *testing.T) {
	objects := 100_000
	if testing.Short() {
		objects = 10_000
	}
	w := newWorld(t)
	for i := range objects {
		key := fmt.Sprintf("d%02d/b%03d/_history/%08d.yaml", i/10_000, i/1000, i)
		if _, err := w.store.Put(t.Context(), key, nil, objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	reg := prometheus.NewRegistry()
	store := objstore.Counted(w.store, objstore.NewMetrics(reg))
	cfg := consumers.ReconcilerConfig{Hot: 2 * time.Millisecond, Cold: 2 * time.Millisecond, HotFor: time.Nanosecond}
	r := consumers.NewReconciler(w.bus, w.kv, store, cfg, logger(), reg)
	s := consumers.NewSweeper(w.bus, w.kv, w.bus.KV(bus.Pipelines), store, consumers.SweeperConfig{Interval: time.Millisecond}, logger(), reg)
	x := consumers.NewIndexer(w.bus, store, consumers.IndexerConfig{}, logger(), reg)
	c := consumers.NewCataloger(w.bus, w.kv, store, consumers.CatalogerConfig{}, logger())
	stop := w.run(r.Run, s.Run, x.Run, c.Run)
	eventually(t, func() string {
		if got := counted(t, reg, "siltstone_reconciler_turns_total"); got["cold"] < 30 {
			return fmt.Sprintf("turns: %v", got)
		}
		return ""
	})
	stop()
	if start := counted(t, reg, "siltstone_reconciler_turns_total")["start"]; start != objects/1000+1 {
		t.Errorf("%d turns to see %d objects", start, objects)
	}
	if n, most := lists(t, reg), turns(t, reg); n > most || n < most-1 { // the last turn may have been cut short
		t.Errorf("%d LIST requests in %d turns", n, most)
	}
}

func TestABatchThatIsWrittenToHasTurnsOfItsOwn(t *testing.T) {
	w := newWorld(t)
	for i := range 50 { // what the slow turns are busy with
		if _, err := w.store.Put(t.Context(), fmt.Sprintf("a/b/_history/%08d.yaml", i), nil, objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	l := &leader{}
	reg := prometheus.NewRegistry()
	r := w.reconciler(l, consumers.ReconcilerConfig{Page: 5, Hot: 5 * time.Millisecond, Cold: time.Hour, Policy: consumers.Policy{Quiet: time.Nanosecond}}, reg)
	open(t, w.store, own, "a1b2c3", catalog.RunOpen, nil)
	open(t, w.store, layer, "a1b2c3", catalog.RunOpen, nil)
	w.run(r.Run)
	eventually(t, func() string {
		if !w.whole() {
			return "the first pass does not end"
		}
		return ""
	})
	for n := range 10 { // and no event tells of it
		chunk(t, w.store, own, "a1b2c3", n, 1)
		chunk(t, w.store, layer, "a1b2c3", n, 1)
		eventually(t, func() string { return w.agrees(own, layer) })
	}
	merge(t, w.store, layer, nil, nil)
	eventually(t, func() string { return w.agrees(own, layer) })
}

func TestADatasetThatIsWatchedHasTurnsOfItsOwn(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler(&leader{}, consumers.ReconcilerConfig{Hot: 5 * time.Millisecond, Cold: time.Hour, Policy: consumers.Policy{Quiet: time.Nanosecond}}, nil)
	w.run(r.Run)
	eventually(t, func() string {
		if !w.whole() {
			return "the first pass does not end"
		}
		return ""
	})
	r.Watch(own.Dataset)
	chunk(t, w.store, own, "a1b2c3", 0, 1)
	eventually(t, func() string { return w.agrees(own) })
}

// The whole of it: NATS loses everything, and what the store holds becomes
// catalog entries, due jobs and events again.
func TestEverythingIsFoundAgainAfterTheNATSFolderIsDeleted(t *testing.T) {
	t.Parallel()
	one, stop := serve(t, t.TempDir())
	w := &world{t: t, store: mem.New(), bus: one, kv: one.KV(bus.Catalog)}
	open(t, w.store, own, "a1b2c3", catalog.RunOpen, nil)
	for n := range 5 {
		w.publish(chunk(t, w.store, own, "a1b2c3", n, 2))
	}
	chunk(t, w.store, layer, "a1b2c3", 0, 2)
	merge(t, w.store, layer, nil, nil)
	stop()

	b, stop := serve(t, t.TempDir())
	t.Cleanup(stop)
	w.bus, w.kv = b, b.KV(bus.Catalog)
	stopAll := w.run(
		w.reconciler(b, consumers.ReconcilerConfig{}, nil).Run,
		consumers.NewCataloger(b, w.kv, w.store, consumers.CatalogerConfig{}, logger()).Run,
		planner(w, b, consumers.Policy{}).Run,
		w.indexer(w.store).Run)
	eventually(t, func() string { return w.agrees(own, layer) })
	eventually(t, func() string { return w.summed(layer) })
	eventually(t, func() string {
		jobs := w.jobs()
		if !slices.ContainsFunc(jobs, func(s string) bool { return strings.HasSuffix(s, "merge/"+own.String()) }) {
			return fmt.Sprintf("no merge of %s: %q", own, jobs)
		}
		return ""
	})
	eventually(t, func() string {
		if !w.whole() {
			return "not whole"
		}
		return ""
	})
	stopAll()
}
