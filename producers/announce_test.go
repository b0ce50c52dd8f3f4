package producers_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/producers"
)

// recorder is a bus that keeps the events, unless fail says otherwise.
type recorder struct {
	fail func(ctx context.Context) error

	mu     sync.Mutex
	tries  int
	events []dataset.Event
}

func (r *recorder) Publish(ctx context.Context, e dataset.Event) error {
	r.mu.Lock()
	r.tries++
	r.mu.Unlock()
	if r.fail != nil {
		if err := r.fail(ctx); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	return nil
}

func (r *recorder) types() []dataset.EventType {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []dataset.EventType
	for _, e := range r.events {
		out = append(out, e.Type)
	}
	return out
}

func TestEachStoredChunkAndTheEndOfTheRunAreAnnounced(t *testing.T) {
	s := mem.New()
	bus := &recorder{}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w, err := producers.Open(t.Context(), s, bus, quiet, "d", "b", producers.ChunkRows(2), producers.Clock(func() time.Time { return at }))
	if err != nil {
		t.Fatal(err)
	}
	write(t, w, fill(0, 3)...)
	closeWriter(t, w)

	var want []dataset.Event
	l, err := catalog.ListLive(t.Context(), s, batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range l.Chunks {
		e := dataset.NewEvent(dataset.RowsIngested, batch, at)
		rows := int64(2 - i)
		e.Key, e.ETag, e.Rows, e.Bytes = c.Key(), c.ETag, &rows, c.Size
		want = append(want, e)
	}
	end := dataset.NewEvent(dataset.RunCompleted, batch, at)
	rows := int64(3)
	end.Run, end.State, end.Rows, end.Chunks = w.Run(), catalog.RunCompleted, &rows, 2
	want = append(want, end)
	slices.SortStableFunc(bus.events, func(a, b dataset.Event) int { return strings.Compare(a.Key, b.Key) })
	slices.SortStableFunc(want, func(a, b dataset.Event) int { return strings.Compare(a.Key, b.Key) })
	if diff := cmp.Diff(want, bus.events); diff != "" {
		t.Fatal(diff)
	}
}

func TestNoWriteFailsWhereNothingCanBeAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		// A server that is down: nothing comes back until the caller gives up.
		bus := &recorder{fail: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		var log bytes.Buffer
		w, err := producers.Open(t.Context(), s, bus, slog.New(slog.NewTextHandler(&log, nil)), "d", "b", producers.ChunkRows(1))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		write(t, w, fill(0, 500)...)
		if res := closeWriter(t, w); res.Rows != 500 {
			t.Fatalf("%+v", res)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "could not be announced") {
			t.Fatalf("%d warnings:\n%s", n, log.String())
		}
		if bus.tries > producers.InFlight+1 {
			t.Errorf("the dead server was asked %d times", bus.tries)
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("the dead server cost %s", took)
		}
	})
}

func TestAnnouncingStartsAgainWhenTheServerIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		bus := &recorder{fail: func(context.Context) error {
			if down {
				return errors.New("no servers")
			}
			return nil
		}}
		w, err := producers.Open(t.Context(), mem.New(), bus, quiet, "d", "b", producers.ChunkRows(1))
		if err != nil {
			t.Fatal(err)
		}
		write(t, w, fill(0, 1)...)
		synctest.Wait()
		down = false
		time.Sleep(time.Minute)
		write(t, w, fill(1, 2)...)
		closeWriter(t, w)
		if diff := cmp.Diff([]dataset.EventType{dataset.RowsIngested, dataset.RunCompleted}, bus.types()); diff != "" {
			t.Fatal(diff)
		}
	})
}
