package objtest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

// add raises the counter under key by one, surely, by compare-and-swap: a write
// of unknown outcome is looked up by the name that it left.
func add(ctx context.Context, s objstore.Store, key, who string) error {
	for try := 0; ; try++ {
		body, info, err := objstore.ReadAll(ctx, s, key)
		cond := objstore.IfAbsent()
		switch {
		case errors.Is(err, objstore.ErrNotFound):
		case err != nil:
			return err
		default:
			cond = objstore.IfMatch(info.ETag)
			if slices.Contains(strings.Fields(string(body)), who) {
				return nil
			}
		}
		_, err = s.Put(ctx, key, append(body, " "+who...), cond)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, objstore.ErrLost), errors.Is(err, objstore.ErrUnknown):
		default:
			return err
		}
	}
}

var all = objtest.Chances{CrashBefore: .02, CrashAfter: .02, LostAnswer: .05, LateEffect: .05, ReadError: .02, Pause: .05}

func run(t *testing.T, seed uint64, chances objtest.Chances, actors int) *objtest.Schedule {
	t.Helper()
	s := objtest.NewSchedule(seed, objtest.ScheduleConfig{Chances: chances, Jump: .1})
	for i := range actors {
		s.Go(fmt.Sprintf("actor%d", i), func(ctx context.Context, store objstore.Store) error {
			for n := range 5 {
				err := add(ctx, store, "sum", fmt.Sprintf("%d.%d", i, n))
				if errors.Is(err, objtest.ErrCrashed) {
					if !errors.Is(context.Cause(ctx), objtest.ErrCrashed) {
						return fmt.Errorf("the context of a crashed actor: %v", context.Cause(ctx))
					}
					return err
				}
				if _, err := store.Put(ctx, fmt.Sprintf("keys/%d/%d", i, n), nil, objstore.Condition{}); errors.Is(err, objtest.ErrCrashed) {
					return err
				}
				if err := store.Delete(ctx, "keys/0/0"); errors.Is(err, objtest.ErrCrashed) {
					return err
				}
				for _, err := range store.List(ctx, "keys/", "") {
					if errors.Is(err, objtest.ErrCrashed) {
						return err
					}
				}
				for _, err := range store.Dirs(ctx, "keys/") {
					if errors.Is(err, objtest.ErrCrashed) {
						return err
					}
				}
			}
			return nil
		})
	}
	if err := s.Run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, s.Trace())
	}
	return s
}

func TestTheSameSeedIsTheSameRun(t *testing.T) {
	for seed := range uint64(20) {
		a, b := run(t, seed, all, 4), run(t, seed, all, 4)
		if diff := cmp.Diff(a.Trace(), b.Trace()); diff != "" {
			t.Fatalf("seed %d ran in two ways:\n%s", seed, diff)
		}
		if !a.Now().Equal(b.Now()) {
			t.Fatalf("seed %d: clocks %v and %v", seed, a.Now(), b.Now())
		}
	}
	if run(t, 1, all, 4).Trace() == run(t, 2, all, 4).Trace() {
		t.Fatal("two seeds gave one run")
	}
}

func TestEveryFaultFires(t *testing.T) {
	fired := map[string]int{}
	for seed := range uint64(40) {
		for name, n := range run(t, seed, all, 4).Fired() {
			fired[name] += n
		}
	}
	want := []string{"CrashAfter", "CrashBefore", "LateEffect", "LostAnswer", "Pause", "ReadError"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(fired))); diff != "" {
		t.Fatalf("faults that fired:\n%s", diff)
	}
}

func TestActorsInterleaveAndNoSwapIsLost(t *testing.T) {
	for seed := range uint64(20) {
		s := run(t, seed, objtest.Chances{}, 4)
		body, _, err := objstore.ReadAll(t.Context(), s.Store(), "sum")
		if err != nil {
			t.Fatal(err)
		}
		if n := len(strings.Fields(string(body))); n != 20 {
			t.Fatalf("seed %d: the sum is %d\n%s", seed, n, s.Trace())
		}
		if !strings.Contains(s.Trace(), objstore.ErrLost.Error()) {
			t.Fatalf("seed %d: four actors never got in each other's way\n%s", seed, s.Trace())
		}
	}
}

func TestALateEffectIsSeenAfterItsAnswer(t *testing.T) {
	s := objtest.NewSchedule(1, objtest.ScheduleConfig{
		Chances: objtest.Chances{LateEffect: 1},
		Spare:   func(_, verb, _ string) bool { return verb != "put" },
	})
	var before, after []byte
	s.Go("writer", func(ctx context.Context, store objstore.Store) error {
		body := []byte("late")
		if _, err := store.Put(ctx, "k", body, objstore.IfAbsent()); !errors.Is(err, objstore.ErrUnknown) {
			return fmt.Errorf("put: %v", err)
		}
		copy(body, "XXXX") // the caller may use its buffer again
		before, _, _ = objstore.ReadAll(ctx, store, "k")
		for after == nil {
			after, _, _ = objstore.ReadAll(ctx, store, "k")
		}
		return nil
	})
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if before != nil || string(after) != "late" {
		t.Fatalf("at once %q, later %q\n%s", before, after, s.Trace())
	}
}

func TestSleepersWakeInOrderOnTheVirtualClock(t *testing.T) {
	s := objtest.NewSchedule(7, objtest.ScheduleConfig{StepTime: time.Millisecond})
	var order []string
	for i := range 5 {
		name := strconv.Itoa(i)
		s.Go(name, func(ctx context.Context, _ objstore.Store) error {
			err := s.Sleep(ctx, name, time.Duration(5-i)*time.Hour)
			order = append(order, name)
			return err
		})
	}
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"4", "3", "2", "1", "0"}, order); diff != "" {
		t.Fatalf("%s\n%s", diff, s.Trace())
	}
}

func TestAnActorMayStartItsSuccessor(t *testing.T) {
	s := objtest.NewSchedule(3, objtest.ScheduleConfig{Chances: objtest.Chances{CrashBefore: .5, CrashAfter: .3}})
	lives := 0
	var live func(ctx context.Context, store objstore.Store) error
	live = func(ctx context.Context, store objstore.Store) error {
		lives++
		err := add(ctx, store, "sum", "x")
		if errors.Is(err, objtest.ErrCrashed) {
			s.Go("life "+strconv.Itoa(lives), live)
		}
		return err
	}
	s.Go("life 0", live)
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	body, _, err := objstore.ReadAll(t.Context(), s.Store(), "sum")
	if err != nil || string(body) != " x" || lives < 2 {
		t.Fatalf("after %d lives: %q, %v\n%s", lives, body, err, s.Trace())
	}
}

func TestARunThatNeverEndsIsStopped(t *testing.T) {
	s := objtest.NewSchedule(1, objtest.ScheduleConfig{MaxSteps: 100})
	s.Go("busy", func(ctx context.Context, store objstore.Store) error {
		for {
			if err := store.Delete(ctx, "k"); err != nil {
				return err
			}
		}
	})
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no end after 100 steps") {
		t.Fatalf("got %v", err)
	}
}

// In a bubble the schedule sees when all goroutines of an actor stand still, and
// moves their timers.
func TestActorsWithManyGoroutinesAreDeterministicInABubble(t *testing.T) {
	trace := func(seed uint64) (out string) {
		synctest.Test(t, func(t *testing.T) {
			s := objtest.NewSchedule(seed, objtest.ScheduleConfig{Chances: objtest.Chances{LostAnswer: .1, Pause: .1}})
			for i := range 3 {
				s.Go(strconv.Itoa(i), func(ctx context.Context, store objstore.Store) error {
					var wg sync.WaitGroup
					for n := range 4 {
						wg.Go(func() {
							time.Sleep(time.Duration(n) * 300 * time.Millisecond)
							if err := add(ctx, store, "sum", fmt.Sprintf("%d.%d", i, n)); err != nil {
								t.Error(err)
							}
						})
					}
					wg.Wait()
					return nil
				})
			}
			if err := s.Run(t.Context()); err != nil {
				t.Fatalf("%v\n%s", err, s.Trace())
			}
			if !s.Now().Equal(time.Now()) {
				t.Errorf("the schedule's clock says %v, the bubble's %v", s.Now(), time.Now())
			}
			body, _, err := objstore.ReadAll(t.Context(), s.Store(), "sum")
			if n := len(strings.Fields(string(body))); n != 12 || err != nil {
				t.Fatalf("the sum is %d, %v\n%s", n, err, s.Trace())
			}
			out = s.Trace()
		})
		return out
	}
	for seed := range uint64(10) {
		if diff := cmp.Diff(trace(seed), trace(seed)); diff != "" {
			t.Fatalf("seed %d ran in two ways:\n%s", seed, diff)
		}
	}
}
