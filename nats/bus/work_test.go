package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/nats/bus"
)

var mergeDB = bus.Job{Kind: bus.KindMerge, Batch: id("d", "b")}

func named(name string) func(*bus.Config) { return func(c *bus.Config) { c.Name = name } }

func enqueue(t testing.TB, b *bus.Bus, jobs ...bus.Job) {
	t.Helper()
	for _, j := range jobs {
		if err := b.Enqueue(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
}

func jobs(t testing.TB, b *bus.Bus) (out []bus.JobState) {
	t.Helper()
	for j, err := range b.Jobs(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, j)
	}
	return out
}

// idle reports that no job waits or runs and no failure is remembered.
func idle(t testing.TB, b *bus.Bus) func() bool {
	return func() bool { return len(jobs(t, b)) == 0 && len(listed(t, b.KV(bus.Claims), ">")) == 0 }
}

func work(t testing.TB, b *bus.Bus, kind string, slots int, fn func(context.Context, bus.Job) error) (stop func()) {
	return background(t, func(ctx context.Context) error { return b.Work(ctx, kind, slots, fn) })
}

func TestAJobThatIsAskedForOftenRunsOnceAndLeavesNothing(t *testing.T) {
	h := serve(t)
	b := h.join()
	for range 20 {
		enqueue(t, b, mergeDB)
	}
	if s := jobs(t, b); len(s) != 1 || s[0].State != bus.Waiting || s[0].Job != mergeDB {
		t.Fatalf("%+v", s)
	}
	var runs list[bus.Job]
	work(t, b, bus.KindMerge, 2, func(_ context.Context, j bus.Job) error { runs.add(j); return nil })
	eventually(t, "the run", func() bool { return runs.len() > 0 })
	eventually(t, "idle", idle(t, b))
	if runs.len() != 1 || runs.all()[0] != mergeDB {
		t.Fatalf("runs %v", runs.all())
	}
}

func TestJobsOfOddNamesAndOfLayersComeToTheirKind(t *testing.T) {
	h := serve(t)
	b := h.join()
	want := 0
	var runs list[bus.Job]
	for _, kind := range []string{bus.KindIndex, bus.KindConvert} {
		work(t, b, kind, 3, func(_ context.Context, j bus.Job) error {
			if j.Kind != kind {
				t.Errorf("%v came to %s", j, kind)
			}
			runs.add(j)
			return nil
		})
	}
	for _, n := range oddNames {
		for _, kind := range []string{bus.KindIndex, bus.KindConvert} {
			j := bus.Job{Kind: kind, Batch: id(n, n)}
			if j.Check() != nil {
				continue
			}
			enqueue(t, b, j)
			want++
			if j.Batch.Annotator = n; j.Check() == nil {
				enqueue(t, b, j)
				want++
			}
		}
	}
	eventually(t, "all runs", func() bool { return runs.len() == want })
	if err := b.Enqueue(t.Context(), bus.Job{Kind: "nonsense", Batch: id("d", "b")}); err == nil {
		t.Fatal("a kind that does not exist was taken")
	}
	if err := b.Work(t.Context(), "nonsense", 1, nil); err == nil {
		t.Fatal("a kind that does not exist was worked on")
	}
}

func TestThirtyTriggersBecomeOneJob(t *testing.T) {
	h := serve(t)
	b := h.join()
	var runs list[time.Time]
	work(t, b, bus.KindMerge, 1, func(context.Context, bus.Job) error { runs.add(time.Now()); return nil })
	var last time.Time
	for range 30 {
		if err := b.Debounce(t.Context(), mergeDB, 400*time.Millisecond, time.Hour); err != nil {
			t.Fatal(err)
		}
		last = time.Now()
	}
	s := jobs(t, b)
	if len(s) != 2 || s[0].State != bus.Scheduled || s[0].Schedule == s[1].Schedule || s[0].Due.IsZero() {
		t.Fatalf("%+v", s)
	}
	eventually(t, "the run", func() bool { return runs.len() > 0 })
	at := runs.all()[0]
	if d := at.Sub(last); d < 300*time.Millisecond || d > 3*time.Second {
		t.Fatalf("it ran %s after the last trigger", d)
	}
	eventually(t, "no more than the bound is left", func() bool { s := jobs(t, b); return len(s) == 1 && s[0].Schedule == bus.Max })
	if runs.len() != 1 {
		t.Fatalf("%d runs", runs.len())
	}
}

func TestAJobRunsAlthoughTriggersDoNotPause(t *testing.T) {
	h := serve(t)
	b := h.join()
	var runs atomic.Int32
	work(t, b, bus.KindMerge, 1, func(context.Context, bus.Job) error { runs.Add(1); return nil })
	start := time.Now()
	eventually(t, "a run while triggers come", func() bool {
		if err := b.Debounce(t.Context(), mergeDB, 5*time.Second, 600*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		return runs.Load() > 0
	})
	if d := time.Since(start); d > 4*time.Second {
		t.Fatalf("it took %s", d)
	}
}

func TestSchedulesOutliveTheServer(t *testing.T) {
	h := serve(t)
	b := h.join()
	if err := b.Debounce(t.Context(), mergeDB, 300*time.Millisecond, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	h.down()
	h.up()
	var runs atomic.Int32
	work(t, b, bus.KindMerge, 1, func(context.Context, bus.Job) error { runs.Add(1); return nil })
	eventually(t, "the run", func() bool { return runs.Load() > 0 })
	eventually(t, "idle", idle(t, b))
}

func TestATriggerDuringARunRunsTheJobAgain(t *testing.T) {
	h := serve(t)
	b := h.join()
	var runs, now, most atomic.Int32
	gate := make(chan struct{})
	work(t, b, bus.KindMerge, 3, func(context.Context, bus.Job) error {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer now.Add(-1)
		if runs.Add(1) == 1 {
			<-gate
		}
		return nil
	})
	enqueue(t, b, mergeDB)
	eventually(t, "the first run", func() bool { return runs.Load() == 1 })
	enqueue(t, b, mergeDB, mergeDB, mergeDB)
	eventually(t, "running in the list", func() bool { s := jobs(t, b); return len(s) == 1 && s[0].State == bus.Running && s[0].Worker != "" })
	close(gate)
	eventually(t, "the second run", func() bool { return runs.Load() == 2 })
	eventually(t, "idle", idle(t, b))
	if runs.Load() != 2 || most.Load() != 1 {
		t.Fatalf("%d runs, %d at once", runs.Load(), most.Load())
	}
}

func TestAJobThatAlwaysFailsIsGivenUpExactlyOnceAndRevivedByATrigger(t *testing.T) {
	h := serve(t)
	b := h.join()
	var runs atomic.Int32
	var healed atomic.Bool
	var done list[string]
	work(t, b, bus.KindMerge, 2, func(_ context.Context, j bus.Job) error {
		if j == mergeDB && !healed.Load() {
			runs.Add(1)
			return fmt.Errorf("run %d of %s fails", runs.Load(), j)
		}
		done.add(j.String())
		return nil
	})
	// The bound of an older trigger fires after the job was given up: no new chance.
	if err := b.Debounce(t.Context(), mergeDB, 250*time.Millisecond, 1500*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	enqueue(t, b, bus.Job{Kind: bus.KindMerge, Batch: id("d", "good")})
	eventually(t, "given up", func() bool { s := jobs(t, b); return len(s) > 0 && s[len(s)-1].State == bus.Dead })
	eventually(t, "the bound has fired", func() bool { return len(jobs(t, b)) == 1 })
	l := letters(t, b)
	if runs.Load() != 3 || len(l) != 1 || l[0].Tries != 3 || l[0].Job == nil || *l[0].Job != mergeDB || l[0].Reason != "run 3 of merge/d/b fails" || l[0].Durable != bus.Merger {
		t.Fatalf("%d runs, letters %+v", runs.Load(), l)
	}
	if s := jobs(t, b); s[0].Error != l[0].Reason || s[0].Tries != 3 {
		t.Fatalf("%+v", s)
	}
	enqueue(t, b, mergeDB) // a new trigger sets the count back
	eventually(t, "a second letter", func() bool { return len(letters(t, b)) == 2 })
	if runs.Load() != 6 {
		t.Fatalf("%d runs", runs.Load())
	}
	healed.Store(true)
	if err := b.Retry(t.Context(), letters(t, b)[0].ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "done", func() bool { return done.len() == 2 })
	eventually(t, "idle", idle(t, b))
	if err := b.Retry(t.Context(), mergeDB.String()); err != nil {
		t.Fatal(err)
	}
	if l := letters(t, b); len(l) != 0 {
		t.Fatalf("%+v", l)
	}
	eventually(t, "done again", func() bool { return done.len() == 3 })
}

func TestATriggerSetsTheCountBackWhileTheJobFails(t *testing.T) {
	h := serve(t)
	b := h.join()
	var runs atomic.Int32
	work(t, b, bus.KindMerge, 1, func(context.Context, bus.Job) error {
		// As many runs as tries, but a trigger in each of the first three.
		if n := runs.Add(1); n <= 3 {
			if err := b.Enqueue(t.Context(), mergeDB); err != nil {
				t.Error(err)
			}
			return errors.New("no")
		} else if n < 6 {
			return errors.New("no")
		}
		return nil
	})
	enqueue(t, b, mergeDB)
	eventually(t, "six runs", func() bool { return runs.Load() == 6 })
	eventually(t, "idle", idle(t, b))
	if l := letters(t, b); len(l) != 0 {
		t.Fatalf("%+v", l)
	}
}

func TestGiveSendsAJobToTheDeadLettersAtOnce(t *testing.T) {
	h := serve(t)
	b := h.join()
	var runs atomic.Int32
	work(t, b, bus.KindMerge, 1, func(context.Context, bus.Job) error {
		runs.Add(1)
		return fmt.Errorf("merge: %w", bus.Give(errors.New("damaged")))
	})
	enqueue(t, b, mergeDB)
	eventually(t, "a letter", func() bool { return len(letters(t, b)) == 1 })
	if runs.Load() != 1 {
		t.Fatalf("%d runs", runs.Load())
	}
}

func TestAJobThatKillsItsWorkersIsGivenUp(t *testing.T) {
	h := serve(t)
	b := h.join()
	var runs atomic.Int32
	block := make(chan struct{})
	enqueue(t, b, mergeDB)
	for n := range int32(3) {
		w := h.connect(named(fmt.Sprint("victim", n)))
		stop := work(t, w, bus.KindMerge, 1, func(context.Context, bus.Job) error {
			runs.Add(1)
			w.Kill() // neither acknowledges nor releases
			<-block
			return errors.New("a ghost speaks")
		})
		eventually(t, "a run", func() bool { return runs.Load() == n+1 })
		defer stop()
	}
	work(t, b, bus.KindMerge, 1, func(context.Context, bus.Job) error { runs.Add(1); return nil })
	eventually(t, "a letter", func() bool { return len(letters(t, b)) == 1 })
	if l := letters(t, b); runs.Load() != 3 || !strings.Contains(l[0].Reason, "died in each of the last runs") {
		t.Fatalf("%d runs, %+v", runs.Load(), l)
	}
	close(block)
}

func TestADeadWorkersJobIsTakenOver(t *testing.T) {
	h := serve(t)
	b := h.join()
	enqueue(t, b, mergeDB)
	victim := h.connect(named("victim"))
	block, began := make(chan struct{}), make(chan struct{})
	stop := work(t, victim, bus.KindMerge, 1, func(context.Context, bus.Job) error {
		victim.Kill()
		close(began)
		<-block
		return nil
	})
	<-began
	var runs atomic.Int32
	work(t, b, bus.KindMerge, 1, func(context.Context, bus.Job) error { runs.Add(1); return nil })
	eventually(t, "the run", func() bool { return runs.Load() == 1 })
	eventually(t, "idle", idle(t, b))
	close(block)
	stop()
}

func TestALostClaimEndsTheRun(t *testing.T) {
	h := serve(t)
	b := h.join()
	var runs atomic.Int32
	cause := make(chan error, 1)
	work(t, b, bus.KindMerge, 1, func(ctx context.Context, _ bus.Job) error {
		if runs.Add(1) == 1 {
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return ctx.Err()
		}
		return nil
	})
	enqueue(t, b, mergeDB)
	eventually(t, "a claim", func() bool { return len(listed(t, b.KV(bus.Claims), ">")) == 1 })
	for key := range listed(t, b.KV(bus.Claims), ">") {
		put(t, b.KV(bus.Claims), key, `{"worker":"thief"}`)
	}
	if err := <-cause; !errors.Is(err, bus.ErrClaimLost) {
		t.Fatalf("got %v", err)
	}
	for key := range listed(t, b.KV(bus.Claims), ">") {
		if err := b.KV(bus.Claims).Delete(t.Context(), key, 0); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the second run", func() bool { return runs.Load() == 2 })
	eventually(t, "idle", idle(t, b))
}

func TestALongRunKeepsItsClaimAndItsMessage(t *testing.T) {
	h := serve(t)
	b := h.join() // claims live one second, messages are due after one
	var runs atomic.Int32
	run := func(ctx context.Context, _ bus.Job) error {
		runs.Add(1)
		select {
		case <-time.After(2500 * time.Millisecond):
			return nil
		case <-ctx.Done():
			t.Error("the run was ended")
			return ctx.Err()
		}
	}
	work(t, b, bus.KindMerge, 1, run)
	work(t, h.connect(named("other")), bus.KindMerge, 1, run)
	enqueue(t, b, mergeDB)
	eventually(t, "a run", func() bool { return runs.Load() > 0 })
	eventually(t, "idle", idle(t, b))
	if runs.Load() != 1 {
		t.Fatalf("%d runs", runs.Load())
	}
}

func TestAWorkerThatIsToldToStopHandsItsJobOver(t *testing.T) {
	h := serve(t)
	b := h.join()
	began := make(chan struct{})
	stop := work(t, b, bus.KindMerge, 1, func(ctx context.Context, _ bus.Job) error {
		close(began)
		<-ctx.Done()
		return ctx.Err()
	})
	enqueue(t, b, mergeDB)
	<-began
	stop()
	var tries atomic.Int64
	start := time.Now()
	work(t, b, bus.KindMerge, 1, func(context.Context, bus.Job) error {
		for s, err := range b.Jobs(context.Background()) {
			if err == nil {
				tries.Store(int64(s.Tries))
			}
		}
		return nil
	})
	eventually(t, "idle", idle(t, b))
	if d := time.Since(start); tries.Load() != 1 || d > 900*time.Millisecond {
		t.Fatalf("try %d after %s", tries.Load(), d)
	}
}

func TestWorkersGoOnAfterARestartOfTheServer(t *testing.T) {
	h := serve(t)
	b := h.join(func(c *bus.Config) { c.Timing.ClaimTTL = 10 * time.Second }) // longer than the outage
	var runs list[string]
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	work(t, b, bus.KindMerge, 2, func(_ context.Context, j bus.Job) error {
		runs.add(j.Batch.Batch)
		if j.Batch.Batch == "long" {
			<-gate
		}
		return nil
	})
	enqueue(t, b, bus.Job{Kind: bus.KindMerge, Batch: id("d", "long")})
	eventually(t, "the run", func() bool { return runs.len() == 1 })
	h.down()
	h.up()
	enqueue(t, b, bus.Job{Kind: bus.KindMerge, Batch: id("d", "after")})
	eventually(t, "a run after the restart", func() bool { return strings.Contains(fmt.Sprint(runs.all()), "after") })
	open()
	eventually(t, "idle", idle(t, b))
}

func TestNothingButSpeedRestsOnClaims(t *testing.T) {
	h := serve(t)
	off := func(c *bus.Config) { c.ClaimsOff = true }
	b := h.join(off)
	var runs atomic.Int32
	gate := make(chan struct{})
	work(t, b, bus.KindMerge, 2, func(context.Context, bus.Job) error {
		runs.Add(1)
		<-gate
		return nil
	})
	enqueue(t, b, mergeDB)
	eventually(t, "a run", func() bool { return runs.Load() == 1 })
	enqueue(t, b, mergeDB)
	eventually(t, "a second run beside it", func() bool { return runs.Load() == 2 })
	close(gate)
	eventually(t, "idle", idle(t, b))
}

func TestAPanicOfAJobIsAFailure(t *testing.T) {
	h := serve(t)
	b := h.join()
	var runs atomic.Int32
	work(t, b, bus.KindMerge, 1, func(context.Context, bus.Job) error {
		if runs.Add(1) == 1 {
			panic("oops")
		}
		return nil
	})
	enqueue(t, b, mergeDB)
	eventually(t, "idle", func() bool { return runs.Load() == 2 && idle(t, b)() })
}
