package merger_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

// peakHeap gives the most memory that was reachable at once while fn ran, over
// what was before.
func peakHeap(fn func()) uint64 {
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	base, peak := live(), uint64(0)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				peak = max(peak, live())
			}
		}
	})
	fn()
	close(done)
	wg.Wait()
	return peak - min(base, peak)
}

// Rows of every size in one merge: huge ones, one of very many columns, and
// tiny ones by the hundred thousand.
func TestMemoryIsBoundedWhateverTheRowsAre(t *testing.T) {
	if testing.Short() {
		t.Skip("large")
	}
	s := mem.New()
	putRun(t, s, theBatch, "aaaaaa", []string{"k"}, catalog.RunCompleted)
	huge := strings.Repeat("sixty mebibytes of text, ", 60<<20/25)
	var wide bytes.Buffer
	wide.WriteString(`{"id":"wide","k":"wide"`)
	for i := range 10_000 {
		fmt.Fprintf(&wide, `,"column %d":%d`, i, i)
	}
	wide.WriteByte('}')
	number := 0
	chunk := func(lines ...string) {
		putChunk(t, s, theBatch, "aaaaaa", number, lines...)
		number++
	}
	chunk(wide.String())
	for i := range 2 {
		chunk(fmt.Sprintf(`{"id":"huge%d","k":"h%d","t":"%s"}`, i, i, huge), fmt.Sprintf(`{"id":"i%d","k":"i%d"}`, i, i))
	}
	tiny := strings.Repeat("tiny ", 50)
	for c := range 200 {
		var lines []string
		for l := range 1000 {
			lines = append(lines, fmt.Sprintf(`{"id":"%03d%04d","k":"%d","t":"%s"}`, l%100, c*10+l/100, c*1000+l, tiny))
		}
		chunk(lines...)
	}
	huge = ""
	for _, concurrency := range []int{1, 8} {
		copied := mem.New()
		for _, k := range keys(t, s, "") {
			put(t, copied, k, get(t, s, k))
		}
		cfg := config(t, newClock())
		cfg.Concurrency, cfg.BlockRows, cfg.Memory = concurrency, 0, 0
		peak := peakHeap(func() {
			res := merge(t, engine(t, copied, cfg), theBatch)
			if res.Added != 200_005 || res.IDConflicts != 0 {
				t.Fatalf("%+v", res)
			}
		})
		t.Logf("concurrency %d: %d MiB", concurrency, peak>>20)
		if peak > 300<<20 {
			t.Errorf("concurrency %d: %d MiB", concurrency, peak>>20)
		}
	}
}
