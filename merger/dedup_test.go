package merger_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

func TestDuplicatesAreDroppedAndTheOldestStays(t *testing.T) {
	s := mem.New()
	e := engine(t, s, config(t, newClock()))
	putRun(t, s, theBatch, "aaaaaa", []string{"k"}, catalog.RunOpen)
	putChunk(t, s, theBatch, "aaaaaa", 0, row("a", "x", 9), row("b", "x", 2), row("c", "y", 0), row("d", "y", 5), `{"id":"e","k":1.0}`, `{"id":"f","k":10e-1}`, `{"id":"g"}`, `{"id":"h","k":null}`)
	res := merge(t, e, theBatch)
	if res.Added != 4 || res.Duplicates != 4 {
		t.Fatalf("%+v", res)
	}
	want := []string{row("b", "x", 2), row("d", "y", 5), `{"id":"e","k":1.0}`, `{"id":"g"}`}
	if diff := cmp.Diff(want, merged(t, s, theBatch)); diff != "" {
		t.Fatal(diff)
	}
	putChunk(t, s, theBatch, "aaaaaa", 1, row("0", "x", 1), row("z", "new", 1), row("b", "newer", 1), row("b", "z", 4))
	res = merge(t, e, theBatch)
	if res.Added != 1 || res.Duplicates != 1 || res.IDConflicts != 2 {
		t.Fatalf("%+v", res)
	}
	r := record(t, s, theBatch)
	if len(r.Digests) != 2 || r.Digests[0].Rows != 4 || r.Digests[1].Rows != 1 || !slices.Equal(r.Digests[1].Columns, []string{"k"}) {
		t.Fatalf("%+v", r.Digests)
	}
	healthy(t, s, theBatch)
	putChunk(t, s, theBatch, "aaaaaa", 2, row("q", "x", 1))
	if res = merge(t, e, theBatch); res.Duplicates != 1 || res.Written != 0 {
		t.Fatalf("%+v", res)
	}
	if diff := cmp.Diff(r.Digests, record(t, s, theBatch).Digests); diff != "" {
		t.Fatalf("digests without a change:\n%s", diff)
	}
	healthy(t, s, theBatch)
}

func TestAListThatAppearsDecidesTheBlocksAgain(t *testing.T) {
	s := mem.New()
	e := engine(t, s, config(t, newClock()))
	var lines []string
	for i := range 30 {
		lines = append(lines, row(fmt.Sprintf("%02d", i), fmt.Sprint(i%10), 100-i))
	}
	putChunk(t, s, theBatch, "aaaaaa", 0, lines...)
	merge(t, e, theBatch)
	putRun(t, s, theBatch, "aaaaaa", []string{"k", "j"}, catalog.RunOpen) // late, and no new chunk
	res := merge(t, e, theBatch)
	if !res.Committed || !res.FullPass || res.Duplicates != 20 || res.Rows != 10 {
		t.Fatalf("%+v", res)
	}
	if diff := cmp.Diff(lines[20:], merged(t, s, theBatch)); diff != "" { // the oldest
		t.Fatal(diff)
	}
	if again := merge(t, e, theBatch); again.Committed {
		t.Fatalf("%+v", again)
	}
	healthy(t, s, theBatch)

	putRun(t, s, theBatch, "bbbbbb", []string{"j", "x"}, catalog.RunOpen) // only j in common: null for all
	res = merge(t, e, theBatch)
	if !res.FullPass || res.Rows != 1 || record(t, s, theBatch).DeduplicateOn[0] != "j" {
		t.Fatalf("%+v", res)
	}
	healthy(t, s, theBatch)
	putRun(t, s, theBatch, "cccccc", []string{}, catalog.RunCompleted)
	res = merge(t, e, theBatch)
	r := record(t, s, theBatch)
	if !res.Committed || res.FullPass || r.DeduplicateOn == nil || len(r.DeduplicateOn) > 0 || len(r.Digests) > 0 || r.Rows != 1 {
		t.Fatalf("%+v\n%+v", res, r)
	}
	putChunk(t, s, theBatch, "cccccc", 0, row("y", "1", 1), row("z", "1", 1))
	if res = merge(t, e, theBatch); res.Added != 2 {
		t.Fatalf("rows after the end of deduplication: %+v", res)
	}
	healthy(t, s, theBatch)
}

// Some batches in many merges, against the rule with tables.
func TestManyMergesGiveWhatTheRuleGives(t *testing.T) {
	n := uint64(400)
	if testing.Short() {
		n = 60
	}
	for seed := range n {
		rng := rand.New(rand.NewPCG(seed, 3))
		s := mem.New()
		cfg := config(t, newClock())
		cfg.BlockRows = 1 + rng.Int64N(5)
		if seed%100 == 0 {
			cfg.Memory = 1 // every record spills
		}
		if seed%3 == 0 {
			cfg.Concurrency = 4
		}
		e := engine(t, s, cfg)
		dedup := rng.IntN(3) > 0
		started := false
		var state []modelRow
		ids, ks := 1+rng.IntN(30), 1+rng.IntN(12)
		for m := range 1 + rng.IntN(4) {
			if dedup && !started && rng.IntN(2) == 0 {
				putRun(t, s, theBatch, "aaaaaa", []string{"k"}, catalog.RunOpen)
				started = true
				slices.SortFunc(state, func(a, b modelRow) int {
					return compareRows(a, b)
				})
				state = model(nil, state, true)
			}
			var news []modelRow
			for c := range 1 + rng.IntN(3) {
				var lines []string
				run := dataset.Run("aaaaaa")
				if rng.IntN(4) == 0 {
					run = "bbbbbb" // without a manifest
				}
				number := 3*m + c
				key := theBatch.ChunkKey(run, number)
				for l := range rng.IntN(8) {
					r := modelRow{id: fmt.Sprintf("%02d", rng.IntN(ids)), key: fmt.Sprint(rng.IntN(ks)), created: rng.IntN(6), chunk: key, line: l + 1}
					r.raw = row(r.id, r.key, r.created)
					news = append(news, r)
					lines = append(lines, r.raw)
				}
				putChunk(t, s, theBatch, run, number, lines...)
			}
			state = model(state, news, started)
			if _, err := e.Merge(context.Background(), theBatch); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if diff := cmp.Diff(byID(state), merged(t, s, theBatch)); diff != "" {
				t.Fatalf("seed %d, merge %d (rule first):\n%s", seed, m, diff)
			}
			if healthy(t, s, theBatch); t.Failed() {
				t.Fatalf("seed %d, merge %d", seed, m)
			}
			for _, b := range record(t, s, theBatch).Blocks {
				if b.Rows > cfg.BlockRows {
					t.Fatalf("seed %d: a block of %d rows", seed, b.Rows)
				}
			}
		}
	}
}

func compareRows(a, b modelRow) int {
	if c := compareCreated(a.created, b.created); c != 0 {
		return c
	}
	return strings.Compare(a.id, b.id)
}

func TestBlocksThatComeOutAsTheyWereAreNotStoredAgain(t *testing.T) {
	s := mem.New()
	e := engine(t, s, config(t, newClock()))
	var lines []string
	for i := range 40 {
		lines = append(lines, row(fmt.Sprintf("%02d", i), "x", i))
	}
	putChunk(t, s, theBatch, "aaaaaa", 0, lines...)
	merge(t, e, theBatch)
	before := record(t, s, theBatch).Blocks
	putChunk(t, s, theBatch, "bbbbbb", 0, lines...) // all of it, once more
	res := merge(t, e, theBatch)
	if res.Written != 0 || res.Kept != 5 || res.Duplicates != 40 {
		t.Fatalf("%+v", res)
	}
	if diff := cmp.Diff(before, record(t, s, theBatch).Blocks); diff != "" {
		t.Fatal(diff)
	}
	putChunk(t, s, theBatch, "bbbbbb", 1, row("05+", "x", 1))
	if res = merge(t, e, theBatch); res.Kept != 4 || res.Written != 2 {
		t.Fatalf("%+v", res)
	}
	healthy(t, s, theBatch)
}
