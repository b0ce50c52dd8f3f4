package merger_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

func TestChunksBecomeBlocksInOrderOfIDsByteForByte(t *testing.T) {
	c := newClock()
	s := mem.New(mem.Config{Now: c.now})
	told := &events{}
	cfg := config(t, c)
	e, err := merger.New(s, told, cfg, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	putRun(t, s, theBatch, "aaaaaa", nil, catalog.RunOpen)
	first := putChunk(t, s, theBatch, "aaaaaa", 0, `{"id":"c","n":1.0, "big":9007199254740993,"e":1e400}`, `{"id":"a","t":"\u00e9\/<&>"}`)
	second := putChunk(t, s, theBatch, "aaaaaa", 1, `{"id":"b","null":null}`)
	res := merge(t, e, theBatch)
	want := merger.Result{Batch: theBatch, Committed: true, Generation: 1, Commit: res.Commit, Rows: 3, Chunks: 2, Added: 3, Written: 1, Attempts: 1}
	if diff := cmp.Diff(want, res); diff != "" {
		t.Fatal(diff)
	}
	lines := []string{`{"id":"a","t":"\u00e9\/<&>"}`, `{"id":"b","null":null}`, `{"id":"c","n":1.0, "big":9007199254740993,"e":1e400}`}
	if diff := cmp.Diff(lines, merged(t, s, theBatch)); diff != "" {
		t.Fatal(diff)
	}
	if exists(t, s, first) || exists(t, s, second) {
		t.Error("absorbed chunks are still there")
	}
	if len(told.all) != 1 || told.all[0].Type != dataset.BatchMerged || told.all[0].Commit != res.Commit || *told.all[0].Rows != 3 || told.all[0].Added != 3 {
		t.Errorf("announced %+v", told.all)
	}
	if left, err := os.ReadDir(cfg.WorkDir); err != nil || len(left) > 0 {
		t.Errorf("left in the working folder: %v, %v", left, err)
	}
	healthy(t, s, theBatch)
}

func TestNothingToMergeIsAnnouncedAgainAndLeftoversGo(t *testing.T) {
	c := newClock()
	s := mem.New(mem.Config{Now: c.now})
	told := &events{}
	e, err := merger.New(s, told, config(t, c), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res := merge(t, e, theBatch); res.Committed || res.Generation != 0 || len(told.all) > 0 {
		t.Fatalf("an empty batch: %+v, %v", res, told.all)
	}
	putRun(t, s, theBatch, "aaaaaa", nil, catalog.RunOpen)
	putChunk(t, s, theBatch, "aaaaaa", 0, row("a", "x", 1))
	res := merge(t, e, theBatch)
	back := putChunk(t, s, theBatch, "aaaaaa", 0, row("a", "x", 1)) // a late retry of its put
	again := merge(t, e, theBatch)
	if again.Committed || again.Generation != 1 || again.Commit != res.Commit || again.Rows != 1 {
		t.Fatalf("%+v", again)
	}
	if exists(t, s, back) {
		t.Error("an absorbed chunk that came back is still there")
	}
	if len(told.all) != 2 || told.all[0].MsgID() != told.all[1].MsgID() {
		t.Fatalf("announced %+v", told.all)
	}
	told.fail = errors.New("no servers")
	if _, err := e.Merge(t.Context(), theBatch); !errors.Is(err, told.fail) {
		t.Fatalf("an announcement that failed: %v", err)
	}
	healthy(t, s, theBatch)
}

func TestAFailedAnnouncementKeepsTheCommitAndTheNextMergeDeletes(t *testing.T) {
	c := newClock()
	s := mem.New()
	told := &events{fail: errors.New("no servers")}
	e, err := merger.New(s, told, config(t, c), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	key := putChunk(t, s, theBatch, "aaaaaa", 0, row("a", "x", 1))
	res, err := e.Merge(t.Context(), theBatch)
	if !errors.Is(err, told.fail) || !res.Committed {
		t.Fatalf("%+v, %v", res, err)
	}
	told.fail = nil
	if res := merge(t, e, theBatch); res.Committed || exists(t, s, key) || len(told.all) != 1 {
		t.Fatalf("%+v, %v", res, told.all)
	}
}

func TestADeletedBatchTakesNothing(t *testing.T) {
	c := newClock()
	s := mem.New()
	e := engine(t, s, config(t, c))
	putChunk(t, s, theBatch, "aaaaaa", 0, row("a", "x", 1))
	merge(t, e, theBatch)
	h, err := catalog.ReadHead(t.Context(), s, theBatch)
	if err != nil {
		t.Fatal(err)
	}
	next := h.Record.Next("dead", "test", c.now())
	next.Deleted = true
	if _, err := catalog.Commit(t.Context(), s, h, next); err != nil {
		t.Fatal(err)
	}
	key := putChunk(t, s, theBatch, "bbbbbb", 0, row("b", "x", 1))
	res := merge(t, e, theBatch)
	if !res.Deleted || res.Committed || res.Generation != 2 || !exists(t, s, key) {
		t.Fatalf("%+v", res)
	}
}

func TestABatchWithoutAValidRowHasOneBlockWithoutRows(t *testing.T) {
	c := newClock()
	s := mem.New()
	e := engine(t, s, config(t, c))
	putChunk(t, s, theBatch, "aaaaaa", 0, "not json", "", `[1]`)
	res := merge(t, e, theBatch)
	r := record(t, s, theBatch)
	if len(r.Blocks) != 1 || r.Blocks[0].Rows != 0 || r.Blocks[0].Bytes == 0 || r.Rows != 0 || r.Rejected != 2 || res.Rejected != 2 {
		t.Fatalf("%+v", r)
	}
	healthy(t, s, theBatch)
	putChunk(t, s, theBatch, "aaaaaa", 1, "still not json")
	merge(t, e, theBatch)
	second := record(t, s, theBatch)
	if diff := cmp.Diff(r.Blocks, second.Blocks); diff != "" {
		t.Fatalf("the empty block was not kept:\n%s", diff)
	}
	putChunk(t, s, theBatch, "aaaaaa", 2, row("a", "x", 1))
	merge(t, e, theBatch)
	third := record(t, s, theBatch)
	if len(third.Blocks) != 1 || third.Blocks[0].Rows != 1 || len(third.Garbage) != 1 || third.Garbage[0].File != r.Blocks[0].File {
		t.Fatalf("%+v", third)
	}
	healthy(t, s, theBatch)
}

func TestRejectedLinesAreKeptWithTheReason(t *testing.T) {
	c := newClock()
	s := mem.New()
	e := engine(t, s, config(t, c))
	long := `{"id":"long","t":"` + strings.Repeat("x", dataset.MaxLineBytes) + `"}`
	key := putChunk(t, s, theBatch, "aaaaaa", 7,
		`{"id":"a"}`, `{"id":"b","x":NaN}`, "{\"id\":\"c\",\"t\":\"\xff\"}", `{"id":"d","_batch":"b"}`, `{"id":"e","\u005fsilt_x":1}`, `{"id":"<f>","x":1,"x":2}`, long)
	res := merge(t, e, theBatch)
	if res.Rejected != 6 || res.Added != 1 {
		t.Fatalf("%+v", res)
	}
	var lines []uint64
	for raw := range strings.Lines(get(t, s, "d/b/_rejected/aaaaaa_chunk_00007.jsonl")) {
		var r merger.Reject
		if err := json.Unmarshal([]byte(raw), &r); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, r.Line)
		switch {
		case r.Reason == "":
			t.Errorf("no reason: %s", raw)
		case r.Line == 3 && (r.Raw != nil || string(r.RawBase64) != "{\"id\":\"c\",\"t\":\"\xff\"}"):
			t.Errorf("line 3: %s", raw)
		case r.Line == 6 && (*r.Raw != `{"id":"<f>","x":1,"x":2}` || !strings.Contains(raw, `{\"id\":\"<f>\"`) || r.Offset != 101):
			t.Errorf("line 6: %s", raw)
		case r.Line == 7 && (r.Raw != nil || r.RawBase64 != nil):
			t.Error("line 7 is kept, but too long for it")
		}
	}
	if diff := cmp.Diff([]uint64{2, 3, 4, 5, 6, 7}, lines); diff != "" {
		t.Fatal(diff)
	}
	if exists(t, s, key) {
		t.Error("the chunk is still there")
	}
	healthy(t, s, theBatch)
}

func TestTheRowsOfALayerHaveABatch(t *testing.T) {
	c := newClock()
	s := mem.New()
	told := &events{}
	e, err := merger.New(s, told, config(t, c), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := dataset.BatchID{Dataset: "d", Batch: "b", Annotator: "lang"}
	putRun(t, s, b, "aaaaaa", nil, catalog.RunCompleted)
	putChunk(t, s, b, "aaaaaa", 0, `{"id":"a","_batch":"b","data":{"x":1}}`, `{"id":"b","_silt_x":1}`)
	res := merge(t, e, b)
	if res.Added != 1 || res.Rejected != 1 || told.all[0].Type != dataset.AnnotationUpdated || *told.all[0].Annotator != "lang" {
		t.Fatalf("%+v, %+v", res, told.all)
	}
	if diff := cmp.Diff([]string{`{"id":"a","_batch":"b","data":{"x":1}}`}, merged(t, s, b)); diff != "" {
		t.Fatal(diff)
	}
	if len(keys(t, s, "d/annotations/lang/b/merged_")) != 1 || len(keys(t, s, "d/annotations/lang/b/_rejected/")) != 1 {
		t.Error(keys(t, s, ""))
	}
	healthy(t, s, b)
}

func TestARowWithoutAnIDGetsTheOneThatEverybodyDerives(t *testing.T) {
	c := newClock()
	s := mem.New()
	e := engine(t, s, config(t, c))
	key := putChunk(t, s, theBatch, "aaaaaa", 0, ``, `{"t":1}`)
	merge(t, e, theBatch)
	want := []string{`{"id":"` + dataset.DerivedID(key, 2) + `","t":1}`}
	if diff := cmp.Diff(want, merged(t, s, theBatch)); diff != "" {
		t.Fatal(diff)
	}
}

func TestOneIDIsOneRowAndAConflictIsKept(t *testing.T) {
	c := newClock()
	s := mem.New()
	e := engine(t, s, config(t, c))
	putRun(t, s, theBatch, "aaaaaa", nil, catalog.RunOpen)
	putChunk(t, s, theBatch, "aaaaaa", 0, row("a", "merged", 50), row("m", "other", 1))
	merge(t, e, theBatch)
	putChunk(t, s, theBatch, "aaaaaa", 1,
		row("a", "merged", 60), // a retried write
		row("a", "older", 1),   // merged rows come first
		row("b", "no time", 0), row("b", "late", 9), row("b", "early", 3), row("b", "early", 4))
	res := merge(t, e, theBatch)
	if res.Added != 1 || res.Duplicates != 2 || res.IDConflicts != 3 {
		t.Fatalf("%+v", res)
	}
	if diff := cmp.Diff([]string{row("a", "merged", 50), row("b", "early", 3), row("m", "other", 1)}, merged(t, s, theBatch)); diff != "" {
		t.Fatal(diff)
	}
	kept := get(t, s, "d/b/_rejected/aaaaaa_chunk_00001.jsonl")
	for _, want := range []string{`"line":2,`, `"line":3,`, `"line":4,`, "id conflict"} {
		if !strings.Contains(kept, want) {
			t.Errorf("no %s in\n%s", want, kept)
		}
	}
	if r := record(t, s, theBatch); r.IDConflicts != 3 || r.Duplicates != 2 || r.Rejected != 0 {
		t.Errorf("%+v", r)
	}
	healthy(t, s, theBatch)
}

func TestGarbageLeavesTheRecordOnceItsFileIsGone(t *testing.T) {
	c := newClock()
	s := mem.New(mem.Config{Now: c.now})
	e := engine(t, s, config(t, c))
	for i := range 2 { // the second row falls into the block
		putChunk(t, s, theBatch, "aaaaaa", i, row(string(rune('a'+i)), "x", 1), row("z", "x", 1))
		merge(t, e, theBatch)
	}
	r := record(t, s, theBatch)
	if len(r.Garbage) != 1 {
		t.Fatalf("%+v", r.Garbage)
	}
	c.move(time.Hour)
	putChunk(t, s, theBatch, "aaaaaa", 2, row("c", "x", 1))
	merge(t, e, theBatch)
	if now := record(t, s, theBatch); now.Garbage[0] != r.Garbage[0] {
		t.Fatalf("an entry whose file is there is gone: %+v", now.Garbage)
	}
	by := catalog.Committer{By: "sweeper", Now: c.now, Commit: func() string { return "swept" }}
	c.move(time.Hour)
	if _, err := catalog.Sweep(t.Context(), s, theBatch, catalog.SweepPolicy{Grace: time.Minute}, by); err != nil {
		t.Fatal(err)
	}
	putChunk(t, s, theBatch, "aaaaaa", 3, row("d", "x", 1))
	merge(t, e, theBatch)
	for _, g := range record(t, s, theBatch).Garbage {
		if !exists(t, s, theBatch.Dir()+g.File) {
			t.Errorf("%s is gone and still listed", g.File)
		}
	}
	healthy(t, s, theBatch)
}
