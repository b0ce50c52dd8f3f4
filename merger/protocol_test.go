package merger_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
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

// The traces that the model check of the protocol found in its first draft.
// Each lost rows, or could have, under the rules of the draft.

// hooked lets a test step in around each call of one merger: around may do
// something before and after do, and give another answer. A merger never
// deletes a block or digest file, whatever happens to it; hooked sees to that.
type hooked struct {
	objstore.Store
	t      testing.TB
	around func(verb, key string, do func() error) error
}

func (h hooked) Get(ctx context.Context, key string, s objstore.Span) (r io.ReadCloser, i objstore.Info, err error) {
	err = h.around(objtest.Get, key, func() (err error) { r, i, err = h.Store.Get(ctx, key, s); return })
	return r, i, err
}

func (h hooked) Put(ctx context.Context, key string, body []byte, c objstore.Condition) (i objstore.Info, err error) {
	err = h.around(objtest.Put, key, func() (err error) { i, err = h.Store.Put(ctx, key, body, c); return })
	return i, err
}

func (h hooked) Upload(ctx context.Context, key string, r io.ReadSeeker, size int64, c objstore.Condition) (i objstore.Info, err error) {
	err = h.around(objtest.Upload, key, func() (err error) { i, err = h.Store.Upload(ctx, key, r, size, c); return })
	return i, err
}

func (h hooked) Delete(ctx context.Context, key string) error {
	if k := dataset.ParseKey(key); k.Kind != dataset.KindChunk {
		h.t.Errorf("a merger deletes %s", key)
	}
	return h.around(objtest.Delete, key, func() error { return h.Store.Delete(ctx, key) })
}

func (h hooked) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	var all []objstore.Info
	err := h.around(objtest.List, prefix, func() error {
		for i, err := range h.Store.List(ctx, prefix, after) {
			if err != nil {
				return err
			}
			all = append(all, i)
		}
		return nil
	})
	return func(yield func(objstore.Info, error) bool) {
		for _, i := range all {
			if !yield(i, nil) {
				return
			}
		}
		if err != nil {
			yield(objstore.Info{}, err)
		}
	}
}

// once runs fn at the first call that fits, and lets every other call be.
func once(verb, part string, fn func(do func() error) error) func(string, string, func() error) error {
	done := false
	return func(v, key string, do func() error) error {
		if done || v != verb || !strings.Contains(key, part) {
			return do()
		}
		done = true
		return fn(do)
	}
}

// hookedEngine is a merger of its own: another name, other commit ids.
func hookedEngine(t *testing.T, s objstore.Store, seed uint64, around func(string, string, func() error) error) *merger.Engine {
	cfg := config(t, newClock())
	cfg.Random = steady(seed)
	if around == nil {
		around = func(_, _ string, do func() error) error { return do() }
	}
	return engine(t, hooked{s, t, around}, cfg)
}

// settled merges until nothing is left to do, and checks that exactly these
// lines are merged and no chunk is live.
func settled(t *testing.T, s objstore.Store, want ...string) {
	t.Helper()
	e := engine(t, s, config(t, newClock()))
	for range 3 {
		merge(t, e, theBatch)
	}
	if diff := cmp.Diff(want, merged(t, s, theBatch)); diff != "" {
		t.Errorf("merged rows:\n%s", diff)
	}
	for _, k := range keys(t, s, theBatch.LiveDir()) {
		if dataset.ParseKey(k).Kind == dataset.KindChunk {
			t.Errorf("%s is still there", k)
		}
	}
	healthy(t, s, theBatch)
}

var a, b, c = row("a", "A", 1), row("b", "B", 2), row("c", "C", 3)

// raced has two mergers at work: the first stands before its commit while the
// second lists one chunk more, and commits before the second writes its files.
func raced(t *testing.T, columns []string) objstore.Store {
	s := mem.New()
	putRun(t, s, theBatch, "aaaaaa", columns, catalog.RunOpen)
	putChunk(t, s, theBatch, "aaaaaa", 0, a)
	standing, goOn, gone := make(chan bool), make(chan bool), make(chan error)
	first := hookedEngine(t, s, 1, once(objtest.Put, "manifest.yaml", func(do func() error) error {
		close(standing)
		<-goOn
		return do()
	}))
	go func() {
		_, err := first.Merge(context.Background(), theBatch)
		gone <- err
	}()
	<-standing
	putChunk(t, s, theBatch, "aaaaaa", 1, b)
	second := hookedEngine(t, s, 2, once(objtest.Upload, "", func(do func() error) error {
		close(goOn)
		if err := <-gone; err != nil {
			t.Errorf("first merger: %v", err)
		}
		return do()
	}))
	merge(t, second, theBatch)
	return s
}

func TestF1TwoMergersNeverWriteOneBlockName(t *testing.T) {
	settled(t, raced(t, nil), a, b)
}

func TestF1dTwoMergersNeverWriteOneDigestName(t *testing.T) {
	s := raced(t, []string{"k"})
	settled(t, s, a, b)
	putChunk(t, s, theBatch, "bbbbbb", 0, row("x", "A", 9), row("y", "B", 9))
	settled(t, s, a, b)
}

func TestF1InReverseTheStandingMergerLosesAndStartsAgain(t *testing.T) {
	s := mem.New()
	putChunk(t, s, theBatch, "aaaaaa", 0, a)
	first := hookedEngine(t, s, 1, once(objtest.Put, "manifest.yaml", func(do func() error) error {
		putChunk(t, s, theBatch, "aaaaaa", 1, b)
		merge(t, hookedEngine(t, s, 2, nil), theBatch)
		putChunk(t, s, theBatch, "aaaaaa", 2, c)
		return do()
	}))
	if res := merge(t, first, theBatch); res.Attempts != 2 || !res.Committed || res.Generation != 2 {
		t.Errorf("%+v", res)
	}
	settled(t, s, a, b, c)
}

func TestF1cAFileOfACrashedMergerIsSteppedOver(t *testing.T) {
	s := mem.New()
	putChunk(t, s, theBatch, "aaaaaa", 0, a)
	for range 3 {
		crash := objtest.NewFaulty(t, s, objtest.On(objtest.Put).Key("*/manifest.yaml").Fail(errCrash))
		if _, err := engine(t, crash, config(t, newClock())).Merge(t.Context(), theBatch); !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
	}
	settled(t, s, a)
	if r := record(t, s, theBatch); r.Blocks[0].File != "merged_00003.jsonl.gz" || r.NextFile != 4 {
		t.Errorf("%+v", r)
	}
}

var errCrash = errors.New("crash")

func TestF2ALostAnswerWithACommitOnTopDeletesNothing(t *testing.T) {
	for _, answer := range []error{objstore.ErrUnknown, objstore.ErrLost} {
		s := mem.New()
		putRun(t, s, theBatch, "aaaaaa", []string{"k"}, catalog.RunOpen)
		putChunk(t, s, theBatch, "aaaaaa", 0, a)
		first := hookedEngine(t, s, 1, once(objtest.Put, "manifest.yaml", func(do func() error) error {
			if err := do(); err != nil {
				t.Error(err)
			}
			putChunk(t, s, theBatch, "aaaaaa", 1, b)
			merge(t, hookedEngine(t, s, 2, nil), theBatch)
			return answer
		}))
		if res := merge(t, first, theBatch); res.Generation != 2 {
			t.Errorf("%+v", res)
		}
		settled(t, s, a, b)
	}
}

func TestF2ALostAnswerIsRecognisedAsACommit(t *testing.T) {
	s := mem.New()
	putChunk(t, s, theBatch, "aaaaaa", 0, a)
	lossy := objtest.NewFaulty(t, s, objtest.On(objtest.Put).Key("*/manifest.yaml").LoseAnswer())
	if res := merge(t, engine(t, lossy, config(t, newClock())), theBatch); !res.Committed || res.Generation != 1 || res.Attempts != 1 {
		t.Errorf("%+v", res)
	}
	settled(t, s, a)
}

func TestF3ACommitThatLandsLateFindsItsFiles(t *testing.T) {
	for calls := 1; calls < 14; calls++ {
		s := mem.New()
		putRun(t, s, theBatch, "aaaaaa", []string{"k"}, catalog.RunOpen)
		putChunk(t, s, theBatch, "aaaaaa", 0, a)
		merge(t, engine(t, s, config(t, newClock())), theBatch)
		putChunk(t, s, theBatch, "aaaaaa", 1, b)
		late := objtest.NewFaulty(t, s, objtest.On(objtest.Put).Key("*/manifest.yaml").Nth(1).Late(calls))
		if _, err := hookedEngine(t, late, 1, nil).Merge(t.Context(), theBatch); err != nil {
			t.Error(err)
		}
		late.Flush()
		settled(t, s, a, b)
	}
}

func TestF3bNoDeleteOfABlockCanLandLate(t *testing.T) {
	// hooked fails the test at any delete of anything but a chunk
	s := mem.New()
	putChunk(t, s, theBatch, "aaaaaa", 0, a)
	lost := 0
	e := hookedEngine(t, s, 1, func(verb, key string, do func() error) error {
		if verb == objtest.Put && strings.HasSuffix(key, "manifest.yaml") && lost < 5 {
			lost++
			return objstore.ErrUnknown
		}
		return do()
	})
	if res := merge(t, e, theBatch); res.Attempts != 6 {
		t.Errorf("%+v", res)
	}
	if n := len(keys(t, s, "d/b/merged_")); n != 6 {
		t.Errorf("%d blocks, each attempt writes one and leaves it to the sweeper", n)
	}
	settled(t, s, a)
}

func TestF4AbsorbedIsNotPrunedByAnOlderListing(t *testing.T) {
	s := mem.New()
	putRun(t, s, theBatch, "aaaaaa", nil, catalog.RunOpen)
	putChunk(t, s, theBatch, "aaaaaa", 5, c)
	first := hookedEngine(t, s, 1, once(objtest.Get, "manifest.yaml", func(do func() error) error {
		// after the listing of the first: a chunk comes, is absorbed, and stays
		putChunk(t, s, theBatch, "aaaaaa", 0, a)
		paused := objtest.NewFaulty(t, s, objtest.On(objtest.Delete).Fail(errCrash))
		merge(t, engine(t, paused, config(t, newClock())), theBatch)
		putRun(t, s, theBatch, "aaaaaa", []string{"k"}, catalog.RunOpen) // so that the first has something to commit
		return do()
	}))
	if res := merge(t, first, theBatch); !res.Committed || res.Generation != 2 {
		t.Fatalf("%+v", res)
	}
	snap, err := catalog.Open(t.Context(), s, theBatch)
	if err != nil || len(snap.Live) != 0 {
		t.Fatalf("live beside merged: %v, %v", snap.Live, err)
	}
	settled(t, s, a, c)
}

func TestF5AChunkThatComesBackIsIgnored(t *testing.T) {
	s := mem.New()
	putRun(t, s, theBatch, "aaaaaa", nil, catalog.RunOpen)
	putChunk(t, s, theBatch, "aaaaaa", 0, a, `{"x":1}`)
	e := engine(t, s, config(t, newClock()))
	merge(t, e, theBatch)
	want := merged(t, s, theBatch)
	putChunk(t, s, theBatch, "aaaaaa", 0, a, `{"x":1}`)
	putChunk(t, s, theBatch, "aaaaaa", 1, b)
	if res := merge(t, e, theBatch); res.Chunks != 1 || res.Duplicates != 0 {
		t.Errorf("%+v", res)
	}
	settled(t, s, slices.Sorted(slices.Values(append(want, b)))...)
}

func TestF6AChunkWithoutAManifestIsKnownByItsBytes(t *testing.T) {
	s := mem.New()
	e := engine(t, s, config(t, newClock()))
	putChunk(t, s, theBatch, "aaaaaa", 0, a)
	merge(t, e, theBatch)
	putChunk(t, s, theBatch, "aaaaaa", 0, a) // the same once more
	if res := merge(t, e, theBatch); res.Committed {
		t.Errorf("%+v", res)
	}
	putChunk(t, s, theBatch, "aaaaaa", 0, b) // an older tool, with other rows
	settled(t, s, a, b)
}

func TestF7OrphansAboveNextFileAreSweptInTheEnd(t *testing.T) {
	now := newClock()
	s := mem.New(mem.Config{Now: now.now})
	putChunk(t, s, theBatch, "aaaaaa", 0, a)
	merge(t, engine(t, s, config(t, now)), theBatch)
	putChunk(t, s, theBatch, "aaaaaa", 1, b)
	crash := objtest.NewFaulty(t, s, objtest.On(objtest.Put).Key("*/manifest.yaml").Fail(errCrash))
	if _, err := engine(t, crash, config(t, now)).Merge(t.Context(), theBatch); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	n := 0
	by := catalog.Committer{By: "sweeper", Now: now.now, Commit: func() string { n++; return fmt.Sprint("swept", n) }}
	for range 3 {
		now.move(time.Hour)
		if _, err := catalog.Sweep(t.Context(), s, theBatch, catalog.SweepPolicy{Grace: time.Minute}, by); err != nil {
			t.Fatal(err)
		}
	}
	if left := keys(t, s, "d/b/merged_"); len(left) != 1 {
		t.Errorf("%v", left)
	}
	settled(t, s, a, b)
}

// A merger that stands before its commit while its files are swept must lose.
func TestF7AMergerWhoseFilesWereSweptCannotCommit(t *testing.T) {
	now := newClock()
	s := mem.New(mem.Config{Now: now.now})
	putChunk(t, s, theBatch, "aaaaaa", 0, a)
	merge(t, engine(t, s, config(t, now)), theBatch)
	putChunk(t, s, theBatch, "aaaaaa", 1, b)
	n := 0
	by := catalog.Committer{By: "sweeper", Now: now.now, Commit: func() string { n++; return fmt.Sprint("swept", n) }}
	e := hookedEngine(t, s, 1, once(objtest.Put, "manifest.yaml", func(do func() error) error {
		for range 3 {
			now.move(time.Hour)
			if _, err := catalog.Sweep(context.Background(), s, theBatch, catalog.SweepPolicy{}, by); err != nil {
				t.Error(err)
			}
		}
		return do()
	}))
	if res := merge(t, e, theBatch); res.Attempts != 2 {
		t.Errorf("%+v", res)
	}
	settled(t, s, a, b)
}

func TestF8ALateRunManifestDecidesAgain(t *testing.T) {
	s := mem.New()
	e := engine(t, s, config(t, newClock()))
	putChunk(t, s, theBatch, "aaaaaa", 0, a, row("z", "A", 9))
	merge(t, e, theBatch)
	putRun(t, s, theBatch, "aaaaaa", []string{"k"}, catalog.RunOpen)
	if res := merge(t, e, theBatch); !res.Committed || res.Duplicates != 1 {
		t.Errorf("%+v", res)
	}
	settled(t, s, a)
}

// A listing of several pages can show a chunk and not the manifest before it.
func TestF8AManifestThatTheListingMissedIsRead(t *testing.T) {
	s := mem.New()
	e := hookedEngine(t, s, 1, once(objtest.Get, "manifest.yaml", func(do func() error) error {
		putRun(t, s, theBatch, "aaaaaa", []string{"k"}, catalog.RunOpen)
		return do()
	}))
	putChunk(t, s, theBatch, "aaaaaa", 0, a, row("z", "A", 9))
	if res := merge(t, e, theBatch); res.Duplicates != 1 || len(record(t, s, theBatch).Chunks) != 0 {
		t.Errorf("%+v", res)
	}
	settled(t, s, a)
}

func TestF9IDsAndDigestsAreDecidedInOnePass(t *testing.T) {
	for name, c := range map[string]struct{ rows, want []string }{
		"digests first would lose z": {
			[]string{row("id1", "A", 1), row("id1", "B", 2), row("id2", "B", 3)},
			[]string{row("id1", "A", 1), row("id2", "B", 3)},
		},
		"ids first would lose id1": {
			[]string{row("id1", "A", 2), row("id1", "C", 3), row("id4", "A", 1)},
			[]string{row("id1", "C", 3), row("id4", "A", 1)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := mem.New()
			putRun(t, s, theBatch, "aaaaaa", []string{"k"}, catalog.RunOpen)
			putChunk(t, s, theBatch, "aaaaaa", 0, c.rows...)
			settled(t, s, c.want...)
		})
	}
}

func TestF10RowsThatWereDroppedDoNotComeBack(t *testing.T) {
	s := mem.New()
	e := engine(t, s, config(t, newClock()))
	putRun(t, s, theBatch, "aaaaaa", []string{"k"}, catalog.RunOpen)
	putChunk(t, s, theBatch, "aaaaaa", 0, a, row("z", "A", 9))
	merge(t, e, theBatch)
	putRun(t, s, theBatch, "bbbbbb", []string{"other"}, catalog.RunOpen) // nothing in common: no deduplication
	putChunk(t, s, theBatch, "bbbbbb", 0, row("y", "A", 9))
	settled(t, s, a, row("y", "A", 9))
	if r := record(t, s, theBatch); r.DeduplicateOn == nil || len(r.DeduplicateOn) != 0 || r.Duplicates != 1 {
		t.Errorf("%+v", r)
	}
}
