package lockd_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/lockd"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

const name = "_locks/job"

// toTheSecond is a store whose clock is read as in an HTTP header.
func toTheSecond() *mem.Store {
	return mem.New(mem.Config{Now: func() time.Time { return time.Now().Truncate(time.Second) }})
}

func open(s objstore.Store) *lockd.Leases { return lockd.New(s, lockd.Config{Trusted: true}) }

func take(t *testing.T, l *lockd.Leases, owner string, ttl time.Duration) *lockd.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), name, owner, ttl, 0, nil)
	if err != nil {
		t.Fatalf("%s: %v", owner, err)
	}
	return lease
}

// is checks that an error is one of the outcomes, and none of the others.
func is(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
	for _, other := range []error{lockd.ErrHeld, lockd.ErrLost, lockd.ErrUnreachable, lockd.ErrNoLease} {
		if other != want && errors.Is(err, other) {
			t.Errorf("%s: %v is also %v", what, err, other)
		}
	}
}

func TestALeaseKeepsOthersOutAndTellsWhoHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := toTheSecond()
		a := take(t, open(s), "a", time.Minute)
		if r := a.Remaining(); r != time.Minute {
			t.Errorf("%s remain", r)
		}
		time.Sleep(10 * time.Second)
		_, err := open(s).Acquire(t.Context(), name, "b", time.Minute, 0, nil)
		is(t, "a second owner", err, lockd.ErrHeld)
		var h *lockd.HeldError
		if !errors.As(err, &h) || h.HeldBy != "a" || h.In != 50*time.Second || !h.ExpiresAt.Equal(time.Now().Add(50*time.Second)) {
			t.Errorf("%+v", h)
		}
		if r := a.Remaining(); r != 50*time.Second {
			t.Errorf("%s remain", r)
		}
	})
}

// B070: the object is kept when a lease is released, and the token goes on.
func TestTokensGrowOverReleaseTakeoverAndForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := toTheSecond()
		var tokens []int64
		a := take(t, open(s), "a", time.Minute)
		tokens = append(tokens, a.Token())
		if err := a.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a.Remaining() != 0 {
			t.Error("a released lease remains")
		}
		b := take(t, open(s), "b", time.Minute)
		tokens = append(tokens, b.Token())
		is(t, "renewing what was released", a.Renew(t.Context(), time.Minute), lockd.ErrLost)
		time.Sleep(time.Minute + 3*time.Second)
		c := take(t, open(s), "c", time.Minute)
		tokens = append(tokens, c.Token())
		is(t, "renewing what was taken over", b.Renew(t.Context(), time.Minute), lockd.ErrLost)
		is(t, "releasing what was taken over", b.Release(t.Context()), lockd.ErrLost)
		if _, err := open(s).ForceRelease(t.Context(), name, "admin"); err != nil {
			t.Fatal(err)
		}
		d := take(t, open(s), "d", time.Minute)
		tokens = append(tokens, d.Token())
		is(t, "renewing what was taken by force", c.Renew(t.Context(), time.Minute), lockd.ErrLost)
		if err := d.Renew(t.Context(), time.Minute); err != nil {
			t.Error(err)
		}
		if err := s.Delete(t.Context(), name); err != nil { // by hand, against all advice
			t.Fatal(err)
		}
		is(t, "renewing what is gone", d.Renew(t.Context(), time.Minute), lockd.ErrLost)
		e := take(t, open(s), "e", time.Minute)
		tokens = append(tokens, e.Token())
		for i := 1; i < len(tokens); i++ {
			if tokens[i] <= tokens[i-1] {
				t.Errorf("tokens %d", tokens)
			}
		}
	})
}

func TestALeaseThatEndedIsTakenAtOnceAndNoSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 { // fractions of a second
			s := toTheSecond()
			a := take(t, open(s), "a", 5*time.Second)
			for {
				b, err := open(s).Acquire(t.Context(), name, "b", 5*time.Second, 0, nil)
				if err == nil {
					if a.Remaining() > 0 || b.Token() <= a.Token() {
						t.Errorf("taken over with %s left", a.Remaining())
					}
					break
				}
				is(t, "while it is held", err, lockd.ErrHeld)
				time.Sleep(70 * time.Millisecond)
			}
			// B072: nobody waits for longer than the lease, and what clocks may differ.
			if st, err := open(s).Show(t.Context(), name); err != nil || st.Owner != "b" {
				t.Errorf("%+v, %v", st, err)
			}
			time.Sleep(137 * time.Millisecond)
		}
	})
}

// B072: a holder that is long dead keeps nobody waiting.
func TestALeaseOfTheDeadIsThereForTheTaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := toTheSecond()
		take(t, open(s), "dead", time.Minute)
		time.Sleep(10 * time.Minute)
		st, err := open(s).Show(t.Context(), name)
		if err != nil || st.State != lockd.Expired || st.Owner != "dead" || st.Left() != -9*time.Minute {
			t.Errorf("%+v, %v", st, err)
		}
		began := time.Now()
		take(t, open(s), "next", time.Minute)
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %s", took)
		}
	})
}

func TestARenewedLeaseLivesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := toTheSecond()
		a := take(t, open(s), "a", 10*time.Second)
		for range 20 {
			time.Sleep(7 * time.Second)
			if err := a.Renew(t.Context(), 10*time.Second); err != nil {
				t.Fatal(err)
			}
			_, err := open(s).Acquire(t.Context(), name, "b", time.Minute, 0, nil)
			is(t, "while it is renewed", err, lockd.ErrHeld)
		}
		st, err := open(s).Show(t.Context(), name)
		if err != nil || st.AcquiredAt == nil || time.Since(*st.AcquiredAt) < 139*time.Second || st.Owner != "a" {
			t.Errorf("%+v, %v", st, err)
		}
		if err := a.Renew(t.Context(), 3*time.Second); err != nil { // for less than before
			t.Fatal(err)
		}
		if r := a.Remaining(); r != 3*time.Second {
			t.Errorf("%s remain", r)
		}
	})
}

func TestALeaseThatNobodyTookCanBeRenewedAfterItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := toTheSecond()
		a := take(t, open(s), "a", 5*time.Second)
		time.Sleep(time.Minute)
		if a.Remaining() != 0 {
			t.Error("it remains")
		}
		if err := a.Renew(t.Context(), 5*time.Second); err != nil || a.Remaining() != 5*time.Second {
			t.Errorf("%v, %s remain", err, a.Remaining())
		}
	})
}

// B068: the clocks of the holder and of the taker are off, and jump.
func TestClocksOfMachinesChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, off := range []time.Duration{-time.Hour, -20 * time.Second, 20 * time.Second, time.Hour, 24 * 365 * time.Hour} {
			s := toTheSecond()
			jump := time.Duration(0)
			at := func(d *time.Duration, off time.Duration) *lockd.Leases {
				return lockd.New(s, lockd.Config{Trusted: true, Now: func() time.Time { return time.Now().Add(off + *d) }})
			}
			var none time.Duration
			holder, taker := at(&none, off), at(&jump, -off)
			a := take(t, holder, "a", 30*time.Second)
			for range 3 {
				time.Sleep(25 * time.Second)
				_, err := taker.Acquire(t.Context(), name, "b", 30*time.Second, 0, nil)
				is(t, "a live lease", err, lockd.ErrHeld)
				jump += off // the taker's clock jumps
				_, err = taker.Acquire(t.Context(), name, "b", 30*time.Second, 0, nil)
				is(t, "a live lease", err, lockd.ErrHeld)
				if err := a.Renew(t.Context(), 30*time.Second); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(33 * time.Second)
			b := take(t, taker, "b", 30*time.Second)
			if a.Remaining() > 0 || b.Token() <= a.Token() {
				t.Errorf("off by %s: tokens %d and %d", off, a.Token(), b.Token())
			}
		}
	})
}

func TestAStoreWhoseClockWasSetBackDoesNotKeepALeaseForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := time.Duration(0)
		s := mem.New(mem.Config{Now: func() time.Time { return time.Now().Add(-back) }})
		take(t, open(s), "dead", 10*time.Second)
		back = 24 * time.Hour
		began := time.Now()
		if _, err := open(s).Acquire(t.Context(), name, "b", time.Minute, time.Minute, nil); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 10*time.Second || took > 14*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestThoseWhoWaitGetTheLeaseInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(toTheSecond())
		first := take(t, l, "first", time.Minute)
		var mu sync.Mutex
		var got, want []int
		var wg sync.WaitGroup
		for i := range 20 {
			want = append(want, i)
			wg.Go(func() {
				lease, err := l.Acquire(t.Context(), name, "w", time.Minute, time.Hour, nil)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				got = append(got, i)
				mu.Unlock()
				time.Sleep(3 * time.Second)
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		if st, err := l.Show(t.Context(), name); err != nil || st.Waiting != 20 {
			t.Errorf("%+v, %v", st, err)
		}
		_, err := l.Acquire(t.Context(), name, "hasty", time.Minute, 0, nil)
		is(t, "pushing to the front", err, lockd.ErrHeld)
		began := time.Now()
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if took := time.Since(began); took != 60*time.Second { // nobody waits for a poll
			t.Errorf("20 turns of 3 s took %s", took)
		}
	})
}

func TestOneWhoStopsWaitingLetsTheOthersPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(toTheSecond())
		a := take(t, l, "a", time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := l.Acquire(ctx, name, "gone", time.Minute, time.Hour, nil)
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			_, err := l.Acquire(t.Context(), name, "short", time.Minute, 5*time.Second, nil)
			is(t, "a wait that is over", err, lockd.ErrHeld)
		})
		synctest.Wait()
		wg.Go(func() {
			if _, err := l.Acquire(t.Context(), name, "patient", time.Minute, time.Hour, nil); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		time.Sleep(10 * time.Second)
		cancel()
		synctest.Wait()
		if err := a.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if st, err := l.Show(t.Context(), name); err != nil || st.Owner != "patient" || st.Waiting != 0 {
			t.Errorf("%+v, %v", st, err)
		}
	})
}

func TestAWaiterElsewhereSeesAReleaseSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := toTheSecond()
		a := take(t, open(s), "a", time.Hour)
		done := make(chan error)
		go func() {
			_, err := open(s).Acquire(t.Context(), name, "b", time.Minute, time.Hour, nil)
			done <- err
		}()
		time.Sleep(time.Minute)
		began := time.Now()
		if err := a.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestForceIsNotedInTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := toTheSecond()
		l := open(s)
		_, err := l.ForceRelease(t.Context(), name, "admin")
		is(t, "what there is not", err, lockd.ErrNoLease)
		_, err = l.Show(t.Context(), name)
		is(t, "what there is not", err, lockd.ErrNoLease)
		var want []lockd.Forced
		for range 60 {
			a := take(t, l, "a", time.Hour)
			st, err := l.ForceRelease(t.Context(), name, "admin")
			if err != nil || st.State != lockd.Free {
				t.Fatalf("%+v, %v", st, err)
			}
			want = append(want, lockd.Forced{At: time.Now().Truncate(time.Second).UTC(), By: "admin", Owner: "a", Token: a.Token()})
			err = a.Renew(t.Context(), time.Hour)
			is(t, "after a release by force", err, lockd.ErrLost)
			is(t, "after a release by force", a.Release(t.Context()), lockd.ErrLost)
			time.Sleep(time.Second)
		}
		st, err := open(s).ForceRelease(t.Context(), name, "again") // it is free: nothing to note
		if err != nil || st.ForcedMore != 10 {
			t.Fatalf("%+v, %v", st, err)
		}
		if diff := cmp.Diff(want[10:], st.Forced); diff != "" {
			t.Error(diff)
		}
		take(t, l, "b", time.Hour)
		if st, err := l.Show(t.Context(), name); err != nil || len(st.Forced) != 50 || st.State != lockd.Held {
			t.Errorf("the trail is lost: %+v, %v", st, err)
		}
	})
}

func TestForceMakesALeaseOfWhatIsNone(t *testing.T) {
	s := toTheSecond()
	if _, err := s.Put(t.Context(), name, []byte("hello"), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	l := open(s)
	if _, err := l.Acquire(t.Context(), name, "a", time.Minute, 0, nil); !errors.Is(err, lockd.ErrAlien) || errors.Is(err, lockd.ErrHeld) {
		t.Errorf("got %v", err)
	}
	if _, err := l.ForceRelease(t.Context(), name, "admin"); err != nil {
		t.Fatal(err)
	}
	take(t, l, "a", time.Minute)
	newer := "_locks/newer"
	if _, err := s.Put(t.Context(), newer, []byte(`{"version":2}`), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.ForceRelease(t.Context(), newer, "admin"); !errors.Is(err, lockd.ErrNewer) {
		t.Errorf("a lease of a newer version: %v", err)
	}
}

// A record that nobody here wrote is no lease, and stops nobody.
func TestARecordThatContradictsItselfIsNoLease(t *testing.T) {
	for _, rec := range []string{
		`{"version":1,"state":"free","token":5,"owner":"a","ttl_s":60,"lease":"l","write":"w","freed":"force"}`,
		`{"version":1,"state":"held","token":0,"owner":"a","ttl_s":60,"lease":"l","write":"w"}`,
		`{"version":1,"state":"held","token":5,"owner":"a","lease":"l","write":"w"}`,
		`{"version":1,"state":"held","token":5,"owner":"a","ttl_s":60,"lease":"l"}`,
		`{"state":"held"}`, `null`, `{}x`,
	} {
		s := toTheSecond()
		if _, err := s.Put(t.Context(), name, []byte(rec), objstore.IfAbsent()); err != nil {
			t.Fatal(err)
		}
		_, err := open(s).Renew(t.Context(), name, 5, time.Minute)
		is(t, rec, err, lockd.ErrAlien)
		is(t, rec, open(s).Release(t.Context(), name, 5), lockd.ErrAlien)
	}
}

func TestAllLeasesAreListed(t *testing.T) {
	s := toTheSecond()
	l := open(s)
	names := []string{"D/annotations/A/.temp/.lock", "D/annotations/日本/.temp/.lock", "a+b/annotations/A/.temp/.lock"}
	for range 3 {
		names = append(names, "_locks/"+string(rune('a'+len(names))), "_locks/x/"+string(rune('a'+len(names))))
	}
	for i, n := range names {
		lease, err := l.Acquire(t.Context(), n, "o", time.Minute, 0, json.RawMessage(`{"n":1}`))
		if err != nil {
			t.Fatalf("%s: %v", n, err)
		}
		if i%2 == 0 {
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, k := range []string{"D/b/x", "D/annotations/A/b/x", "D/annotations/B/.temp/b/x", "_locks/.selftest/x", "_index/annotations/A/.temp/.lock", "E/annotations/F"} {
		if _, err := s.Put(t.Context(), k, []byte("x"), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	for prefix, want := range map[string]int{"": 9, "_locks/": 6, "_locks/x/": 3, "D": 2, "D/annotations/A": 1, "a+b/": 1, "zz": 0, "_lo": 6} {
		n, heldNow := 0, 0
		for st, err := range l.List(t.Context(), prefix) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			if st.State == lockd.Held {
				heldNow++
			}
		}
		if n != want {
			t.Errorf("%q: %d leases, want %d", prefix, n, want)
		}
		if prefix == "" && heldNow != 4 {
			t.Errorf("%d held", heldNow)
		}
	}
}

func TestNamesThatAreNoneAreRefused(t *testing.T) {
	for n, ok := range map[string]bool{
		"_locks/a": true, "_locks/a/b": true, "_locks/acquire": true, "_locks/日本語 +%": true, "D/annotations/A/.temp/.lock": true,
		"": false, "_locks": false, "_locks/": false, "_locks/a/": false, "_locks//a": false, "_locks/../a": false, "_locks/.selftest/a": false,
		"_locks/a\nb": false, "_locks/a\\b": false, "_locks/\xff": false, "/_locks/a": false, "D/b/manifest.yaml": false, "D/annotations/A/b/.lock": false,
		"_D/annotations/A/.temp/.lock": false, "D/annotations/.A/.temp/.lock": false, "D/x/annotations/A/.temp/.lock": false, "D/annotations//.temp/.lock": false,
	} {
		if err := lockd.CheckName(n); (err == nil) != ok || err != nil && !errors.Is(err, lockd.ErrName) {
			t.Errorf("%q: %v", n, err)
		}
	}
}

func TestWhatCannotBeAskedForIsRefused(t *testing.T) {
	l := open(toTheSecond())
	for what, ask := range map[string]func() error{
		"no owner":      func() error { _, err := l.Acquire(t.Context(), name, "", time.Minute, 0, nil); return err },
		"no time":       func() error { _, err := l.Acquire(t.Context(), name, "a", 0, 0, nil); return err },
		"too long":      func() error { _, err := l.Acquire(t.Context(), name, "a", 1e6*time.Hour, 0, nil); return err },
		"a wait before": func() error { _, err := l.Acquire(t.Context(), name, "a", time.Minute, -1, nil); return err },
		"a name": func() error {
			_, err := l.Acquire(t.Context(), "D/b/manifest.yaml", "a", time.Minute, 0, nil)
			return err
		},
		"meta, a list": func() error {
			_, err := l.Acquire(t.Context(), name, "a", time.Minute, 0, json.RawMessage("[]"))
			return err
		},
		"meta, null": func() error {
			_, err := l.Acquire(t.Context(), name, "a", time.Minute, 0, json.RawMessage("null"))
			return err
		},
		"nobody by force": func() error { _, err := l.ForceRelease(t.Context(), name, ""); return err },
	} {
		if err := ask(); err == nil || errors.Is(err, lockd.ErrUnreachable) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Whoever asked for a lease and went away while the store was asked does not
// have it, and keeps nobody out.
func TestALeaseThatNobodyIsThereToHaveIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := toTheSecond()
		ctx, cancel := context.WithCancel(t.Context())
		f := objtest.NewFaulty(t, s, objtest.On(objtest.Put).Nth(1).Before(cancel))
		_, err := open(f).Acquire(ctx, name, "gone", time.Hour, 0, nil)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		take(t, open(s), "next", time.Minute)
	})
}
