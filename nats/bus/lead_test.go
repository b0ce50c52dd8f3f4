package bus_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/nats/bus"
)

func TestLeadershipIsHandedOver(t *testing.T) {
	h := serve(t)
	var now, most atomic.Int32
	var terms list[int]
	lead := func(n int, b *bus.Bus) (stop func()) {
		return background(t, func(ctx context.Context) error {
			return b.Lead(ctx, "the reconciler", func(ctx context.Context) error {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				terms.add(n)
				<-ctx.Done()
				return ctx.Err()
			})
		})
	}
	one, two := h.join(named("one")), h.join(named("two"))
	stop := lead(1, one)
	eventually(t, "one leads", func() bool { return terms.len() == 1 })
	lead(2, two)
	timer := time.NewTimer(1500 * time.Millisecond) // more than a whole life
	<-timer.C
	if terms.len() != 1 {
		t.Fatalf("terms %v while one leads", terms.all())
	}
	start := time.Now()
	stop()
	eventually(t, "two leads", func() bool { return terms.len() == 2 })
	if d := time.Since(start); d > 400*time.Millisecond {
		t.Errorf("resigning took %s to be heard of", d)
	}
	lead(3, one)
	two.Kill() // two is cut off: it steps down by itself, and three comes
	eventually(t, "three leads", func() bool { return terms.len() == 3 && now.Load() == 1 })
	if most.Load() != 1 {
		t.Fatalf("%d led at once", most.Load())
	}
}

func TestALeaderWhoseSeatIsTakenStepsDown(t *testing.T) {
	h := serve(t)
	b := h.join()
	cause := make(chan error, 10)
	background(t, func(ctx context.Context) error {
		return b.Lead(ctx, "sweeper", func(ctx context.Context) error {
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return ctx.Err()
		})
	})
	kv := b.KV(bus.Lead)
	eventually(t, "somebody leads", func() bool { return len(listed(t, kv, ">")) == 1 })
	put(t, kv, "sweeper", `{"worker":"usurper"}`)
	if err := <-cause; !errors.Is(err, bus.ErrLeadLost) {
		t.Fatalf("got %v", err)
	}
	eventually(t, "it leads again when the usurper is silent", func() bool {
		e, err := kv.Get(t.Context(), "sweeper")
		return err == nil && string(e.Value) != `{"worker":"usurper"}`
	})
}

func TestLeadingSurvivesAShortOutage(t *testing.T) {
	h := serve(t)
	b := h.join(func(c *bus.Config) { c.Timing.LeadTTL = 4 * time.Second })
	var terms atomic.Int32
	background(t, func(ctx context.Context) error {
		return b.Lead(ctx, "t", func(ctx context.Context) error {
			terms.Add(1)
			<-ctx.Done()
			return nil
		})
	})
	eventually(t, "leading", func() bool { return terms.Load() == 1 })
	h.down()
	h.up()
	eventually(t, "reconnect", b.Connected)
	e, err := b.KV(bus.Lead).Get(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a renewal", func() bool {
		again, err := b.KV(bus.Lead).Get(t.Context(), "t")
		return err == nil && again.Revision > e.Revision && string(again.Value) == string(e.Value)
	})
	if terms.Load() != 1 {
		t.Fatalf("%d terms", terms.Load())
	}
}

func TestTheErrorOfALeaderIsReturnedAndItsSeatFreed(t *testing.T) {
	h := serve(t)
	b := h.join()
	mine := errors.New("mine")
	if err := b.Lead(t.Context(), "t", func(context.Context) error { return mine }); !errors.Is(err, mine) {
		t.Fatalf("got %v", err)
	}
	if n := len(listed(t, b.KV(bus.Lead), ">")); n != 0 {
		t.Fatal("the seat is still taken")
	}
	if err := b.Lead(t.Context(), "t", func(context.Context) error { panic("oops") }); err == nil {
		t.Fatal("a panic is no error")
	}
}
