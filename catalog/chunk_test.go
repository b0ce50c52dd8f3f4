package catalog_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

func TestALiveListingShowsChunksAndRunsAndNothingElse(t *testing.T) {
	for _, b := range []dataset.BatchID{batch, {Dataset: "d", Batch: "b", Annotator: "ann"}} {
		s := mem.New(mem.Config{Page: 3})
		want := catalog.Listing{}
		for _, run := range []dataset.Run{"012345", "9abcde", "a1b2c3", "fedcba"} {
			for n := range 3 {
				put(t, s, b.ChunkKey(run, n), "{}")
				want.Chunks = append(want.Chunks, catalog.Chunk{Run: run, Number: n})
			}
			put(t, s, b.RunKey(run), "{}")
			want.Runs = append(want.Runs, run)
		}
		for _, key := range []string{
			b.CommitKey(), b.BlockKey("merged_00000.jsonl.gz"), b.DigestKey("00001.bin"), b.HistoryKey(3),
			b.RejectedKey("a1b2c3_chunk_00000.jsonl"), b.LiveDir() + "zzz.jsonl", b.LiveDir() + "a1b2c3_chunk_000001.jsonl",
			b.LiveDir() + "A1B2C3_chunk_00000.jsonl", b.LiveDir() + "0/a1b2c3_chunk_00000.jsonl",
			"d/b2/a1b2c3_chunk_00000.jsonl",
		} {
			put(t, s, key, "{}")
		}
		got, err := catalog.ListLive(t.Context(), s, b)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range got.Chunks {
			if c.Batch != b || c.ETag == "" || c.Size != 2 {
				t.Fatalf("bad chunk %+v", c)
			}
			got.Chunks[i] = catalog.Chunk{Run: c.Run, Number: c.Number}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	}
}

func TestALiveListingStepsOverMergedFiles(t *testing.T) {
	s := mem.New()
	for i := range 500 {
		put(t, s, batch.RejectedKey(fmt.Sprintf("a1b2c3_chunk_%05d.jsonl", i)), "x")
		put(t, s, batch.BlockKey(dataset.BlockFile(i)), "x")
	}
	put(t, s, batch.ChunkKey("a1b2c3", 0), "{}")
	put(t, s, batch.ChunkKey("012345", 0), "{}")
	l, err := catalog.ListLive(t.Context(), s, batch)
	if err != nil || len(l.Chunks) != 2 {
		t.Fatalf("%+v, %v", l, err)
	}
}

// absorbing merges a chunk right after the first listing that shows it.
type absorbing struct {
	objstore.Store
	absorb func()
}

func (a *absorbing) Get(ctx context.Context, key string, sp objstore.Span) (io.ReadCloser, objstore.Info, error) {
	if key == batch.CommitKey() && a.absorb != nil {
		a.absorb()
		a.absorb = nil
	}
	return a.Store.Get(ctx, key, sp)
}

func TestAChunkAbsorbedWhileASnapshotIsTakenIsInItsRecord(t *testing.T) {
	inner := mem.New()
	put(t, inner, batch.ChunkKey("a1b2c3", 0), "{}")
	s := &absorbing{Store: inner, absorb: func() {
		commit(t, inner, "c1", func(r *catalog.Record) {
			r.Absorb(catalog.Chunk{Batch: batch, Run: "a1b2c3"}, true)
		})
	}}
	snap, err := catalog.Open(t.Context(), s, batch)
	if err != nil {
		t.Fatal(err)
	}
	if len(snap.Live) != 0 || snap.Head.Record.Commit != "c1" {
		t.Fatalf("the row is in neither: %+v", snap)
	}
}

func TestDatasetsAndBatchesAreTheFoldersWithLegalNames(t *testing.T) {
	s := mem.New()
	for _, key := range []string{"d/b1/x", "d/b2/x", "d/annotations/a/b/x", "d/_index/b1.meta.json", "d2/b/x", "_locks/x", "loose", batch.CommitKey()} {
		put(t, s, key, "x")
	}
	ds, err := catalog.Datasets(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"d", "d2", "日本語 a+b"}, ds); d != "" {
		t.Fatal(d)
	}
	bs, err := catalog.Batches(t.Context(), s, "d")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]dataset.BatchID{{Dataset: "d", Batch: "b1"}, {Dataset: "d", Batch: "b2"}}, bs); d != "" {
		t.Fatal(d)
	}
}

func TestARunIsClaimedByOneWriter(t *testing.T) {
	s := mem.New()
	random := []byte{1, 2, 3, 1, 2, 3, 1, 2, 3, 4, 5, 6}
	m := catalog.RunManifest{Dataset: batch.Dataset, Batch: batch.Batch, State: catalog.RunOpen}
	first, err := catalog.ClaimRun(t.Context(), s, m, bytes.NewReader(random))
	if err != nil || first.Run != "010203" {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := catalog.ClaimRun(t.Context(), s, m, bytes.NewReader(random))
	if err != nil || second.Run != "040506" {
		t.Fatalf("a taken run was claimed again: %+v, %v", second, err)
	}
}
