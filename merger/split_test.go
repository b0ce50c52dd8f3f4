package merger_test

import (
	"errors"
	"fmt"
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

const oldChunks = "d/annotations/lang/.temp/"

func layer(batch string) dataset.BatchID {
	return dataset.BatchID{Dataset: "d", Batch: batch, Annotator: "lang"}
}

func annotation(batch, id string, x int) string {
	return fmt.Sprintf(`{"id":%q,"_batch":%q,"_created_at":"2026-01-01T00:00:00Z","data":{"x":%d},"metadata":{}}`, id, batch, x)
}

// oldLayer is a layer as older tools left it: chunks of many batches, lines that
// belong to none, and rows that are merged already.
func oldLayer(t testing.TB) *mem.Store {
	s := mem.New()
	put(t, s, oldChunks+".lock", "{}")
	put(t, s, oldChunks+"chunk_00000.jsonl", strings.Join([]string{
		annotation("b1", "a", 1), annotation("日本語", "c", 2), annotation("b1", "b", 3), "rubbish", "",
		`{"id":"d","data":{}}`, `{"id":"e","_batch":7,"data":{}}`, `{"id":"f","_batch":"a/b","data":{}}`,
	}, "\n"))
	put(t, s, oldChunks+"chunk_00001.jsonl", annotation("b1", "a", 1)+"\n"+annotation("b2", "z", 9)+"\n")
	put(t, s, oldChunks+"chunk_00002.jsonl", "")
	put(t, s, layer("b1").CommitKey(), "files: [merged_00000.jsonl.gz]\n")
	put(t, s, layer("b1").BlockKey("merged_00000.jsonl.gz"), zipped(t, annotation("b1", "m", 5), annotation("b1", "a", 0)))
	return s
}

// layerRows merges all that is there and gives the rows of each batch, and the
// lines that belong to none.
func layerRows(t testing.TB, s objstore.Store) map[string][]string {
	t.Helper()
	e := engine(t, s, config(t, newClock()))
	out := map[string][]string{}
	for _, b := range []string{"b1", "b2", "日本語"} {
		merge(t, e, layer(b))
		healthy(t, s, layer(b))
		out[b] = merged(t, s, layer(b))
	}
	for _, k := range keys(t, s, oldChunks+"_rejected/") {
		out[k] = strings.Split(strings.TrimSpace(get(t, s, k)), "\n")
	}
	return out
}

func TestAnOlderChunkOfALayerIsSplitByItsBatches(t *testing.T) {
	s := oldLayer(t)
	told := &events{}
	e, err := merger.New(s, told, config(t, newClock()), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := e.Split(t.Context(), "d", "lang")
	if err != nil || res.Chunks != 2 || res.Rows != 5 || res.Rejected != 4 || len(res.Batches) != 3 || res.Rest != 0 {
		t.Fatalf("%+v %v", res, err)
	}
	if len(told.all) != 4 || told.all[0].Type != dataset.AnnotationUpdated || !exists(t, s, told.all[0].Key) {
		t.Errorf("%+v", told.all)
	}
	for _, k := range keys(t, s, oldChunks) {
		if strings.HasPrefix(k, oldChunks+"chunk_") && get(t, s, k) != "" {
			t.Errorf("%s is not empty", k)
		}
	}
	rows := layerRows(t, s)
	want := map[string][]string{
		"b1":  {annotation("b1", "a", 0), annotation("b1", "b", 3), annotation("b1", "m", 5)},
		"b2":  {annotation("b2", "z", 9)},
		"日本語": {annotation("日本語", "c", 2)},
	}
	for b, w := range want {
		if diff := cmp.Diff(w, rows[b]); diff != "" {
			t.Errorf("%s: %s", b, diff)
		}
	}
	kept := strings.Join(rows[oldChunks+"_rejected/chunk_00000.jsonl"], "\n")
	for _, w := range []string{`"rubbish"`, "no _batch", `"line":6,`, "is no string", "must not contain /", `\"id\":\"f\"`} {
		if !strings.Contains(kept, w) {
			t.Errorf("no %s in %s", w, kept)
		}
	}
	if l, err := catalog.ListLive(t.Context(), s, layer("b1")); err != nil || len(l.Chunks) > 0 || len(l.Runs) != 2 {
		t.Errorf("%+v %v", l, err)
	}
	again, err := e.Split(t.Context(), "d", "lang")
	if err != nil || again.Chunks != 0 {
		t.Errorf("%+v %v", again, err)
	}
}

func TestAnOlderChunkThatIsWrittenAgainIsSplitAgain(t *testing.T) {
	s := oldLayer(t)
	layerRows(t, s)
	put(t, s, oldChunks+"chunk_00000.jsonl", annotation("b1", "new", 1)+"\nmore rubbish\n")
	rows := layerRows(t, s)
	if !slices.Contains(rows["b1"], annotation("b1", "new", 1)) || len(rows["b1"]) != 4 || len(rows[oldChunks+"_rejected/chunk_00000.jsonl"]) != 5 {
		t.Errorf("%+v", rows)
	}
}

func TestAnOlderChunkThatChangesWhileItIsSplitStays(t *testing.T) {
	s := oldLayer(t)
	later := annotation("b2", "later", 1) + "\n"
	f := objtest.NewFaulty(t, s, objtest.On(objtest.Put).Key("*/.temp/chunk_00000.jsonl").Before(func() {
		put(t, s, oldChunks+"chunk_00000.jsonl", later)
	}))
	res, err := engine(t, f, config(t, newClock())).Split(t.Context(), "d", "lang")
	if err != nil || res.Rest != 1 || res.Chunks != 1 {
		t.Fatalf("%+v %v", res, err)
	}
	if got := get(t, s, oldChunks+"chunk_00000.jsonl"); got != later {
		t.Fatal(got)
	}
	rows := layerRows(t, s)
	if len(rows["b1"]) != 3 || len(rows["b2"]) != 2 {
		t.Errorf("%+v", rows)
	}
}

// Another writer may have drawn the run that the chunk decides.
func TestARunOfAnotherWriterIsLeftAlone(t *testing.T) {
	s := oldLayer(t)
	if _, err := engine(t, s, config(t, newClock())).Split(t.Context(), "d", "lang"); err != nil {
		t.Fatal(err)
	}
	l, err := catalog.ListLive(t.Context(), s, layer("b2"))
	if err != nil || len(l.Runs) != 1 {
		t.Fatal(l, err)
	}
	run := l.Runs[0]
	s = oldLayer(t)
	putRun(t, s, layer("b2"), run, nil, catalog.RunOpen)
	putChunk(t, s, layer("b2"), run, 0, annotation("b2", "theirs", 1))
	rows := layerRows(t, s)
	if diff := cmp.Diff([]string{annotation("b2", "theirs", 1), annotation("b2", "z", 9)}, rows["b2"]); diff != "" {
		t.Error(diff)
	}
}

// A crash before and after every call of a split, a lost answer, a late write.
func TestASplitDisturbedAtAnyCallLosesNothing(t *testing.T) {
	quiet := oldLayer(t)
	calls := 0
	counting := objtest.NewFaulty(t, quiet, objtest.On().Before(func() { calls++ }))
	if _, err := engine(t, counting, config(t, newClock())).Split(t.Context(), "d", "lang"); err != nil {
		t.Fatal(err)
	}
	want := layerRows(t, quiet)
	if calls < 15 {
		t.Fatalf("too simple: %d calls", calls)
	}
	down := func(n int) *objtest.Rule { return objtest.On().Nth(n).Times(1 << 30).Fail(errCrash) }
	write := func(n int) *objtest.Rule { return objtest.On(objtest.Put, objtest.Upload).Nth(n) }
	for name, rules := range map[string]func(n int) []*objtest.Rule{
		"it crashes before a call": func(n int) []*objtest.Rule { return []*objtest.Rule{down(n)} },
		"it crashes after a call": func(n int) []*objtest.Rule {
			return []*objtest.Rule{objtest.On().Nth(n).FailAfter(errCrash), down(n)}
		},
		"an answer is lost":        func(n int) []*objtest.Rule { return []*objtest.Rule{write(n).LoseAnswer()} },
		"a write has no effect":    func(n int) []*objtest.Rule { return []*objtest.Rule{write(n).Fail(objstore.ErrUnknown)} },
		"a write lands at the end": func(n int) []*objtest.Rule { return []*objtest.Rule{write(n).Late(1 << 30)} },
	} {
		t.Run(name, func(t *testing.T) {
			for n := 1; n <= calls; n++ {
				s := oldLayer(t)
				f := objtest.NewFaulty(mute{t}, s, rules(n)...)
				_, err := engine(t, f, config(t, newClock())).Split(t.Context(), "d", "lang")
				if err != nil && !errors.Is(err, errCrash) && !errors.Is(err, objstore.ErrUnknown) {
					t.Fatalf("call %d: %v", n, err)
				}
				f.Flush()
				if diff := cmp.Diff(want, layerRows(t, s)); diff != "" {
					t.Fatalf("call %d:\n%s", n, diff)
				}
			}
		})
	}
}

func TestTwoWhoSplitAtOnceStoreTheSame(t *testing.T) {
	s := oldLayer(t)
	inner := engine(t, s, config(t, newClock()))
	raced := false
	f := objtest.NewFaulty(t, s, objtest.On(objtest.Put).Key("*_chunk_*").Before(func() {
		if !raced {
			raced = true
			if _, err := inner.Split(t.Context(), "d", "lang"); err != nil {
				t.Error(err)
			}
		}
	}))
	if _, err := engine(t, f, config(t, newClock())).Split(t.Context(), "d", "lang"); err != nil {
		t.Fatal(err)
	}
	want := layerRows(t, oldLayer(t))
	if diff := cmp.Diff(want, layerRows(t, s)); diff != "" || !raced {
		t.Error(diff)
	}
}

// A store deletes without conditions: what an older tool writes again must not go
// with the version that was split.
func TestAnOlderChunkIsEmptiedAndGoesWhenNobodyHasTouchedItForLong(t *testing.T) {
	c := newClock()
	s := mem.New(mem.Config{Now: c.now})
	key := oldChunks + "chunk_00000.jsonl"
	put(t, s, key, annotation("b1", "a", 1)+"\n")
	split := func() {
		t.Helper()
		if _, err := engine(t, s, config(t, c)).Split(t.Context(), "d", "lang"); err != nil {
			t.Fatal(err)
		}
	}
	split()
	if got := get(t, s, key); got != "" {
		t.Errorf("it holds %q", got)
	}
	c.move(59 * time.Minute)
	put(t, s, key, annotation("b1", "b", 2)+"\n")
	split()
	c.move(59 * time.Minute)
	if split(); !exists(t, s, key) {
		t.Error("it is gone too soon")
	}
	c.move(2 * time.Minute)
	if split(); exists(t, s, key) {
		t.Error("it is still there")
	}
	if rows := layerRows(t, s); len(rows["b1"]) != 2 {
		t.Errorf("%+v", rows)
	}
}
