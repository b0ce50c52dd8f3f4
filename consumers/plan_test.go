package consumers_test

import (
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/consumers"
)

func TestWhenAMergeIsDue(t *testing.T) {
	p := consumers.Policy{Quiet: 2 * time.Second, MaxAge: time.Minute, MinBytes: 64 << 20}
	for _, c := range []struct {
		name string
		t    consumers.Trigger
		want consumers.Decision
	}{
		{"a chunk that is gone or absorbed and deleted", consumers.Trigger{}, consumers.Never},
		{"a chunk", consumers.Trigger{Chunk: true, Unmerged: 100}, consumers.Later},
		{"one byte short of enough", consumers.Trigger{Chunk: true, Unmerged: 64<<20 - 1}, consumers.Later},
		{"enough bytes", consumers.Trigger{Chunk: true, Unmerged: 64 << 20}, consumers.Now},
		{"enough bytes, and a job was asked for", consumers.Trigger{Chunk: true, Unmerged: 65 << 20, Asked: true}, consumers.Later},
		{"a run that began", consumers.Trigger{Run: catalog.RunOpen}, consumers.Later},
		{"a run that is complete", consumers.Trigger{Run: catalog.RunCompleted}, consumers.Now},
		{"a run that failed", consumers.Trigger{Run: catalog.RunFailed}, consumers.Now},
		{"a run that ended while a job was asked for", consumers.Trigger{Run: catalog.RunCompleted, Asked: true}, consumers.Now},
		{"enough bytes for a little spread batch", consumers.Trigger{Chunk: true, Unmerged: 64 << 20, Spread: 60 << 20}, consumers.Now},
		{"an eighth of what is written again", consumers.Trigger{Chunk: true, Unmerged: 10 << 20, Spread: 80 << 20}, consumers.Now},
		{"not yet an eighth", consumers.Trigger{Chunk: true, Unmerged: 9 << 20, Spread: 80 << 20}, consumers.Later},
		{"enough for others, and not for a spread batch", consumers.Trigger{Chunk: true, Unmerged: 100 << 20, Spread: 100 << 30}, consumers.Later},
		{"a GiB is enough for any", consumers.Trigger{Chunk: true, Unmerged: 1 << 30, Spread: 100 << 30}, consumers.Now},
		{"a GiB, and a job was asked for", consumers.Trigger{Chunk: true, Unmerged: 1 << 30, Asked: true, Spread: 100 << 30}, consumers.Later},
		{"a run that ended in a spread batch of some size", consumers.Trigger{Run: catalog.RunCompleted, Unmerged: 100, Spread: 500 << 20}, consumers.Now},
		{"a small run that ended in a large one", consumers.Trigger{Run: catalog.RunCompleted, Unmerged: 100, Spread: 100 << 30}, consumers.Later},
		{"a large run that ended there", consumers.Trigger{Run: catalog.RunCompleted, Unmerged: 1 << 30, Asked: true, Spread: 100 << 30}, consumers.Now},
		{"a run that began there", consumers.Trigger{Run: catalog.RunOpen, Spread: 100 << 30}, consumers.Later},
	} {
		if got := consumers.Decide(c.t, p); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestHowLongAMergeWaitsForMore(t *testing.T) {
	p := consumers.Policy{Quiet: 2 * time.Second, MaxAge: time.Minute, MinBytes: 64 << 20}
	for _, c := range []struct {
		spread      int64
		quiet, most time.Duration
	}{
		{0, 2 * time.Second, time.Minute},
		{64<<20 - 1, 2 * time.Second, time.Minute},
		{64 << 20, 76 * time.Second, 76 * time.Second},
		{1 << 30, 316 * time.Second, 316 * time.Second},
		{1 << 50, 24 * time.Hour, 24 * time.Hour},
	} {
		if quiet, most := p.Waits(c.spread); quiet != c.quiet || most != c.most {
			t.Errorf("%d: %s and %s", c.spread, quiet, most)
		}
	}
}
