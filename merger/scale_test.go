package merger_test

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

var update = flag.Bool("update", false, "rewrite golden files")

// The record and the blocks of one batch, byte for byte: a change here is a
// change of what lies in every bucket.
func TestTheFilesOfAMergeAreTheGoldenOnes(t *testing.T) {
	s := busy(t, newClock(), []string{"k"})
	merge(t, engine(t, s, config(t, newClock())), theBatch)
	var out strings.Builder
	for _, k := range keys(t, s, "") {
		body := get(t, s, k)
		if strings.HasSuffix(k, ".gz") || strings.HasSuffix(k, ".bin") {
			body = fmt.Sprintf("%d bytes, sha256 %x\n", len(body), sha256.Sum256([]byte(body)))
		}
		fmt.Fprintf(&out, "== %s\n%s", k, body)
	}
	golden := filepath.Join("testdata", "busy.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Fatal(diff)
	}
}

func TestOrderOfArrivalAndConcurrencyDoNotChangeTheBlocks(t *testing.T) {
	var want []string
	for i, concurrency := range []int{1, 2, 32} {
		s := mem.New(mem.Config{Page: 7})
		rng := rand.New(rand.NewPCG(5, 5))
		putRun(t, s, theBatch, "aaaaaa", []string{"k"}, catalog.RunCompleted)
		for c := range 300 {
			var lines []string
			for range 1 + rng.IntN(5) {
				lines = append(lines, row(fmt.Sprintf("%04d", rng.IntN(900)), fmt.Sprint(rng.IntN(600)), rng.IntN(50)))
			}
			if c%50 == 0 {
				lines = append(lines, "rubbish", row("big"+fmt.Sprint(c), strings.Repeat("x", 3<<20), 1))
			}
			putChunk(t, s, theBatch, dataset.Run(fmt.Sprintf("%06x", 0xaaaaaa+c%3)), c, lines...)
		}
		cfg := config(t, newClock())
		cfg.Concurrency = concurrency
		cfg.BlockRows = 50
		cfg.BlockBytes = 4 << 20
		cfg.Memory = 2 << 20
		var progress atomic.Int64
		cfg.Progress = func(p merger.Progress) { progress.Add(1) }
		res := merge(t, engine(t, s, cfg), theBatch)
		if res.Chunks != 300 || res.Rejected != 6 || progress.Load() < 300 {
			t.Fatalf("%+v, %d", res, progress.Load())
		}
		got := merged(t, s, theBatch)
		if i == 0 {
			want = got
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("concurrency %d:\n%s", concurrency, diff)
		}
		for _, b := range record(t, s, theBatch).Blocks {
			if b.Rows > 50 || b.RawBytes > 4<<20 && b.Rows > 1 {
				t.Errorf("%+v", b)
			}
		}
		healthy(t, s, theBatch)
		if left, err := os.ReadDir(cfg.WorkDir); err != nil || len(left) > 0 {
			t.Errorf("left in the working folder: %v, %v", left, err)
		}
	}
}

func TestAFailedMergeLeavesNoFiles(t *testing.T) {
	for _, key := range []string{"*merged_*", "*_digests/*", "*_rejected/*", "*_chunk_*", "*manifest.yaml"} {
		for _, concurrency := range []int{1, 8} {
			s := busy(t, newClock(), []string{"k"})
			f := objtest.NewFaulty(t, s, objtest.On(objtest.Get, objtest.Upload).Key(key).Fail(errCrash))
			cfg := config(t, newClock())
			cfg.Concurrency = concurrency
			cfg.Memory = 1
			if _, err := engine(t, f, cfg).Merge(t.Context(), theBatch); !errors.Is(err, errCrash) {
				t.Errorf("%s: %v", key, err)
			}
			if left, err := os.ReadDir(cfg.WorkDir); err != nil || len(left) > 0 {
				t.Errorf("%s: left in the working folder: %v, %v", key, left, err)
			}
		}
	}
}

func TestAChunkThatCannotBeDeletedIsNoError(t *testing.T) {
	for _, concurrency := range []int{1, 8} {
		s := mem.New()
		key := putChunk(t, s, theBatch, "aaaaaa", 0, a)
		f := objtest.NewFaulty(t, s, objtest.On(objtest.Delete).Fail(errCrash))
		cfg := config(t, newClock())
		cfg.Concurrency = concurrency
		if res := merge(t, engine(t, f, cfg), theBatch); !res.Committed || !exists(t, s, key) {
			t.Errorf("%+v", res)
		}
		settled(t, s, a)
	}
}

func TestAStoreWithoutConditionalCreatesIsNamed(t *testing.T) {
	s := mem.New()
	putChunk(t, s, theBatch, "aaaaaa", 0, a)
	f := objtest.NewFaulty(t, s, objtest.On(objtest.Upload).Fail(objstore.ErrLost))
	_, err := engine(t, f, config(t, newClock())).Merge(t.Context(), theBatch)
	if err == nil || !strings.Contains(err.Error(), "If-None-Match") {
		t.Fatal(err)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for name, cfg := range map[string]merger.Config{
		"Memory": {Memory: -1}, "Level": {Level: 10}, "Concurrency": {Concurrency: -1}, "BlockRows": {BlockRows: 50_001},
		"BlockBytes": {BlockBytes: -1}, "Grace": {Grace: -time.Second},
	} {
		if _, err := merger.New(mem.New(), nil, cfg, nil, nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e, err := merger.New(mem.New(), nil, merger.Config{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Merge(t.Context(), dataset.BatchID{Dataset: "_", Batch: "b"}); !errors.Is(err, dataset.ErrName) {
		t.Error(err)
	}
}

// 100 MB in 400 chunks of rows of 1 KB, whose ids are in no order.
func BenchmarkMerge(b *testing.B) {
	for _, columns := range [][]string{nil, {"text"}} {
		b.Run(fmt.Sprint("dedup ", columns), func(b *testing.B) {
			words := strings.Fields("the quick brown fox jumps over a lazy dog while many other animals look on from afar and wonder")
			rng := rand.New(rand.NewPCG(1, 1))
			bodies := make([]string, 400)
			total := int64(0)
			for i := range bodies {
				var body strings.Builder
				for l := range 250 {
					fmt.Fprintf(&body, `{"id":"%016x","_created_at":"2026-01-01T00:%02d:%02d.000000Z","n":%d,"text":"`, rng.Uint64(), i/60%60, i%60, l)
					for range 160 {
						body.WriteString(words[rng.IntN(len(words))])
						body.WriteByte(' ')
					}
					body.WriteString("\"}\n")
				}
				bodies[i] = body.String()
				total += int64(body.Len())
			}
			b.SetBytes(total)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				s := mem.New()
				putRun(b, s, theBatch, "aaaaaa", columns, catalog.RunCompleted)
				for i, body := range bodies {
					put(b, s, theBatch.ChunkKey("aaaaaa", i), body)
				}
				e := engine(b, s, merger.Config{WorkDir: b.TempDir(), Memory: 64 << 20})
				b.StartTimer()
				if res := merge(b, e, theBatch); res.Added != 100_000 {
					b.Fatalf("%+v", res)
				}
			}
		})
	}
}
