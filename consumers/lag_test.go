package consumers_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siltstone-data/siltstone/consumers"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

// A writer announces a chunk with its number of rows a moment after the store
// notified of it without; the lag lets the writer be first.
func TestNotificationsWaitForAMomentTogether(t *testing.T) {
	for name, c := range map[string]struct {
		skew time.Duration // of the store's clock
		age  time.Duration // of the first notification
		want time.Duration // until the last of the burst is an event
	}{
		"clocks agree":               {0, 0, time.Second + 99*time.Millisecond},
		"half a second old":          {0, 500 * time.Millisecond, 599 * time.Millisecond},
		"a backlog":                  {0, time.Minute, 0},
		"the store's clock is ahead": {time.Hour, 0, time.Second + 99*time.Millisecond},
		"the store's clock is late":  {-time.Hour, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &told{}
				n, err := consumers.NewNormalizer(nil, r, r, mem.New(), consumers.NormalizerConfig{Bucket: "lake"}, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				for i := range 100 {
					at := began.Add(c.skew - c.age + time.Duration(i)*time.Millisecond)
					payload := note(record("ObjectCreated:Put", "lake", own.ChunkKey("a1b2c3", i), "e"))
					payload = strings.Replace(payload, "2026-11-30T12:00:00.5Z", at.UTC().Format(time.RFC3339Nano), 1)
					if err := n.Handle(t.Context(), []byte(payload)); err != nil {
						t.Fatal(err)
					}
				}
				if took := time.Since(began); took != c.want {
					t.Errorf("a burst of 100 took %s, want %s", took, c.want)
				}
			})
		})
	}
}

func TestAWaitingNormalizerStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &told{}
		n, err := consumers.NewNormalizer(nil, r, r, mem.New(), consumers.NormalizerConfig{Bucket: "lake", Lag: time.Hour}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		payload := strings.Replace(note(record("ObjectCreated:Put", "lake", own.ChunkKey("a1b2c3", 0), "e")),
			"2026-11-30T12:00:00.5Z", time.Now().UTC().Format(time.RFC3339Nano), 1)
		if err := n.Handle(ctx, []byte(payload)); err == nil || len(r.take()) != 0 {
			t.Error("it did not stop")
		}
	})
}
