package bus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/siltstone-data/siltstone/nats/bus"
)

func tailed(t testing.TB, b *bus.Bus, from bus.TailFrom) (keys []string, last bus.Position, err error) {
	t.Helper()
	for e, err := range b.Tail(t.Context(), from, false) {
		if err != nil {
			return keys, last, err
		}
		keys, last = append(keys, e.Event.Key), e.Position
	}
	return keys, last, nil
}

func TestATailResumesBehindItsPosition(t *testing.T) {
	h := serve(t)
	b := h.join()
	if keys, _, err := tailed(t, b, bus.TailFrom{Since: time.Unix(0, 1)}); err != nil || keys != nil {
		t.Fatal(keys, err)
	}
	start, err := b.Position(t.Context())
	if err != nil || start.Seq != 0 {
		t.Fatal(start, err)
	}
	publish(t, b, ingested("1"), ingested("2"))
	between := time.Now()
	publish(t, b, ingested("3"), ingested("4"))
	keys, last, err := tailed(t, b, bus.TailFrom{Since: time.Unix(0, 1)})
	if err != nil || fmt.Sprint(keys) != "[1 2 3 4]" || last.Seq != 4 {
		t.Fatal(keys, last, err)
	}
	parsed, err := bus.ParsePosition(last.String())
	if err != nil || parsed != last {
		t.Fatal(parsed, err)
	}
	for _, c := range []struct {
		from bus.TailFrom
		want string
	}{
		{bus.TailFrom{After: start}, "[1 2 3 4]"},
		{bus.TailFrom{After: bus.Position{Epoch: last.Epoch, Seq: 2}}, "[3 4]"},
		{bus.TailFrom{After: last}, "[]"},
		{bus.TailFrom{Since: between}, "[3 4]"},
		{bus.TailFrom{Since: time.Now().Add(time.Hour)}, "[]"},
		{bus.TailFrom{}, "[]"},
	} {
		if keys, _, err := tailed(t, b, c.from); err != nil || fmt.Sprint(keys) != c.want {
			t.Errorf("%+v gives %v, %v, want %s", c.from, keys, err, c.want)
		}
	}
	for _, p := range []bus.Position{{Epoch: last.Epoch + 1, Seq: 2}, {Epoch: last.Epoch, Seq: 5}} {
		if _, _, err := tailed(t, b, bus.TailFrom{After: p}); !errors.Is(err, bus.ErrReset) {
			t.Errorf("%s gives %v", p, err)
		}
	}
}

func TestAPositionThatTheLimitsDroppedIsAReset(t *testing.T) {
	h := serve(t)
	b := h.join()
	for i := range 5 {
		publish(t, b, ingested(fmt.Sprint(i)))
	}
	s, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Events))
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	c.MaxMsgs = 2
	if _, err := b.JetStream().UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	p, err := b.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := tailed(t, b, bus.TailFrom{After: bus.Position{Epoch: p.Epoch, Seq: 2}}); !errors.Is(err, bus.ErrReset) {
		t.Fatalf("got %v", err)
	}
	if keys, _, err := tailed(t, b, bus.TailFrom{After: bus.Position{Epoch: p.Epoch, Seq: 3}}); err != nil || len(keys) != 2 {
		t.Fatal(keys, err)
	}
}

func TestAFollowingTailGoesOnAfterARestartAndResetsInANewEpoch(t *testing.T) {
	h := serve(t)
	b := h.join()
	var got list[string]
	end := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begin, err := b.Position(ctx)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for e, err := range b.Tail(ctx, bus.TailFrom{After: begin}, true) {
			if err != nil {
				end <- err
				return
			}
			got.add(e.Event.Key)
		}
		end <- nil
	}()
	publish(t, b, ingested("1"))
	eventually(t, "one", func() bool { return got.len() == 1 })
	h.down()
	h.up()
	publish(t, b, ingested("2"))
	eventually(t, "two", func() bool { return got.len() == 2 })
	js, name := b.JetStream(), b.StreamName(bus.Events)
	var c jetstream.StreamConfig
	if s, err := js.Stream(ctx, name); err != nil {
		t.Fatal(err)
	} else {
		c = s.CachedInfo().Config
	}
	if err := js.DeleteStream(ctx, name); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(ctx, c); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-end:
		if !errors.Is(err, bus.ErrReset) {
			t.Fatalf("got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the tail waits for ever in a stream made anew")
	}
}

func TestATailEndsQuietlyWithItsContext(t *testing.T) {
	h := serve(t)
	b := h.join()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		var last error
		for _, err := range b.Tail(ctx, bus.TailFrom{}, true) {
			last = err
		}
		done <- last
	}()
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
