package consumers_test

import (
	"slices"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/consumers"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
)

func mergeJob(b dataset.BatchID) bus.Job { return bus.Job{Kind: bus.KindMerge, Batch: b} }

func planner(w *world, jobs consumers.Scheduler, p consumers.Policy) *consumers.Planner {
	return consumers.NewPlanner(w.bus, jobs, w.kv, w.store, consumers.PlannerConfig{Policy: p}, logger(), nil)
}

func handle(t *testing.T, p *consumers.Planner, e dataset.Event) {
	t.Helper()
	if err := p.Handle(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}

func TestAChunkIsInTheCatalogBeforeItsMergeIsScheduled(t *testing.T) {
	w := newWorld(t)
	for _, b := range []dataset.BatchID{own, layer} {
		e := chunk(t, w.store, b, "a1b2c3", 0, 2)
		r := &told{}
		handle(t, planner(w, r, consumers.Policy{}), e)
		if r.later[b] != 1 {
			t.Errorf("%v schedules", r.later)
		}
	}
	if diff := w.agrees(own, layer); diff != "" {
		t.Error(diff)
	}
}

func TestAScheduleIsOnlyMadeOnceTheCatalogIsWritten(t *testing.T) {
	w := newWorld(t)
	e := chunk(t, w.store, own, "a1b2c3", 0, 2)
	r := &told{}
	p := consumers.NewPlanner(nil, r, &shut{w.kv}, w.store, consumers.PlannerConfig{}, nil, nil)
	if err := p.Handle(t.Context(), e); err == nil || len(r.later)+len(r.now) > 0 {
		t.Errorf("a trigger schedules although the catalog was not written: %v, %v, %v", err, r.later, r.now)
	}
}

func TestABatchIsMergedAtOnceWhenItHasEnoughBytesAndThenNotForEachChunk(t *testing.T) {
	w := newWorld(t)
	open(t, w.store, own, "a1b2c3", catalog.RunOpen, nil)
	r := &told{}
	first := chunk(t, w.store, own, "a1b2c3", 0, 10)
	p := planner(w, r, consumers.Policy{MinBytes: 3 * first.Bytes, MaxAge: time.Hour})
	handle(t, p, first)
	handle(t, p, chunk(t, w.store, own, "a1b2c3", 1, 10))
	if len(r.now) != 0 {
		t.Fatalf("due after two of three: %v", r.now)
	}
	for n := range 4 {
		handle(t, p, chunk(t, w.store, own, "a1b2c3", 2+n, 10))
	}
	if r.now[mergeJob(own)] != 1 || r.later[own] != 5 {
		t.Errorf("%v now, %v later", r.now, r.later)
	}
}

func TestAPlannerThatStartsAgainCountsWhatIsThere(t *testing.T) {
	w := newWorld(t)
	r := &told{}
	var last dataset.Event
	for n := range 3 {
		last = chunk(t, w.store, own, "a1b2c3", n, 10)
		handle(t, planner(w, r, consumers.Policy{MinBytes: 3 * last.Bytes}), last)
	}
	if r.now[mergeJob(own)] != 1 {
		t.Errorf("%v", r.now)
	}
}

func TestTheEndOfARunMakesItsMergeDueAtOnce(t *testing.T) {
	w := newWorld(t)
	r := &told{}
	e := dataset.NewEvent(dataset.RunCompleted, own, time.Now())
	e.Run, e.State = "a1b2c3", catalog.RunFailed
	handle(t, planner(w, r, consumers.Policy{}), e)
	if r.now[mergeJob(own)] != 1 {
		t.Errorf("%v", r.now)
	}
}

func TestABatchWhoseIDsAreSpreadIsMergedBySize(t *testing.T) {
	w := newWorld(t)
	h := merge(t, w.store, own, nil, nil)
	next := h.Record.Next("0123456789abcdef", "test", time.Now())
	next.Spread = 10_000
	if _, err := catalog.Commit(t.Context(), w.store, h, next); err != nil {
		t.Fatal(err)
	}
	open(t, w.store, own, "a1b2c3", catalog.RunOpen, nil)
	r := &told{}
	p := planner(w, r, consumers.Policy{Quiet: time.Second, MaxAge: time.Minute, MinBytes: 1000})
	sent := int64(0)
	for n := range 100 {
		e := chunk(t, w.store, own, "a1b2c3", n, 2)
		sent += e.Bytes
		handle(t, p, e)
		if due := sent >= 1250; due != (r.now[mergeJob(own)] > 0) {
			t.Fatalf("after %d bytes: %v", sent, r.now)
		} else if due {
			break
		}
		if r.quiet != time.Minute {
			t.Fatalf("it waits %s", r.quiet)
		}
		done := dataset.NewEvent(dataset.RunCompleted, own, time.Now())
		done.Run, done.State = "a1b2c3", catalog.RunCompleted
		handle(t, p, done)
	}
}

func TestALateEventOfAMergedChunkSchedulesNothing(t *testing.T) {
	w := newWorld(t)
	e := chunk(t, w.store, own, "a1b2c3", 0, 2)
	merge(t, w.store, own, nil, nil)
	m := mergeEvent(merge(t, w.store, layer, nil, nil))
	odd := e
	odd.Key = own.BlockKey("merged_00000.jsonl.gz")
	r := &told{}
	p := planner(w, r, consumers.Policy{})
	for _, e := range []dataset.Event{e, m, odd} {
		handle(t, p, e)
	}
	if len(r.now)+len(r.later) != 0 {
		t.Errorf("%v %v", r.now, r.later)
	}
}

func TestTriggersOnTheBusBecomeOneJob(t *testing.T) {
	w := newWorld(t)
	p := planner(w, w.bus, consumers.Policy{Quiet: 100 * time.Millisecond})
	w.run(p.Run)
	for n := range 10 {
		if err := w.bus.Publish(t.Context(), chunk(t, w.store, own, "a1b2c3", n, 2)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() string {
		states := w.jobs()
		if slices.Equal(states, []string{"waiting merge/" + own.String(), "scheduled max merge/" + own.String()}) {
			return ""
		}
		return "the job does not become due"
	})
}

// jobs lists what the bus says of jobs.
func (w *world) jobs() []string {
	w.t.Helper()
	var out []string
	for s, err := range w.bus.Jobs(w.t.Context()) {
		if err != nil {
			w.t.Fatal(err)
		}
		text := string(s.State) + " "
		if s.Schedule != "" {
			text += s.Schedule + " "
		}
		out = append(out, text+s.Job.String())
	}
	return out
}
