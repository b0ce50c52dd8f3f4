package index_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/index"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

func record(b dataset.BatchID, generation int64, blocks ...catalog.Block) catalog.Record {
	r := catalog.Record{Version: 1, Dataset: b.Dataset, Batch: b.Batch, Generation: generation, Commit: "c", Blocks: blocks, NextFile: 8}
	if b.Annotator != "" {
		r.Annotator = &b.Annotator
	}
	return r
}

func TestASummaryOfTheWholeBatch(t *testing.T) {
	r := record(batch, 17,
		catalog.Block{File: dataset.BlockFile(5), Rows: 2, FirstID: "a", LastID: "c"},
		catalog.Block{File: dataset.BlockFile(7), Rows: 3, FirstID: "d", LastID: "f"},
		catalog.Block{File: "merged.parquet", Rows: 0})
	want := index.Meta{Version: 1, Generation: 17, Commit: "c", Rows: 5, MinID: "a", MaxID: "f", Blocks: []index.MetaBlock{
		{File: "merged_00005.jsonl.gz", Rows: 2, FirstID: "a", LastID: "c", Indexed: true},
		{File: "merged_00007.jsonl.gz", Rows: 3, FirstID: "d", LastID: "f"},
		{File: "merged.parquet"},
	}}
	m := index.Summarize(r, map[int]bool{5: true, 0: true})
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
	s := mem.New()
	if _, err := index.ReadMeta(t.Context(), s, batch); !errors.Is(err, objstore.ErrNotFound) {
		t.Error(err)
	}
	if err := index.PutMeta(t.Context(), s, batch, m); err != nil {
		t.Fatal(err)
	}
	got, err := index.ReadMeta(t.Context(), s, batch)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnEarlierGenerationDoesNotReplaceALaterSummary(t *testing.T) {
	s := mem.New()
	for _, g := range []int64{1, 3, 2} {
		if err := index.PutMeta(t.Context(), s, batch, index.Summarize(record(batch, g), nil)); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := index.ReadMeta(t.Context(), s, batch); err != nil || m.Generation != 3 {
		t.Errorf("generation %d, %v", m.Generation, err)
	}
}

func TestADamagedSummaryIsWrittenAgain(t *testing.T) {
	s := mem.New()
	if _, err := s.Put(t.Context(), batch.IndexMetaKey(), []byte(`{"version":1,`), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	if err := index.PutMeta(t.Context(), s, batch, index.Summarize(record(batch, 1), nil)); err != nil {
		t.Fatal(err)
	}
	if m, err := index.ReadMeta(t.Context(), s, batch); err != nil || m.Generation != 1 {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestOnlyIndexesThatNoLaterRecordCanNeedArePruned(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, b := range []dataset.BatchID{batch, layer} {
		s := mem.New()
		for n := range 10 {
			if _, err := s.Put(t.Context(), b.IndexKey(n), []byte("x"), objstore.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		r := record(b, 3, catalog.Block{File: dataset.BlockFile(5)}, catalog.Block{File: "merged_00001.parquet"})
		r.Garbage = []catalog.Garbage{
			{File: dataset.BlockFile(2), Since: now.Add(-time.Hour)},
			{File: dataset.BlockFile(3), Since: now},
			{File: "_digests/00004.bin", Since: now},
		}
		have, err := index.Numbers(t.Context(), s, b)
		if err != nil {
			t.Fatal(err)
		}
		n, err := index.Prune(t.Context(), s, r, have, now.Add(-10*time.Minute))
		if err != nil || n != 5 {
			t.Errorf("pruned %d, %v", n, err)
		}
		left, err := index.Numbers(t.Context(), s, b)
		if err != nil {
			t.Fatal(err)
		}
		// 3 was replaced just now; 8 and 9 are not below next_file.
		want := map[int]bool{1: true, 3: true, 5: true, 8: true, 9: true}
		if diff := cmp.Diff(want, left); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Error(diff)
		}
	}
}
