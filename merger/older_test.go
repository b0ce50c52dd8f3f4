package merger_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

// sweepNow sweeps without any grace, and says what is left below a batch.
func sweepNow(t testing.TB, s objstore.Store, b dataset.BatchID) {
	t.Helper()
	by := catalog.Committer{By: "sweeper", Now: func() time.Time { return time.Now().Add(time.Hour) }, Commit: func() string { return fmt.Sprintf("%016x", time.Now().UnixNano()) }}
	for range 2 {
		if _, err := catalog.Sweep(t.Context(), s, b, catalog.SweepPolicy{}, by); err != nil {
			t.Fatal(err)
		}
	}
}

// parquetOfAllTypes is merged.parquet with a column of every type, and the rows
// that a merge makes of it.
func parquetOfAllTypes(t testing.TB) (file string, rows []string) {
	t.Helper()
	data, err := os.ReadFile("../block/testdata/types.parquet")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := os.ReadFile("../block/testdata/types.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range strings.Split(strings.TrimSpace(string(lines)), "\n") {
		r, err := dataset.ParseRow([]byte(l))
		if err != nil {
			t.Fatal(err)
		}
		if r.ID == "" {
			r = r.WithID(dataset.DerivedID("d/b/merged.parquet", i+1))
		}
		rows = append(rows, string(r.Raw))
	}
	slices.SortFunc(rows, func(a, b string) int { return strings.Compare(idOf(t, a), idOf(t, b)) })
	return string(data), rows
}

func idOf(t testing.TB, line string) string {
	r, err := dataset.ParseRow([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	return r.ID
}

func TestMergedParquetAloneIsAdopted(t *testing.T) {
	s := mem.New()
	file, want := parquetOfAllTypes(t)
	put(t, s, "d/b/merged.parquet", file)
	sweepNow(t, s, theBatch)
	e := engine(t, s, config(t, newClock()))
	res := merge(t, e, theBatch)
	if !res.Committed || res.Rows != int64(len(want)) || res.Rejected != 0 || res.Generation != 1 {
		t.Fatalf("%+v", res)
	}
	if diff := cmp.Diff(want, merged(t, s, theBatch)); diff != "" {
		t.Fatal(diff)
	}
	sweepNow(t, s, theBatch)
	if exists(t, s, "d/b/merged.parquet") {
		t.Error("merged.parquet is still there")
	}
	healthy(t, s, theBatch)
	if diff := cmp.Diff(want, merged(t, s, theBatch)); diff != "" {
		t.Fatal(diff)
	}
	if res := merge(t, e, theBatch); res.Committed {
		t.Errorf("%+v", res)
	}
}

// legacyWithChunks is merged.parquet beside chunks of writers old and new, and
// what an unfinished merge has left.
func legacyWithChunks(t testing.TB) *mem.Store {
	s := mem.New()
	parquet, err := os.ReadFile("testdata/merged.parquet")
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "d/b/merged.parquet", string(parquet))
	putChunk(t, s, theBatch, "aaaaaa", 0, row("p1", "from a chunk", 1), row("c", "C", 2), `{"k":"no id"}`)
	putRun(t, s, theBatch, "bbbbbb", nil, catalog.RunOpen)
	putChunk(t, s, theBatch, "bbbbbb", 0, row("d", "D", 3))
	return s
}

func TestTheAdoptionOfMergedParquetIsDisturbedAtAnyCallAndLosesNothing(t *testing.T) {
	quiet := legacyWithChunks(t)
	c := newClock()
	calls := 0
	counting := objtest.NewFaulty(t, quiet, objtest.On().Before(func() { calls++ }))
	merge(t, engine(t, counting, config(t, c)), theBatch)
	want := merged(t, quiet, theBatch)
	if len(want) != 5 || calls < 10 {
		t.Fatal(calls, want)
	}
	down := func(n int) *objtest.Rule { return objtest.On().Nth(n).Times(1 << 30).Fail(errCrash) }
	write := func(n int) *objtest.Rule { return objtest.On(objtest.Put, objtest.Upload).Nth(n) }
	for name, rules := range map[string]func(n int) []*objtest.Rule{
		"it crashes before a call": func(n int) []*objtest.Rule { return []*objtest.Rule{down(n)} },
		"it crashes after a call": func(n int) []*objtest.Rule {
			return []*objtest.Rule{objtest.On().Nth(n).FailAfter(errCrash), down(n)}
		},
		"an answer is lost":        func(n int) []*objtest.Rule { return []*objtest.Rule{write(n).LoseAnswer()} },
		"a write lands at the end": func(n int) []*objtest.Rule { return []*objtest.Rule{write(n).Late(1 << 30)} },
	} {
		t.Run(name, func(t *testing.T) {
			for n := 1; n <= calls; n++ {
				s := legacyWithChunks(t)
				f := objtest.NewFaulty(mute{t}, s, rules(n)...)
				_, err := engine(t, f, config(t, c)).Merge(t.Context(), theBatch)
				if err != nil && !errors.Is(err, errCrash) {
					t.Fatalf("call %d: %v", n, err)
				}
				f.Flush()
				sweepNow(t, s, theBatch)
				e := engine(t, s, config(t, c))
				merge(t, e, theBatch)
				sweepNow(t, s, theBatch)
				merge(t, e, theBatch)
				if diff := cmp.Diff(want, merged(t, s, theBatch)); diff != "" {
					t.Fatalf("call %d:\n%s", n, diff)
				}
				if r := record(t, s, theBatch); r.Duplicates != 0 || r.IDConflicts != 1 {
					t.Fatalf("call %d: %+v", n, r)
				}
				healthy(t, s, theBatch)
			}
		})
	}
}

// Blocks without a manifest beside live chunks may be an unfinished merge's or
// another tool's; what is in them alone is not lost either way.
func TestBlocksBesideLiveChunksAddOnlyWhatIsNowhereElse(t *testing.T) {
	c := newClock()
	plain := mem.New()
	lines := []string{row("a", "A", 5), row("b", "A", 1), row("c", "C", 1), row("c", "other", 2)}
	putRun(t, plain, theBatch, "aaaaaa", []string{"k"}, catalog.RunOpen)
	putChunk(t, plain, theBatch, "aaaaaa", 0, lines...)
	merge(t, engine(t, plain, config(t, c)), theBatch)
	want := record(t, plain, theBatch)

	s := mem.New()
	putRun(t, s, theBatch, "aaaaaa", []string{"k"}, catalog.RunOpen)
	putChunk(t, s, theBatch, "aaaaaa", 0, lines...)
	put(t, s, "d/b/merged_00000.jsonl.gz", zipped(t, lines[0], lines[2]))         // as of a merge that saw less
	put(t, s, "d/b/merged_00001.jsonl.gz", zipped(t, lines[1], row("z", "Z", 1))) // z is nowhere else
	res := merge(t, engine(t, s, config(t, c)), theBatch)
	got := record(t, s, theBatch)
	if got.Duplicates != want.Duplicates || got.IDConflicts != want.IDConflicts || res.Added != 2 || got.Rows != want.Rows+1 {
		t.Errorf("%+v\n%+v", got, want)
	}
	if diff := cmp.Diff(append(merged(t, plain, theBatch), row("z", "Z", 1)), merged(t, s, theBatch)); diff != "" {
		t.Error(diff)
	}
	sweepNow(t, s, theBatch)
	healthy(t, s, theBatch)
}

func TestBlocksAloneAreAdoptedWithoutAManifest(t *testing.T) {
	s := mem.New()
	put(t, s, "d/b/merged_00004.jsonl.gz", zipped(t, row("z", "Z", 1), `{"k":"no id"}`))
	put(t, s, "d/b/merged_00002.jsonl.gz", zipped(t, row("m", "M", 1), row("z", "Z", 1)))
	sweepNow(t, s, theBatch)
	res := merge(t, engine(t, s, config(t, newClock())), theBatch)
	if !res.Committed || res.Rows != 3 || record(t, s, theBatch).NextFile < 5 {
		t.Fatalf("%+v", res)
	}
	sweepNow(t, s, theBatch)
	healthy(t, s, theBatch)
	if rows := merged(t, s, theBatch); len(rows) != 3 {
		t.Error(rows)
	}
}

// A run without a manifest is known by its chunks' names and versions: an older
// tool may use a name again.
func TestAChunkThatAnOlderToolWritesAgainIsMergedAgain(t *testing.T) {
	s := mem.New()
	e := engine(t, s, config(t, newClock()))
	for i, id := range []string{"a", "b", "c"} {
		key := putChunk(t, s, theBatch, "aaaaaa", 0, row(id, id, i+1))
		merge(t, e, theBatch)
		sweepNow(t, s, theBatch)
		if exists(t, s, key) || len(merged(t, s, theBatch)) != i+1 {
			t.Fatal(i, merged(t, s, theBatch))
		}
		putChunk(t, s, theBatch, "aaaaaa", 0, row(id, id, i+1)) // a late retry
		if res := merge(t, e, theBatch); res.Committed {
			t.Fatalf("%+v", res)
		}
	}
	healthy(t, s, theBatch)
}

func TestADamagedMergedParquetChangesNothing(t *testing.T) {
	whole, _ := parquetOfAllTypes(t)
	for name, file := range map[string]string{
		"cut":     whole[:len(whole)/2],
		"empty":   "",
		"no file": "PAR1",
		"footer":  whole[:len(whole)-40] + strings.Repeat("x", 32) + whole[len(whole)-8:],
	} {
		t.Run(name, func(t *testing.T) {
			s := mem.New()
			put(t, s, "d/b/merged.parquet", file)
			chunk := putChunk(t, s, theBatch, "aaaaaa", 0, row("a", "A", 1))
			before := keys(t, s, "")
			_, err := engine(t, s, config(t, newClock())).Merge(t.Context(), theBatch)
			if !errors.Is(err, block.ErrDamaged) || !strings.Contains(err.Error(), "d/b/merged.parquet") || !strings.Contains(err.Error(), "put the file back") {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, keys(t, s, "")); diff != "" || !exists(t, s, chunk) {
				t.Error(diff)
			}
		})
	}
}

// The store's faults are no damage, and a file that is written again while it is
// read is read again.
func TestAMergedParquetThatCannotBeHadIsNoDamage(t *testing.T) {
	whole, want := parquetOfAllTypes(t)
	down := errors.New("the store is down")
	s := mem.New()
	put(t, s, "d/b/merged.parquet", whole)
	f := objtest.NewFaulty(t, s, objtest.On(objtest.Get).Key("*merged.parquet").Nth(2).Fail(down))
	if _, err := engine(t, f, config(t, newClock())).Merge(t.Context(), theBatch); !errors.Is(err, down) || errors.Is(err, block.ErrDamaged) {
		t.Fatal(err)
	}
	f = objtest.NewFaulty(t, s, objtest.On(objtest.Get).Key("*merged.parquet").Nth(2).Before(func() {
		put(t, s, "d/b/merged.parquet", "something else")
		put(t, s, "d/b/merged.parquet", whole)
	}))
	merge(t, engine(t, f, config(t, newClock())), theBatch)
	if diff := cmp.Diff(want, merged(t, s, theBatch)); diff != "" {
		t.Error(diff)
	}
}
