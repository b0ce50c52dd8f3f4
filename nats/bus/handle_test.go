package bus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
)

func publish(t testing.TB, b *bus.Bus, events ...dataset.Event) {
	t.Helper()
	for _, e := range events {
		if err := b.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

func letters(t testing.TB, b *bus.Bus) (out []bus.DeadLetter) {
	t.Helper()
	for d, err := range b.Dead(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, d)
	}
	return out
}

func TestTwoReportsOfOneHappeningAreOneEvent(t *testing.T) {
	h := serve(t)
	b := h.join()
	var got list[string]
	background(t, func(ctx context.Context) error {
		return b.HandleEvents(ctx, bus.Cataloger, func(_ context.Context, e dataset.Event) error {
			got.add(e.Key)
			return nil
		})
	})
	publish(t, b, ingested("a"), ingested("a"), ingested("b"), ingested("a"))
	eventually(t, "both events", func() bool { return got.len() >= 2 })
	publish(t, b, ingested("c"))
	eventually(t, "the third event", func() bool { return got.len() >= 3 })
	if g := fmt.Sprint(got.all()); g != "[a b c]" {
		t.Fatalf("handled %s", g)
	}
}

func TestEachStepOfAConversionIsOneEvent(t *testing.T) {
	h := serve(t)
	b := h.join()
	first := dataset.NewEvent(dataset.ConversionProgress, id("d", "b"), time.Now())
	first.Seq = 1
	second := first
	second.Seq = 2
	publish(t, b, first, first, second)
	if p, err := b.Position(t.Context()); err != nil || p.Seq != 2 {
		t.Fatalf("%v %v", p, err)
	}
}

func TestACommitOfALayerIsToldByEachOfItsEvents(t *testing.T) {
	h := serve(t)
	b := h.join()
	layer := dataset.BatchID{Dataset: "d", Batch: "b", Annotator: "a"}
	var got list[string]
	background(t, func(ctx context.Context) error {
		return b.HandleEvents(ctx, bus.Cataloger, func(_ context.Context, e dataset.Event) error {
			got.add(string(e.Type) + " " + *e.Annotator + " " + e.Commit)
			return nil
		})
	})
	var all []dataset.Event
	for _, kind := range []dataset.EventType{dataset.BatchMerged, dataset.AnnotationUpdated, dataset.AnnotationUpdated} {
		e := dataset.NewEvent(kind, layer, time.Now())
		e.Commit, e.Generation = "5f0c", 1
		all = append(all, e)
	}
	next := all[2]
	next.Commit, next.Generation = "77aa", 2
	publish(t, b, append(all, next)...)
	eventually(t, "three events", func() bool { return got.len() >= 3 })
	if p, err := b.Position(t.Context()); err != nil || p.Seq != 3 {
		t.Errorf("%v %v", p, err)
	}
	told := got.all()
	slices.Sort(told)
	if g := fmt.Sprint(told); g != "[annotation_updated a 5f0c annotation_updated a 77aa batch_merged a 5f0c]" {
		t.Error(g)
	}
}

func TestAFailedEventComesAgainAndDoesNotHoldUpOthers(t *testing.T) {
	h := serve(t)
	b := h.join()
	var tries atomic.Int32
	var done list[string]
	background(t, func(ctx context.Context) error {
		return b.HandleEvents(ctx, bus.Cataloger, func(_ context.Context, e dataset.Event) error {
			if e.Key == "flaky" && tries.Add(1) < 3 {
				return errors.New("not yet")
			}
			done.add(e.Key)
			return nil
		})
	})
	publish(t, b, ingested("flaky"), ingested("good"))
	eventually(t, "both are done", func() bool { return done.len() == 2 })
	if g := fmt.Sprint(done.all()); g != "[good flaky]" {
		t.Fatalf("handled %s", g)
	}
	if n := len(letters(t, b)); n != 0 {
		t.Fatalf("%d dead letters", n)
	}
}

func TestPoisonGoesToTheDeadLettersWithItsReasonAndCanBeRetried(t *testing.T) {
	h := serve(t)
	b := h.join()
	var runs, panics, gives atomic.Int32
	var healed atomic.Bool
	var done list[string]
	background(t, func(ctx context.Context) error {
		return b.HandleEvents(ctx, bus.Cataloger, func(_ context.Context, e dataset.Event) error {
			switch {
			case healed.Load():
			case e.Key == "poison":
				runs.Add(1)
				return errors.New("cannot\r\ndigest")
			case e.Key == "panic":
				panics.Add(1)
				panic("no such thing")
			case e.Key == "give":
				gives.Add(1)
				return bus.Give(errors.New("makes no sense"))
			}
			done.add(e.Key)
			return nil
		})
	})
	publish(t, b, ingested("poison"), ingested("panic"), ingested("give"), ingested("good"))
	if _, err := b.JetStream().Publish(t.Context(), b.Subject("event", "d", "b", "rows_ingested"), []byte("no event")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "four letters", func() bool { return len(letters(t, b)) == 4 })
	if runs.Load() != 5 || panics.Load() != 5 || gives.Load() != 1 || done.len() != 1 {
		t.Fatalf("runs %d, panics %d, gives %d, done %v", runs.Load(), panics.Load(), gives.Load(), done.all())
	}
	reasons := map[string]bool{}
	for _, d := range letters(t, b) {
		reasons[d.Reason] = true
		if d.Durable != bus.Cataloger || d.Subject != b.Subject("event", "d", "b", "rows_ingested") || d.Job != nil || d.At.IsZero() {
			t.Errorf("letter %+v", d)
		}
	}
	if !reasons["cannot  digest"] || !reasons["makes no sense"] {
		t.Fatalf("reasons %v", reasons)
	}
	healed.Store(true)
	for _, d := range letters(t, b) {
		if strings.Contains(d.Reason, "parse event") {
			continue
		}
		if err := b.Retry(t.Context(), d.ID); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the retried are done", func() bool { return done.len() == 4 })
	if n := len(letters(t, b)); n != 1 {
		t.Fatalf("%d letters stay", n)
	}
	if err := b.Retry(t.Context(), "999999"); !errors.Is(err, bus.ErrNoLetter) {
		t.Fatalf("got %v", err)
	}
	if err := b.Retry(t.Context(), "nonsense"); err == nil {
		t.Fatal("nonsense was retried")
	}
}

func TestALongHandlerKeepsWhatItHolds(t *testing.T) {
	h := serve(t)
	b := h.join() // an acknowledgement is due within one second
	var runs list[string]
	release := make(chan struct{})
	handle := func(ctx context.Context) error {
		return b.HandleEvents(ctx, bus.Cataloger, func(_ context.Context, e dataset.Event) error {
			runs.add(e.Key)
			<-release
			return nil
		})
	}
	publish(t, b, ingested("a"), ingested("b"), ingested("c"))
	background(t, handle)
	eventually(t, "the first run", func() bool { return runs.len() == 1 })
	background(t, handle) // a second process that would take what is let go of
	timer := time.After(2500 * time.Millisecond)
	<-timer
	close(release)
	eventually(t, "all runs", func() bool { return runs.len() >= 3 })
	if g := runs.len(); g != 3 {
		t.Fatalf("%d runs of 3 events: %v", g, runs.all())
	}
}

func TestHandlersSurviveARestartOfTheServerAndALostStore(t *testing.T) {
	h := serve(t)
	b := h.join()
	var got list[string]
	background(t, func(ctx context.Context) error {
		return b.HandleEvents(ctx, bus.Cataloger, func(_ context.Context, e dataset.Event) error {
			got.add(e.Key)
			return nil
		}, dataset.RowsIngested)
	})
	background(t, func(ctx context.Context) error {
		return b.HandleNotifications(ctx, bus.Normalizer, func(_ context.Context, p []byte) error {
			got.add(string(p))
			return nil
		})
	})
	has := func(want string) func() bool {
		return func() bool { return strings.Contains(strings.Join(got.all(), " "), want) }
	}
	publish(t, b, ingested("before"))
	eventually(t, "before", has("before"))
	h.down()
	sent := make(chan error, 1)
	go func() { sent <- b.Publish(t.Context(), ingested("during")) }()
	h.up()
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	eventually(t, "during", has("during"))
	if err := b.Notify(t.Context(), []byte("note")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "note", has("note"))
	s, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Notifications))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Notify(t.Context(), []byte("purged")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "after a purge", has("purged"))

	h.wipe()
	eventually(t, "reconnect", b.Connected)
	if err := b.Publish(t.Context(), ingested("nowhere")); !errors.Is(err, bus.ErrTopology) {
		t.Fatalf("got %v", err)
	}
	if _, err := b.Topology(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	publish(t, b, ingested("anew"))
	eventually(t, "after the store was lost", has("anew"))
	if err := b.JetStream().DeleteConsumer(t.Context(), b.StreamName(bus.Events), bus.Cataloger); err != nil {
		t.Fatal(err)
	}
	publish(t, b, ingested("remade"))
	eventually(t, "after the durable was removed", has("remade"))
}

func TestTypesOutsideOfTheTopologyAreRefusedAndOtherDurablesAreMade(t *testing.T) {
	h := serve(t)
	b := h.join()
	fn := func(context.Context, dataset.Event) error { return nil }
	if err := b.HandleEvents(t.Context(), bus.Indexer, fn, dataset.RowsIngested); err == nil || !strings.Contains(err.Error(), "not subscribed") {
		t.Fatalf("got %v", err)
	}
	var got list[dataset.EventType]
	background(t, func(ctx context.Context) error {
		return b.HandleEvents(ctx, "mine", func(_ context.Context, e dataset.Event) error {
			got.add(e.Type)
			return nil
		}, dataset.IndexRefreshed)
	})
	publish(t, b, ingested("a"), dataset.NewEvent(dataset.IndexRefreshed, id("日本", "b.c"), time.Now()))
	eventually(t, "the event", func() bool { return got.len() == 1 })
}

func TestPublishEndsWithItsContextAndSaysWhy(t *testing.T) {
	h := serve(t)
	b := h.join()
	h.down()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := b.Publish(ctx, ingested("a"))
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "rows_ingested of d/b") || !strings.Contains(err.Error(), "SILT_lake_EVENTS") {
		t.Fatalf("got %v", err)
	}
	if err := b.Publish(t.Context(), dataset.NewEvent(dataset.RowsIngested, id("..", "b"), time.Now())); !errors.Is(err, dataset.ErrName) {
		t.Fatalf("got %v", err)
	}
	h.up()
}

// TestADatasetsDurableBeginsWithTheLastOfEachBatchAndRemembers is how an
// annotator follows merges: other datasets and types are nothing to it, and what
// it handled does not come again after a restart.
func TestADatasetsDurableBeginsWithTheLastOfEachBatchAndRemembers(t *testing.T) {
	h := serve(t)
	b := h.join()
	merged := func(ds, batch string, generation int64) dataset.Event {
		e := dataset.NewEvent(dataset.BatchMerged, id(ds, batch), time.Now())
		e.Generation, e.Commit = generation, fmt.Sprint(generation)
		return e
	}
	publish(t, b, merged("d", "x", 1), merged("d", "x", 2), merged("d", "y", 1), merged("other", "x", 7), ingested("d"))
	handle := func(got *list[string]) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- b.HandleDataset(ctx, "annotate_d_A", "d", func(_ context.Context, e dataset.Event) error {
				got.add(fmt.Sprintf("%s/%s %d", e.Dataset, e.Batch, e.Generation))
				return nil
			}, dataset.BatchMerged)
		}()
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	var first, second list[string]
	stop := handle(&first)
	eventually(t, "the last merge of each batch", func() bool { return first.len() >= 2 })
	publish(t, b, merged("d", "z", 1))
	eventually(t, "a merge that comes later", func() bool { return first.len() >= 3 })
	eventually(t, "all are acknowledged", func() bool {
		cons, err := b.JetStream().Consumer(t.Context(), b.StreamName(bus.Events), "annotate_d_A")
		if err != nil {
			return false
		}
		info, err := cons.Info(t.Context())
		return err == nil && info.NumAckPending == 0 && info.NumPending == 0
	})
	stop()
	publish(t, b, merged("other", "x", 8), merged("d", "y", 2))
	defer handle(&second)()
	eventually(t, "what was merged meanwhile", func() bool { return second.len() >= 1 })
	if g, want := fmt.Sprint(first.all(), second.all()), "[d/x 2 d/y 1 d/z 1] [d/y 2]"; g != want {
		t.Errorf("handled %s, want %s", g, want)
	}
}
