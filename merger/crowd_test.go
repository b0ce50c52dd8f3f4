package merger_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

// Chunks of 300 bytes by the hundred thousand: one merge, and what they take of
// memory and of the commit record does not grow with their rows.
func TestAHundredThousandSmallChunksAreOneMergeOfLittleMemory(t *testing.T) {
	chunks := 100_000
	if testing.Short() {
		chunks = 5_000
	}
	for _, columns := range [][]string{nil, {"text"}} {
		s := mem.New(mem.Config{Page: 1000})
		putRun(t, s, theBatch, "aaaaaa", columns, catalog.RunCompleted)
		g := generated{Store: s, chunks: chunks, rows: 3, bytes: 40}
		var heap atomic.Uint64
		var calls atomic.Int64
		sample := func() {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			heap.Store(max(heap.Load(), m.HeapInuse))
		}
		runtime.GC()
		sample()
		before := heap.Load()
		cfg := merger.Config{WorkDir: t.TempDir(), Memory: 16 << 20, Progress: func(merger.Progress) {
			if calls.Add(1)%1000 == 0 {
				sample()
			}
		}}
		res := merge(t, engine(t, g, cfg), theBatch)
		if res.Chunks != chunks || res.Added != int64(3*chunks) || res.Attempts != 1 {
			t.Fatalf("%+v", res)
		}
		sample()
		if size := len(get(t, s, theBatch.CommitKey())); size > 10_000 {
			t.Errorf("the commit record has %d bytes", size)
		}
		grown := (heap.Load() - before) >> 20
		if grown > 160 {
			t.Errorf("the heap has grown by %d MiB", grown)
		}
		t.Logf("deduplicated on %v: %d chunks, the heap grew by %d MiB, %s", columns, chunks, grown, res.Took)
	}
}
