package lockd_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siltstone-data/siltstone/lockd"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

func TestALostAnswerIsNoLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, rule := range []func(n int) *objtest.Rule{
			func(n int) *objtest.Rule { return objtest.On(objtest.Put).Nth(n).LoseAnswer() },
			func(n int) *objtest.Rule { return objtest.On(objtest.Put).Nth(n).Late(2) },
			func(n int) *objtest.Rule { return objtest.On(objtest.Put).Nth(n).Fail(objstore.ErrUnknown) },
			func(n int) *objtest.Rule { return objtest.On(objtest.Get).Nth(n).Fail(errors.New("no answer")) },
		} {
			for n := 1; n <= 3; n++ { // of acquire, renew and release; a get at each acquire
				s := toTheSecond()
				l := open(objtest.NewFaulty(t, s, rule(n)))
				for range 3 {
					a := take(t, l, "a", time.Minute)
					if err := a.Renew(t.Context(), time.Minute); err != nil {
						t.Errorf("%s: %v", rule(n), err)
					}
					if _, err := open(s).Acquire(t.Context(), name, "b", time.Minute, 0, nil); !errors.Is(err, lockd.ErrHeld) {
						t.Errorf("%s: %v", rule(n), err)
					}
					if err := a.Release(t.Context()); err != nil {
						t.Errorf("%s: %v", rule(n), err)
					}
				}
				if st, err := open(s).Show(t.Context(), name); err != nil || st.State != lockd.Free {
					t.Errorf("%s: %+v, %v", rule(n), st, err)
				}
			}
		}
	})
}

// A put whose answer was lost and that never came to pass must not be taken for
// done because another got there first.
func TestAnAnswerThatIsLostInARaceIsSettledByReadingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := toTheSecond()
		var winner *lockd.Lease
		f := objtest.NewFaulty(t, s,
			objtest.On(objtest.Put).Nth(1).Fail(objstore.ErrUnknown),
			objtest.On(objtest.Get).Nth(2).Before(func() { winner = take(t, open(s), "winner", time.Minute) }))
		_, err := open(f).Acquire(t.Context(), name, "loser", time.Minute, 0, nil)
		is(t, "the loser", err, lockd.ErrHeld)
		if err := winner.Renew(t.Context(), time.Minute); err != nil {
			t.Error(err)
		}
	})
}

// A renewal that was given up may come to pass after all. The lease is still the
// holder's then, under an ETag that it does not know.
func TestARenewalThatCameLateIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := toTheSecond()
		f := objtest.NewFaulty(t, s, objtest.On(objtest.Put).Nth(2).Times(6).Late(1000))
		a := take(t, open(f), "a", 10*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := a.Renew(ctx, 10*time.Second); err == nil {
			t.Error("a renewal without an answer succeeded")
		}
		came := 0
		for _, err := range f.Flush() {
			if err == nil {
				came++
			}
		}
		if came != 1 {
			t.Errorf("%d of its attempts came to pass", came)
		}
		if a.Remaining() != 7*time.Second {
			t.Errorf("%s remain of what may not have come to pass", a.Remaining())
		}
		if err := a.Renew(t.Context(), 10*time.Second); err != nil {
			t.Error(err)
		}
		if err := a.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// silent is a store that gives no answer from some moment on: requests hang
// until whoever sent them gives up.
type silent struct {
	objstore.Store
	down *bool
}

func (s silent) Put(ctx context.Context, key string, body []byte, c objstore.Condition) (objstore.Info, error) {
	if *s.down {
		<-ctx.Done()
		return objstore.Info{}, errors.Join(objstore.ErrUnknown, ctx.Err())
	}
	return s.Store.Put(ctx, key, body, c)
}

// B074: a store that is silent for longer than the lease is told from a lease
// that is lost, and soon enough to stop in time.
func TestAFailedRenewalTellsLostFromUnreachableBeforeTheEnd(t *testing.T) {
	for what, fail := range map[string]func(s objstore.Store, down *bool) objstore.Store{
		"silent": func(s objstore.Store, down *bool) objstore.Store { return silent{s, down} },
		"refusing": func(s objstore.Store, down *bool) objstore.Store {
			return broken{Store: s, put: func(c objstore.Condition) (objstore.Condition, error) {
				if *down {
					return c, errors.New("connection refused")
				}
				return c, nil
			}}
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, down := toTheSecond(), false
				a := take(t, open(fail(s, &down)), "a", time.Minute)
				ctx, work := context.WithCancelCause(t.Context())
				time.Sleep(30 * time.Second)
				down = true
				go func() { // as every holder does
					for {
						err := a.Renew(t.Context(), time.Minute)
						if errors.Is(err, lockd.ErrLost) || a.Remaining() < 5*time.Second {
							work(err)
							return
						}
						time.Sleep(time.Second)
					}
				}()
				<-ctx.Done()
				is(t, "the cause", context.Cause(ctx), lockd.ErrUnreachable)
				if a.Remaining() == 0 {
					t.Error("work is stopped when the lease has ended already")
				}
				if _, err := open(s).Acquire(t.Context(), name, "b", time.Minute, 0, nil); !errors.Is(err, lockd.ErrHeld) {
					t.Errorf("before the end: %v", err)
				}
				time.Sleep(35 * time.Second) // down for TTL + 5 s
				b := take(t, open(s), "b", time.Minute)
				down = false
				err := a.Renew(t.Context(), time.Minute)
				is(t, "when the store is back", err, lockd.ErrLost)
				var lost *lockd.LostError
				if !errors.As(err, &lost) || lost.Token != a.Token() {
					t.Errorf("%+v", lost)
				}
				if b.Remaining() != time.Minute {
					t.Error("the new holder lost something")
				}
			})
		})
	}
}

func TestACallerWhoLeavesIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, down := toTheSecond(), false
		a := take(t, open(silent{s, &down}), "a", time.Hour)
		down = true
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := a.Renew(ctx, time.Hour); !errors.Is(err, context.Canceled) || errors.Is(err, lockd.ErrLost) {
			t.Errorf("got %v", err)
		}
	})
}

// B069: a holder that stood still for twice its time goes on, and nothing that
// it asks for comes to pass.
func TestAHolderThatStoodStillChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := toTheSecond()
		a := take(t, open(s), "a", 30*time.Second)
		// It is stopped when its renewal is ready to be sent, and goes on after
		// another has taken the lease.
		stopped := objtest.NewFaulty(t, s, objtest.On(objtest.Put).Nth(2).Before(func() { time.Sleep(time.Minute) }))
		l := open(stopped)
		if err := a.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		a = take(t, l, "a", 30*time.Second)
		done := make(chan error)
		go func() { done <- a.Renew(context.WithoutCancel(t.Context()), 30*time.Second) }()
		time.Sleep(45 * time.Second)
		b := take(t, open(s), "b", 30*time.Second)
		before, err := open(s).Show(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-done; err == nil {
			t.Error("a stale holder renewed")
		}
		is(t, "the stale holder's next renewal", a.Renew(t.Context(), 30*time.Second), lockd.ErrLost)
		is(t, "the stale holder's release", a.Release(t.Context()), lockd.ErrLost)
		after, err := open(s).Show(t.Context(), name)
		if err != nil || after.Token != b.Token() || !after.RenewedAt.Equal(before.RenewedAt) || b.Token() <= a.Token() {
			t.Errorf("%+v, %v; before %+v", after, err, before)
		}
	})
}

// unguarded is a store that finds out whether anything is written without a
// condition, or deleted.
type unguarded struct {
	objstore.Store
	t *testing.T
}

func (u unguarded) Put(ctx context.Context, key string, body []byte, c objstore.Condition) (objstore.Info, error) {
	if c == (objstore.Condition{}) {
		u.t.Error("a put without a condition")
	}
	return u.Store.Put(ctx, key, body, c)
}

func (u unguarded) Delete(context.Context, string) error {
	u.t.Error("a lease is deleted")
	return errors.New("denied")
}

// B071: two writers cannot overwrite each other, and nothing that a stale one
// could still hold on to is removed.
func TestNothingIsWrittenWithoutAConditionAndNothingDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(unguarded{toTheSecond(), t})
		for range 3 {
			a := take(t, l, "a", time.Minute)
			if err := a.Renew(t.Context(), time.Minute); err != nil {
				t.Fatal(err)
			}
			if err := a.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			take(t, l, "b", time.Minute)
			if _, err := l.ForceRelease(t.Context(), name, "admin"); err != nil {
				t.Fatal(err)
			}
			take(t, l, "c", time.Second)
			time.Sleep(time.Minute)
		}
	})
}

func TestAStoreThatTellsNoTimeKeepsNoLease(t *testing.T) {
	l := open(timeless{mem.New()})
	take(t, l, "a", time.Minute)
	_, err := l.Acquire(t.Context(), name, "b", time.Minute, 0, nil)
	if !errors.Is(err, lockd.ErrNoClock) {
		t.Errorf("got %v", err)
	}
}
