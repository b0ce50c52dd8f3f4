package catalog_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

// clocked is a store and a sweeper on one clock.
type clocked struct {
	*mem.Store
	now time.Time
	n   int
}

func newClocked() *clocked {
	c := &clocked{now: noon}
	c.Store = mem.New(mem.Config{Now: func() time.Time { return c.now }})
	return c
}

func (c *clocked) sweep(t *testing.T, p catalog.SweepPolicy) catalog.Swept {
	t.Helper()
	s, err := catalog.Sweep(t.Context(), c.Store, batch, p, catalog.Committer{
		By: "sweeper", Now: func() time.Time { return c.now },
		Commit: func() string { c.n++; return fmt.Sprintf("sweep%d", c.n) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (c *clocked) files(t *testing.T) []string {
	t.Helper()
	var out []string
	for info, err := range c.List(t.Context(), batch.Dir(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if k := dataset.ParseKey(info.Key); k.Kind == dataset.KindBlock || k.Kind == dataset.KindDigest || k.Kind == dataset.KindLegacy {
			out = append(out, info.Key[len(batch.Dir()):])
		}
	}
	return out
}

var tenMinutes = catalog.SweepPolicy{Grace: 10 * time.Minute}

func TestNothingIsSweptBeforeARecordExists(t *testing.T) {
	c := newClocked()
	put(t, c, batch.BlockKey("merged_00000.jsonl.gz"), "x")
	put(t, c, batch.DigestKey("00001.bin"), "x")
	c.now = c.now.Add(time.Hour)
	c.sweep(t, tenMinutes)
	put(t, c, batch.CommitKey(), "rows: 1")
	c.sweep(t, tenMinutes)
	if got := c.files(t); len(got) != 2 {
		t.Fatalf("left: %v", got)
	}
}

func TestOnlyOldFilesBelowNextFileThatNobodyNamesAreOrphans(t *testing.T) {
	c := newClocked()
	commit(t, c, "c1", func(r *catalog.Record) {
		r.NextFile = 10
		r.Blocks = []catalog.Block{{File: "merged_00001.jsonl.gz"}}
		r.Digests = []catalog.DigestFile{{File: "00002.bin"}}
		r.Garbage = []catalog.Garbage{{File: "merged_00003.jsonl.gz", Since: noon.Add(50 * time.Minute)}}
	})
	for _, f := range []string{"merged_00000.jsonl.gz", "merged_00001.jsonl.gz", "_digests/00002.bin", "merged_00003.jsonl.gz", "_digests/00004.bin", "merged_00005.parquet", "merged.parquet"} {
		put(t, c, batch.Dir()+f, "x")
	}
	for _, key := range []string{batch.RejectedKey("a1b2c3_chunk_00000.jsonl"), batch.ChunkKey("a1b2c3", 0), batch.RunKey("a1b2c3")} {
		put(t, c, key, "x")
	}
	c.now = noon.Add(55 * time.Minute)
	put(t, c, batch.BlockKey("merged_00006.jsonl.gz"), "young")
	c.sweep(t, tenMinutes)
	want := []string{"_digests/00002.bin", "merged.parquet", "merged_00001.jsonl.gz", "merged_00003.jsonl.gz", "merged_00006.jsonl.gz"}
	if d := cmp.Diff(want, c.files(t)); d != "" {
		t.Fatal(d)
	}
	if head(t, c).Record.Generation != 1 {
		t.Fatal("a sweep without strays committed")
	}
	l, err := catalog.ListLive(t.Context(), c, batch)
	if err != nil || len(l.Chunks) != 1 || len(l.Runs) != 1 {
		t.Fatalf("the sweep touched chunks or runs: %+v, %v", l, err)
	}
	c.now = noon.Add(2 * time.Hour)
	c.sweep(t, tenMinutes)
	want = []string{"_digests/00002.bin", "merged.parquet", "merged_00001.jsonl.gz"}
	if d := cmp.Diff(want, c.files(t)); d != "" {
		t.Fatal(d)
	}
}

func TestStraysAboveNextFileStayUntilTheirWritersCanNoLongerCommit(t *testing.T) {
	c := newClocked()
	commit(t, c, "c1", func(r *catalog.Record) { r.NextFile = 2 })
	late := head(t, c) // a merger that read this head, and sleeps
	put(t, c, batch.BlockKey("merged_00007.jsonl.gz"), "x")
	c.now = noon.Add(time.Hour)
	if s := c.sweep(t, tenMinutes); !s.Raised || s.Orphans != 0 {
		t.Fatalf("%+v", s)
	}
	if got := head(t, c).Record.NextFile; got != 8 {
		t.Fatalf("next_file %d", got)
	}
	if _, err := catalog.Commit(t.Context(), c, late, late.Record.Next("late", "m", noon)); err == nil {
		t.Fatal("the sleeper committed a file that the sweep will delete")
	}
	if s := c.sweep(t, tenMinutes); s.Orphans != 1 || len(c.files(t)) != 0 {
		t.Fatalf("%+v, left %v", s, c.files(t))
	}
}

func TestGarbageEntriesLeaveOnlyAfterTheirFilesWereSeenAbsent(t *testing.T) {
	c := newClocked()
	commit(t, c, "c1", func(r *catalog.Record) {
		r.NextFile = 5
		r.Garbage = []catalog.Garbage{{File: "merged_00001.jsonl.gz", Since: noon}, {File: "_digests/00002.bin", Since: noon}, {File: "merged.parquet", Since: noon}}
	})
	for _, f := range []string{"merged_00001.jsonl.gz", "merged.parquet"} {
		put(t, c, batch.Dir()+f, "x")
	}
	gone, err := catalog.GoneGarbage(t.Context(), c, head(t, c))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]bool{"_digests/00002.bin": true}, gone); d != "" {
		t.Fatal(d)
	}
	c.now = noon.Add(time.Hour)
	c.sweep(t, tenMinutes)
	if len(c.files(t)) != 0 {
		t.Fatalf("left %v", c.files(t))
	}
	if len(head(t, c).Record.Garbage) != 3 {
		t.Fatal("the sweep dropped entries of a record that it did not read after deleting")
	}
	gone, err = catalog.GoneGarbage(t.Context(), c, head(t, c))
	if err != nil || len(gone) != 3 {
		t.Fatalf("%v, %v", gone, err)
	}
}

func TestHistoryKeepsTheLastRecordsAndTheBlocksThatWereCurrentLately(t *testing.T) {
	c := newClocked()
	for i := range catalog.HistoryKeep + 20 {
		h := head(t, c)
		next := h.Record.Next(fmt.Sprint(i), "m", c.now)
		next.NextFile = i + 1
		next.Blocks = []catalog.Block{{File: dataset.BlockFile(i)}}
		for _, b := range h.Record.Blocks {
			next.Garbage = append(next.Garbage, catalog.GarbageBlock(b, c.now))
		}
		put(t, c, batch.BlockKey(dataset.BlockFile(i)), "x")
		if _, err := catalog.Commit(t.Context(), c, h, next); err != nil {
			t.Fatal(err)
		}
		c.now = c.now.Add(time.Minute)
	}
	c.sweep(t, catalog.SweepPolicy{Grace: time.Minute, HistoryMaxAge: 30*time.Minute + time.Second})
	n := 0
	for _, err := range c.List(t.Context(), batch.HistoryDir(), "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != catalog.HistoryKeep {
		t.Fatalf("%d records kept", n)
	}
	// Now is a minute after the last commit: the record before it was current
	// until then, and 29 more ceased to be current within the thirty minutes.
	if got := len(c.files(t)); got != 31 {
		t.Fatalf("%d blocks left: %v", got, c.files(t))
	}
	c.sweep(t, catalog.SweepPolicy{Grace: time.Minute})
	if got := len(c.files(t)); got != 2 { // the current block, and one within grace
		t.Fatalf("%d blocks left without history: %v", got, c.files(t))
	}
}

func TestASweepThatLosesItsCommitLeavesTheRecordAlone(t *testing.T) {
	c := newClocked()
	commit(t, c, "c1", func(r *catalog.Record) { r.NextFile = 1 })
	put(t, c, batch.BlockKey("merged_00004.jsonl.gz"), "x")
	c.now = noon.Add(time.Hour)
	_, err := catalog.Sweep(t.Context(), c.Store, batch, tenMinutes, catalog.Committer{
		By: "sweeper", Now: func() time.Time { return c.now },
		Commit: func() string { commit(t, c, "c2", nil); return "s" },
	})
	if err != nil || head(t, c).Record.Commit != "c2" {
		t.Fatalf("%v, %+v", err, head(t, c).Record)
	}
}
