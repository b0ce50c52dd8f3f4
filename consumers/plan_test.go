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
	} {
		if got := consumers.Decide(c.t, p); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
