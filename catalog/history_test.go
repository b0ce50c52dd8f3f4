package catalog_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

// generations commits n records, a minute apart, the first one at noon, each
// with a block of its own.
func generations(t *testing.T, s objstore.Store, n int) {
	t.Helper()
	for i := range n {
		h := head(t, s)
		next := h.Record.Next(fmt.Sprint("c", i+1), "m", noon.Add(time.Duration(i)*time.Minute))
		next.NextFile = i + 1
		next.Blocks = []catalog.Block{{File: dataset.BlockFile(i)}}
		put(t, s, batch.BlockKey(dataset.BlockFile(i)), "x")
		if _, err := catalog.Commit(t.Context(), s, h, next); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAGenerationIsReadFromHistoryOrIsTheCurrentOne(t *testing.T) {
	s := mem.New()
	if _, err := catalog.HeadOf(t.Context(), s, batch, 1); !errors.Is(err, catalog.ErrNotKept) {
		t.Fatalf("without a record: %v", err)
	}
	generations(t, s, 4)
	for g := int64(1); g <= 4; g++ {
		h, err := catalog.HeadOf(t.Context(), s, batch, g)
		if err != nil || h.Record.Commit != fmt.Sprint("c", g) || !h.Exists() {
			t.Fatalf("generation %d: %+v, %v", g, h.Record, err)
		}
	}
	remove(t, s, batch.HistoryKey(2))
	for _, g := range []int64{-1, 0, 2, 5} {
		if _, err := catalog.HeadOf(t.Context(), s, batch, g); !errors.Is(err, catalog.ErrNotKept) || !strings.Contains(err.Error(), fmt.Sprint("generation ", g)) {
			t.Fatalf("generation %d: %v", g, err)
		}
	}
	put(t, s, batch.HistoryKey(3), `{"version":1,"commit":"c9","dataset":"other","batch":"b","generation":3}`)
	if _, err := catalog.HeadOf(t.Context(), s, batch, 3); !errors.Is(err, catalog.ErrDamaged) || !strings.Contains(err.Error(), batch.HistoryKey(3)) {
		t.Fatal(err)
	}
}

func TestATimeGivesTheRecordThatWasCurrentThen(t *testing.T) {
	s := mem.New()
	if h, existed, err := catalog.HeadAt(t.Context(), s, batch, noon); err != nil || existed || h.Exists() {
		t.Fatalf("without a record: %+v, %v", h, err)
	}
	generations(t, s, 4)
	for _, c := range []struct {
		after time.Duration
		want  string
	}{
		{-time.Second, ""}, {0, "c1"}, {59 * time.Second, "c1"}, {time.Minute, "c2"}, {2*time.Minute + 1, "c3"}, {3 * time.Minute, "c4"}, {time.Hour, "c4"},
	} {
		h, existed, err := catalog.HeadAt(t.Context(), s, batch, noon.Add(c.after))
		if err != nil || !existed || h.Record.Commit != c.want || h.Exists() != (c.want != "") {
			t.Errorf("%s after the first commit: %+v, %v", c.after, h.Record, err)
		}
	}
}

func TestATimeThatHistoryDoesNotKnowIsRefused(t *testing.T) {
	s := mem.New()
	generations(t, s, 5)
	remove(t, s, batch.HistoryKey(3)) // as after a record was lost
	if h, _, err := catalog.HeadAt(t.Context(), s, batch, noon.Add(3*time.Minute)); err != nil || h.Record.Generation != 4 {
		t.Fatalf("%+v, %v", h.Record, err)
	}
	for _, after := range []time.Duration{-time.Hour, time.Minute, 2 * time.Minute} {
		_, _, err := catalog.HeadAt(t.Context(), s, batch, noon.Add(after))
		if !errors.Is(err, catalog.ErrNotKept) || !strings.Contains(err.Error(), "generation 4") {
			t.Errorf("%s after the first commit: %v", after, err)
		}
	}
}

func TestHistoryTellsWhatCanStillBeRead(t *testing.T) {
	s := mem.New()
	generations(t, s, 4)
	remove(t, s, batch.BlockKey(dataset.BlockFile(0)))
	put(t, s, batch.HistoryKey(2), "rubbish\n")
	put(t, s, batch.HistoryKey(0), "of another tool")
	all, err := catalog.History(t.Context(), s, batch)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range all {
		got = append(got, fmt.Sprint(p.Generation, p.Current, p.Readable(), p.Gone, p.Damaged != ""))
	}
	if d := cmp.Diff([]string{"4 true true 0 false", "3 false true 0 false", "2 false false 0 true", "1 false false 1 false"}, got); d != "" {
		t.Fatal(d)
	}
}

func TestAPlannedSweepDoesNothingUntilItIsCarriedOut(t *testing.T) {
	c := newClocked()
	commit(t, c, "c1", func(r *catalog.Record) {
		r.NextFile = 5
		r.Garbage = []catalog.Garbage{{File: "merged_00001.jsonl.gz", Since: noon}}
	})
	for _, f := range []string{"merged_00001.jsonl.gz", "_digests/00002.bin", "merged_00007.jsonl.gz"} {
		put(t, c, batch.Dir()+f, "four")
	}
	c.now = noon.Add(time.Hour)
	plan, err := catalog.PlanSweep(t.Context(), c.Store, batch, tenMinutes, c.now)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]catalog.Doomed{{Key: batch.BlockKey("merged_00001.jsonl.gz"), Size: 4}}, plan.Garbage); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]catalog.Doomed{{Key: batch.DigestKey("00002.bin"), Size: 4}}, plan.Orphans); d != "" {
		t.Error(d)
	}
	if plan.RaiseTo != 8 || len(c.files(t)) != 3 || head(t, c).Record.Generation != 1 {
		t.Fatalf("%+v, left %v", plan, c.files(t))
	}
}

func TestTheBatchesOfLayersAreListedToo(t *testing.T) {
	s := mem.New()
	layer := dataset.BatchID{Dataset: "d", Batch: "x=1", Annotator: "A"}
	live := dataset.BatchID{Dataset: "d", Batch: "y", Annotator: "A"}
	put(t, s, dataset.BatchID{Dataset: "d", Batch: "x=1"}.CommitKey(), "x")
	put(t, s, layer.CommitKey(), "x")
	put(t, s, layer.ChunkKey("a1b2c3", 0), "x")
	put(t, s, live.ChunkKey("a1b2c3", 0), "x")
	put(t, s, layer.IndexMetaKey(), "x")
	put(t, s, "d/annotations/A/.temp/.lock", "x")
	put(t, s, "d/annotations/A/.temp/chunk_00000.jsonl", "x")
	got, err := catalog.AllBatches(t.Context(), s, "d")
	if d := cmp.Diff([]dataset.BatchID{{Dataset: "d", Batch: "x=1"}, layer, live}, got); err != nil || d != "" {
		t.Fatal(err, d)
	}
}

func remove(t *testing.T, s objstore.Store, key string) {
	t.Helper()
	if err := s.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}
