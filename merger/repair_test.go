package merger_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

// repair verifies, repairs, and gives what was done.
func repair(t testing.TB, e *merger.Engine) ([]merger.Problem, error) {
	t.Helper()
	rep, err := e.Verify(context.Background(), theBatch)
	if err != nil {
		return nil, err
	}
	return e.Repair(context.Background(), theBatch, rep)
}

func mustRepair(t testing.TB, s objstore.Store, c *clock) []merger.Problem {
	t.Helper()
	done, err := repair(t, engine(t, s, config(t, c)))
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// losses are the ways to lose a record.
var losses = map[string]func(t testing.TB, s objstore.Store){
	"gone":    func(t testing.TB, s objstore.Store) { drop(t, s, theBatch.CommitKey()) },
	"damaged": func(t testing.TB, s objstore.Store) { put(t, s, theBatch.CommitKey(), `{"version":1,"commit":"`) },
	"and all history": func(t testing.TB, s objstore.Store) {
		put(t, s, theBatch.CommitKey(), "")
		for _, k := range keys(t, s, theBatch.HistoryDir()) {
			drop(t, s, k)
		}
	},
}

func drop(t testing.TB, s objstore.Store, key string) {
	t.Helper()
	if err := s.Delete(context.Background(), key); err != nil {
		t.Fatal(err)
	}
}

func TestALostRecordIsMadeAnewFromWhatLiesThere(t *testing.T) {
	for _, columns := range [][]string{nil, {"k"}} {
		for name, lose := range losses {
			t.Run(fmt.Sprint(name, " ", columns), func(t *testing.T) {
				c := newClock()
				s := busy(t, c, columns)
				want := merged(t, s, theBatch)
				was := record(t, s, theBatch)
				final := settle(t, busy(t, c, columns), c)
				lose(t, s)
				e := engine(t, s, config(t, c))
				if _, err := e.Merge(t.Context(), theBatch); !errors.Is(err, catalog.ErrDamaged) || !strings.Contains(err.Error(), "--repair") {
					t.Fatalf("a merge of a batch without its record: %v", err)
				}
				done := mustRepair(t, s, c)
				if len(done) == 0 || done[0].Key != theBatch.CommitKey() {
					t.Fatalf("done: %+v", done)
				}
				now := record(t, s, theBatch)
				if name != "and all history" && now.Generation <= was.Generation || now.NextFile < was.NextFile {
					t.Fatalf("generation %d, next_file %d; it was %d and %d", now.Generation, now.NextFile, was.Generation, was.NextFile)
				}
				if name != "and all history" && now.Duplicates > was.Duplicates+10 {
					t.Errorf("%d duplicates; there were %d", now.Duplicates, was.Duplicates)
				}
				got := map[string]bool{}
				for _, l := range merged(t, s, theBatch) {
					got[l] = true
				}
				for _, l := range want {
					if !got[l] {
						t.Errorf("%s is lost or changed", l)
					}
				}
				if diff := cmp.Diff(final.Rows, settle(t, s, c).Rows); diff != "" {
					t.Fatal(diff)
				}
				if again := mustRepair(t, s, c); len(again) > 0 {
					t.Fatalf("repaired twice: %+v", again)
				}
				// What is swept then is not needed.
				c.move(time.Hour)
				sweepAll(t, s, c)
				healthy(t, s, theBatch)
				if diff := cmp.Diff(final.Rows, merged(t, s, theBatch)); diff != "" {
					t.Fatal(diff)
				}
			})
		}
	}
}

func sweepAll(t testing.TB, s objstore.Store, c *clock) {
	t.Helper()
	n := 0
	by := catalog.Committer{By: "sweeper", Now: c.now, Commit: func() string { n++; return fmt.Sprint("sweep", n) }}
	for range 3 {
		if _, err := catalog.Sweep(context.Background(), s, theBatch, catalog.SweepPolicy{}, by); err != nil {
			t.Fatal(err)
		}
	}
}

func TestChunksThatTheLostRecordAbsorbedStayAbsorbed(t *testing.T) {
	c := newClock()
	s := mem.New(mem.Config{Now: c.now})
	e := engine(t, s, config(t, c))
	m := catalog.RunManifest{Version: 1, Run: "aaaaaa", Dataset: "d", Batch: "b", State: catalog.RunOpen}
	put := func() {
		if err := catalog.PutRun(t.Context(), s, m); err != nil {
			t.Fatal(err)
		}
	}
	put()
	first := putChunk(t, s, theBatch, "aaaaaa", 0, row("a", "x", 1))
	merge(t, e, theBatch)
	putChunk(t, s, theBatch, "aaaaaa", 1, row("b", "x", 2))
	m.State, m.Chunks = catalog.RunCompleted, 2
	put()
	merge(t, e, theBatch)
	drop(t, s, theBatch.CommitKey())
	putChunk(t, s, theBatch, "aaaaaa", 0, row("zombie", "x", 1)) // known to history
	mustRepair(t, s, c)
	r := record(t, s, theBatch)
	if got := r.Runs["aaaaaa"].Absorbed.String(); got != "0-1" {
		t.Errorf("absorbed %s", got)
	}
	if exists(t, s, first) {
		t.Error("an absorbed chunk is still there")
	}
	settled(t, s, row("a", "x", 1), row("b", "x", 2))
	healthy(t, s, theBatch)
}

func TestRowsThatWereDroppedAndReplacedDoNotComeBack(t *testing.T) {
	c := newClock()
	s := mem.New(mem.Config{Now: c.now})
	e := engine(t, s, config(t, c))
	putChunk(t, s, theBatch, "aaaaaa", 0, row("a", "same", 1), row("b", "same", 2))
	merge(t, e, theBatch)
	putRun(t, s, theBatch, "bbbbbb", []string{"k"}, catalog.RunOpen)
	merge(t, e, theBatch) // a full pass drops b; the block that has it is garbage
	putRun(t, s, theBatch, "cccccc", []string{}, catalog.RunOpen)
	merge(t, e, theBatch) // no deduplication any more
	merged3 := merged(t, s, theBatch)
	putChunk(t, s, theBatch, "cccccc", 0, row("d", "same", 3))
	merge(t, e, theBatch)
	if len(merged3) != 1 || len(keys(t, s, "d/b/merged_")) < 2 {
		t.Fatalf("%v", merged3)
	}
	drop(t, s, theBatch.CommitKey())
	mustRepair(t, s, c)
	if diff := cmp.Diff([]string{row("a", "same", 1), row("d", "same", 3)}, merged(t, s, theBatch)); diff != "" {
		t.Fatal(diff)
	}
}

func TestABlockThatIsNotWhatHistorySaysStopsARepair(t *testing.T) {
	c := newClock()
	s := busy(t, c, nil)
	known, err := catalog.HeadOf(t.Context(), s, theBatch, 1)
	if err != nil {
		t.Fatal(err)
	}
	key := theBatch.BlockKey(known.Record.Blocks[0].File)
	put(t, s, key, get(t, s, key)+zipped(t, row("x", "y", 1)))
	drop(t, s, theBatch.CommitKey())
	before := keys(t, s, "")
	_, err = repair(t, engine(t, s, config(t, c)))
	if err == nil || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "SHA-256") {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, keys(t, s, "")); diff != "" {
		t.Fatal(diff)
	}
	for _, k := range keys(t, s, "d/b/merged_") {
		drop(t, s, k)
	}
	losses["damaged"](t, s)
	if _, err := repair(t, engine(t, s, config(t, c))); !errors.Is(err, catalog.ErrDamaged) || !strings.Contains(err.Error(), "none lies there") {
		t.Fatalf("without a merged file: %v", err)
	}
}

func TestTheFirstRecordIsLostOrWasNeverMade(t *testing.T) {
	c := newClock()
	one := func() *mem.Store {
		s := mem.New(mem.Config{Now: c.now})
		putRun(t, s, theBatch, "aaaaaa", nil, catalog.RunOpen)
		putChunk(t, s, theBatch, "aaaaaa", 0, row("a", "x", 1), row("b", "x", 2))
		return s
	}
	t.Run("a first merge was cut short", func(t *testing.T) {
		s := one()
		f := objtest.NewFaulty(mute{t}, s, objtest.On(objtest.Put).Key("*manifest.yaml").Fail(errCrash))
		if _, err := engine(t, f, config(t, c)).Merge(t.Context(), theBatch); !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		if len(keys(t, s, "d/b/merged_")) == 0 {
			t.Fatal("it has left no block")
		}
		healthy(t, s, theBatch)
		if done := mustRepair(t, s, c); len(done) > 0 {
			t.Fatalf("%+v", done)
		}
		merge(t, engine(t, s, config(t, c)), theBatch)
		settled(t, s, row("a", "x", 1), row("b", "x", 2))
	})
	for name, more := range map[string]bool{"all chunks are merged": false, "there are live ones": true} {
		t.Run("lost, "+name, func(t *testing.T) {
			s := one()
			merge(t, engine(t, s, config(t, c)), theBatch)
			want := []string{row("a", "x", 1), row("b", "x", 2)}
			if more {
				putChunk(t, s, theBatch, "aaaaaa", 1, row("c", "x", 1))
				want = append(want, row("c", "x", 1))
			}
			drop(t, s, theBatch.CommitKey())
			// Nobody can tell it from a first merge that was cut short, nor need to:
			// a merge takes the rows of both.
			if done := mustRepair(t, s, c); len(done) > 0 {
				t.Fatalf("%+v", done)
			}
			merge(t, engine(t, s, config(t, c)), theBatch)
			settled(t, s, want...)
			healthy(t, s, theBatch)
		})
	}
}

func TestAnotherToolsManifestOverARecordDoesNotTurnGenerationsBack(t *testing.T) {
	c := newClock()
	s := busy(t, c, nil)
	was := record(t, s, theBatch)
	put(t, s, theBatch.CommitKey(), "rows: 20\n")
	merge(t, engine(t, s, config(t, c)), theBatch)
	now := record(t, s, theBatch)
	if now.Generation <= was.Generation || now.NextFile < was.NextFile {
		t.Fatalf("generation %d, next_file %d; it was %d and %d", now.Generation, now.NextFile, was.Generation, was.NextFile)
	}
	healthy(t, s, theBatch)
}

func TestDigestsAreMadeAnewWithoutTouchingARow(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, s objstore.Store, key string){
		"gone":    func(t *testing.T, s objstore.Store, key string) { drop(t, s, key) },
		"damaged": func(t *testing.T, s objstore.Store, key string) { flip(t, s, key, 3) },
		"cut":     func(t *testing.T, s objstore.Store, key string) { put(t, s, key, get(t, s, key)[:32]) },
		"not named": func(t *testing.T, s objstore.Store, key string) {
			rewrite(t, s, func(r *catalog.Record) { r.Digests = nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			s := busy(t, c, []string{"k"})
			was := record(t, s, theBatch)
			harm(t, s, theBatch.DigestKey(was.Digests[0].File))
			done := mustRepair(t, s, c)
			if len(done) == 0 || !strings.Contains(done[0].What, "made anew") {
				t.Fatalf("%+v", done)
			}
			now := record(t, s, theBatch)
			if diff := cmp.Diff(was.Blocks, now.Blocks); diff != "" {
				t.Fatal(diff)
			}
			healthy(t, s, theBatch)
			if diff := cmp.Diff(settle(t, busy(t, c, []string{"k"}), c), settle(t, s, c)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

// onUpload is a store that does something before it takes a file for the first
// time.
type onUpload struct {
	objstore.Store
	first func()
}

func (s *onUpload) Upload(ctx context.Context, key string, r io.ReadSeeker, size int64, c objstore.Condition) (objstore.Info, error) {
	if fn := s.first; fn != nil {
		s.first = nil
		fn()
	}
	return s.Store.Upload(ctx, key, r, size, c)
}

func TestRepairedDigestsAreThoseOfTheRecordThatTheyAreCommittedOn(t *testing.T) {
	c := newClock()
	s := busy(t, c, []string{"k"})
	rewrite(t, s, func(r *catalog.Record) { r.Digests = nil })
	between := &onUpload{Store: s, first: func() {
		putChunk(t, s, theBatch, "abcdef", 0, row("between", "of a merge between", 1))
		merge(t, engine(t, s, config(t, c)), theBatch)
	}}
	before := record(t, s, theBatch).Rows
	if _, err := engine(t, between, config(t, c)).Repair(t.Context(), theBatch, merger.Report{}); err != nil {
		t.Fatal(err)
	}
	if n := record(t, s, theBatch).Rows; n <= before {
		t.Fatalf("%d rows, there were %d: nothing was merged between", n, before)
	}
	healthy(t, s, theBatch)
}

func TestDigestsOfDuplicatesAreNotMadeUp(t *testing.T) {
	c := newClock()
	s := mem.New(mem.Config{Now: c.now})
	putChunk(t, s, theBatch, "aaaaaa", 0, row("a", "same", 1), row("b", "same", 2))
	merge(t, engine(t, s, config(t, c)), theBatch)
	rewrite(t, s, func(r *catalog.Record) { r.DeduplicateOn = []string{"k"} })
	if _, err := repair(t, engine(t, s, config(t, c))); err == nil || !strings.Contains(err.Error(), "duplicates of each other") {
		t.Fatal(err)
	}
}

// A crash before and after every call of a repair, an answer lost at every call,
// a write that lands late: then repairs and merges to the end.
func TestARepairDisturbedAtAnyCallLosesNothing(t *testing.T) {
	for _, columns := range [][]string{nil, {"k"}} {
		for name, lose := range losses {
			t.Run(fmt.Sprint("the record is ", name, " ", columns), func(t *testing.T) { disturbRepair(t, columns, lose) })
		}
	}
	t.Run("digests are gone", func(t *testing.T) {
		disturbRepair(t, []string{"k"}, func(t testing.TB, s objstore.Store) {
			for _, k := range keys(t, s, theBatch.DigestDir()) {
				drop(t, s, k)
			}
		})
	})
}

func disturbRepair(t *testing.T, columns []string, lose func(t testing.TB, s objstore.Store)) {
	c := newClock()
	harmed := func() *mem.Store { s := busy(t, c, columns); lose(t, s); return s }
	quiet := harmed()
	rep, err := merger.Verify(t.Context(), quiet, theBatch)
	if err != nil {
		t.Fatal(err)
	}
	want := settle(t, busy(t, c, columns), c)
	step := 1
	if testing.Short() {
		step = 4
	}
	calls, writes := 0, 0
	counting := objtest.NewFaulty(t, quiet,
		objtest.On(objtest.Put, objtest.Upload).Before(func() { calls++; writes++ }), objtest.On().Before(func() { calls++ }))
	if _, err := engine(t, counting, config(t, c)).Repair(t.Context(), theBatch, rep); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Rows, settle(t, quiet, c).Rows); diff != "" {
		t.Fatal(diff)
	}
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
		"an answer is lost":        {writes, func(n int) []*objtest.Rule { return []*objtest.Rule{write(n).LoseAnswer()} }},
		"a write has no effect":    {writes, func(n int) []*objtest.Rule { return []*objtest.Rule{write(n).Fail(objstore.ErrUnknown)} }},
		"a write lands soon after": {writes, func(n int) []*objtest.Rule { return []*objtest.Rule{write(n).Late(2)} }},
		"a write lands at the end": {writes, func(n int) []*objtest.Rule { return []*objtest.Rule{write(n).Late(1 << 30)} }},
	} {
		for n := 1; n <= d.calls; n += step {
			s := harmed()
			f := objtest.NewFaulty(mute{t}, s, d.rules(n)...)
			_, err := engine(t, f, config(t, c)).Repair(t.Context(), theBatch, rep)
			if err != nil && !errors.Is(err, errCrash) {
				t.Fatalf("%s %d: %v", name, n, err)
			}
			f.Flush()
			// The sweeper may be the first to look.
			c.move(time.Hour)
			if _, err := catalog.FindRecord(t.Context(), s, theBatch); err == nil {
				sweepAll(t, s, c)
			}
			mustRepair(t, s, c)
			if diff := cmp.Diff(want.Rows, settle(t, s, c).Rows); diff != "" {
				t.Fatalf("%s %d:\n%s", name, n, diff)
			}
			if t.Failed() {
				t.Fatalf("%s %d", name, n)
			}
		}
	}
}

func TestRepairsAndMergesAtOnceMakeOneRecord(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 15
	}
	for seed := range seeds {
		c := newClock()
		s := busy(t, c, []string{"k"})
		want := settle(t, busy(t, c, []string{"k"}), c)
		lose := losses["gone"]
		lose(t, s)
		sch := objtest.NewSchedule(seed, objtest.ScheduleConfig{Store: s, Chances: objtest.Chances{LostAnswer: .05, LateEffect: .05, Pause: .1}})
		for i := range 2 {
			cfg := config(t, c)
			cfg.Random = steady(seed*10 + uint64(i))
			sch.Go(fmt.Sprint("repair", i), func(ctx context.Context, s objstore.Store) error {
				_, err := engine(t, s, cfg).Repair(ctx, theBatch, merger.Report{})
				return err
			})
			cfg2 := config(t, c)
			cfg2.Random = steady(seed*10 + 5 + uint64(i))
			sch.Go(fmt.Sprint("merger", i), func(ctx context.Context, s objstore.Store) error {
				for range 3 {
					if _, err := engine(t, s, cfg2).Merge(ctx, theBatch); err != nil && !errors.Is(err, catalog.ErrDamaged) {
						return err
					}
				}
				return nil
			})
		}
		if err := sch.Run(t.Context()); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, sch.Trace())
		}
		if diff := cmp.Diff(want.Rows, settle(t, s, c).Rows); diff != "" || t.Failed() {
			t.Fatalf("seed %d: %s\n%s", seed, diff, sch.Trace())
		}
	}
}
