package merger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

// busy is a batch with something of everything: blocks, digests, old garbage,
// rejected lines, conflicts, chunks with and without a manifest, a leftover.
func busy(t *testing.T, c *clock, columns []string) *mem.Store {
	s := mem.New(mem.Config{Now: c.now})
	e := engine(t, s, config(t, c))
	putRun(t, s, theBatch, "aaaaaa", columns, catalog.RunOpen)
	var lines []string
	for i := range 20 {
		lines = append(lines, row(fmt.Sprintf("m%02d", i), fmt.Sprint("k", i%15), i+1))
	}
	putChunk(t, s, theBatch, "aaaaaa", 0, lines...)
	merge(t, e, theBatch)
	putChunk(t, s, theBatch, "aaaaaa", 1, row("m03+", "new", 4))
	merge(t, e, theBatch)
	putChunk(t, s, theBatch, "aaaaaa", 0, lines...)
	putChunk(t, s, theBatch, "aaaaaa", 2, row("m05", "other content", 1), row("n1", "k3", 1), row("n2", "fresh", 1), "rubbish")
	putChunk(t, s, theBatch, "bbbbbb", 0, `{"k":"without id"}`, row("m07+", "fresh too", 1), row("n2", "again", 7), "more rubbish")
	return s
}

// mute is a test that nothing fails: a rule for what follows a crash fires only
// where something does.
type mute struct{ testing.TB }

func (mute) Errorf(string, ...any) {}

// outcome is what must be the same however often a merge was disturbed.
type outcome struct {
	Rows, Rejects []string
}

func settle(t *testing.T, s objstore.Store, c *clock) outcome {
	t.Helper()
	e := engine(t, s, config(t, c))
	for range 2 {
		merge(t, e, theBatch)
	}
	var o outcome
	o.Rows = merged(t, s, theBatch)
	for _, k := range keys(t, s, "d/b/_rejected/") {
		for line := range strings.Lines(get(t, s, k)) {
			o.Rejects = append(o.Rejects, k+" "+line)
		}
	}
	for _, k := range keys(t, s, "d/b/") {
		if dataset.ParseKey(k).Kind == dataset.KindChunk {
			t.Errorf("%s is still there", k)
		}
	}
	healthy(t, s, theBatch)
	return o
}

// A crash before and after every call of a merge, an answer lost at every call,
// a write that lands late at every call: then merges to the end.
func TestAMergeDisturbedAtAnyCallLosesNothing(t *testing.T) {
	for _, columns := range [][]string{nil, {"k"}} {
		t.Run(fmt.Sprint("deduplicated on ", columns), func(t *testing.T) { disturb(t, columns) })
	}
}

func disturb(t *testing.T, columns []string) {
	c := newClock()
	quiet := busy(t, c, columns)
	calls, writes := 0, 0
	counting := objtest.NewFaulty(t, quiet,
		objtest.On(objtest.Put, objtest.Upload).Before(func() { calls++; writes++ }), objtest.On().Before(func() { calls++ }))
	merge(t, engine(t, counting, config(t, c)), theBatch)
	want := settle(t, quiet, c)
	if len(want.Rejects) < 3 || calls < 15 || writes < 5 {
		t.Fatalf("too simple: %d calls, %d writes, %+v", calls, writes, want)
	}
	t.Logf("%d calls, %d of them writes", calls, writes)
	down := func(n int) *objtest.Rule { return objtest.On().Nth(n).Times(1 << 30).Fail(errCrash) }
	write := func(n int) *objtest.Rule { return objtest.On(objtest.Put, objtest.Upload).Nth(n) }
	for name, d := range map[string]struct {
		calls int
		rules func(n int) []*objtest.Rule
	}{
		"it crashes before a call": {calls, func(n int) []*objtest.Rule { return []*objtest.Rule{down(n)} }},
		"it crashes after a call": {calls - 1, func(n int) []*objtest.Rule {
			return []*objtest.Rule{objtest.On().Nth(n).FailAfter(errCrash), down(n)}
		}},
		"a call fails":             {calls, func(n int) []*objtest.Rule { return []*objtest.Rule{objtest.On().Nth(n).Fail(errCrash)} }},
		"an answer is lost":        {writes, func(n int) []*objtest.Rule { return []*objtest.Rule{write(n).LoseAnswer()} }},
		"a write has no effect":    {writes, func(n int) []*objtest.Rule { return []*objtest.Rule{write(n).Fail(objstore.ErrUnknown)} }},
		"a write lands soon after": {writes, func(n int) []*objtest.Rule { return []*objtest.Rule{write(n).Late(2)} }},
		"a write lands later":      {writes, func(n int) []*objtest.Rule { return []*objtest.Rule{write(n).Late(7)} }},
		"a write lands at the end": {writes, func(n int) []*objtest.Rule { return []*objtest.Rule{write(n).Late(1 << 30)} }},
	} {
		t.Run(name, func(t *testing.T) {
			for n := 1; n <= d.calls; n++ {
				s := busy(t, c, columns)
				f := objtest.NewFaulty(mute{t}, s, d.rules(n)...)
				_, err := engine(t, f, config(t, c)).Merge(t.Context(), theBatch)
				if err != nil && !errors.Is(err, errCrash) {
					t.Fatalf("call %d: %v", n, err)
				}
				if n := len(f.Unfired()); n == len(d.rules(1)) {
					t.Fatal("no fault happened")
				}
				f.Flush()
				if diff := cmp.Diff(want, settle(t, s, c)); diff != "" {
					t.Fatalf("call %d:\n%s", n, diff)
				}
				if t.Failed() {
					t.Fatalf("call %d", n)
				}
			}
		})
	}
}

func TestABodyThatIsCutIsNoChunk(t *testing.T) {
	for _, key := range []string{"*_chunk_00002.jsonl", "*merged_*", "*_digests/*"} {
		for _, at := range []int64{0, 16, 40} {
			c := newClock()
			s := busy(t, c, []string{"k"})
			before := record(t, s, theBatch)
			f := objtest.NewFaulty(t, s, objtest.On(objtest.Get).Key(key).Cut(at))
			if res, err := engine(t, f, config(t, c)).Merge(t.Context(), theBatch); err == nil || res.Committed {
				t.Fatalf("%s cut at %d: %+v, %v", key, at, res, err)
			}
			if diff := cmp.Diff(before.Commit, record(t, s, theBatch).Commit); diff != "" {
				t.Fatal(diff)
			}
		}
	}
}

func TestWhatAnotherAttemptRejectedStays(t *testing.T) {
	// The stale first merger would refuse other lines of the chunk than the one
	// that commits, and writes its file last.
	s := mem.New()
	old := row("x", "newer", 9)
	putChunk(t, s, theBatch, "aaaaaa", 0, old, "rubbish")
	first := hookedEngine(t, s, 1, once(objtest.Upload, "_rejected", func(do func() error) error {
		putChunk(t, s, theBatch, "aaaaaa", 1, row("x", "older", 1))
		merge(t, hookedEngine(t, s, 2, nil), theBatch)
		return do()
	}))
	if res := merge(t, first, theBatch); res.Committed {
		t.Fatalf("%+v", res)
	}
	kept := get(t, s, "d/b/_rejected/aaaaaa_chunk_00000.jsonl")
	if !strings.Contains(kept, "id conflict") || !strings.Contains(kept, "rubbish") || strings.Count(kept, "\n") != 2 {
		t.Fatal(kept)
	}
	settled(t, s, row("x", "older", 1))
}

func TestAChunkThatVanishesMeansAnotherLook(t *testing.T) {
	s := mem.New()
	putChunk(t, s, theBatch, "aaaaaa", 0, a)
	e := hookedEngine(t, s, 1, once(objtest.Get, "_chunk_", func(do func() error) error {
		merge(t, hookedEngine(t, s, 2, nil), theBatch)
		return do()
	}))
	if res := merge(t, e, theBatch); res.Committed || res.Attempts != 2 || res.Generation != 1 {
		t.Fatalf("%+v", res)
	}
	settled(t, s, a)

	putChunk(t, s, theBatch, "bbbbbb", 0, b)
	f := objtest.NewFaulty(t, s, objtest.On(objtest.Get).Key("*bbbbbb_chunk_*").Fail(objstore.ErrNotFound))
	if _, err := engine(t, f, config(t, newClock())).Merge(t.Context(), theBatch); !errors.Is(err, objstore.ErrNotFound) || !strings.Contains(err.Error(), "attempts") {
		t.Fatal(err)
	}
}
