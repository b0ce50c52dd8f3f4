package catalog_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

func TestABatchWithoutARecordIsNewOrHasLostIt(t *testing.T) {
	file := batch.BlockKey("merged_00000.jsonl.gz")
	legacy := batch.BlockKey("merged.parquet")
	const foreign = "foreign"
	run := func(t *testing.T, s objstore.Store, chunks int, state string) {
		m := catalog.RunManifest{Run: "a1b2c3", Dataset: batch.Dataset, Batch: batch.Batch, State: state, Chunks: chunks}
		if err := catalog.PutRun(t.Context(), s, m); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		do func(t *testing.T, s objstore.Store)
		// of the error; "" for a batch that is as good as new or has another
		// tool's manifest, foreign for one that has no manifest and is to be adopted
		want string
	}{
		"nothing there": {func(*testing.T, objstore.Store) {}, ""},
		"written, not merged": {func(t *testing.T, s objstore.Store) {
			run(t, s, 1, catalog.RunCompleted)
			put(t, s, batch.ChunkKey("a1b2c3", 0), "{}\n")
		}, ""},
		"a first merge was cut short": {func(t *testing.T, s objstore.Store) {
			run(t, s, 1, catalog.RunCompleted)
			put(t, s, batch.ChunkKey("a1b2c3", 0), "{}\n")
			put(t, s, file, "x")
		}, ""},
		"files of another tool": {func(t *testing.T, s objstore.Store) {
			put(t, s, batch.CommitKey(), "rows: 5\n")
			put(t, s, file, "x")
			put(t, s, batch.HistoryKey(0), "rows: 5\n")
		}, ""},
		"chunks were deleted, nothing was merged": {func(t *testing.T, s objstore.Store) {
			run(t, s, 1, catalog.RunCompleted)
		}, ""},
		"merged.parquet alone": {func(t *testing.T, s objstore.Store) {
			put(t, s, legacy, "x")
		}, foreign},
		"merged.parquet, with chunks of writers that a cleaner of old has merged and deleted": {func(t *testing.T, s objstore.Store) {
			run(t, s, 1, catalog.RunCompleted)
			put(t, s, legacy, "x")
			put(t, s, batch.ChunkKey("ffffff", 0), "{}\n")
		}, foreign},
		"merged.parquet, and an unfinished merge that began to adopt it": {func(t *testing.T, s objstore.Store) {
			put(t, s, legacy, "x")
			put(t, s, file, "x")
			put(t, s, batch.ChunkKey("ffffff", 0), "{}\n")
		}, foreign},
		"blocks and nothing else": {func(t *testing.T, s objstore.Store) {
			put(t, s, file, "x")
		}, foreign},
		"blocks beside live chunks of an open run": {func(t *testing.T, s objstore.Store) {
			run(t, s, 0, catalog.RunOpen)
			put(t, s, batch.ChunkKey("a1b2c3", 0), "{}\n")
			put(t, s, file, "x")
		}, ""},
		"lost after one merge": {func(t *testing.T, s objstore.Store) {
			run(t, s, 1, catalog.RunCompleted)
			put(t, s, batch.ChunkKey("ffffff", 0), "{}\n")
			put(t, s, file, "x")
		}, "any other text"},
		"lost after two": {func(t *testing.T, s objstore.Store) {
			run(t, s, 1, catalog.RunOpen)
			put(t, s, file, "x")
			put(t, s, batch.HistoryKey(1), "{}")
		}, "put " + batch.HistoryKey(1)},
	} {
		t.Run(name, func(t *testing.T) {
			s := mem.New()
			c.do(t, s)
			h, err := catalog.FindRecord(t.Context(), s, batch)
			if (h.Foreign && h.Bare()) != (c.want == foreign) {
				t.Errorf("foreign: %v, %v", h.Foreign, err)
			}
			if c.want == foreign {
				c.want = ""
			}
			if _, opened := catalog.Open(t.Context(), s, batch); (opened == nil) != (err == nil) {
				t.Errorf("Open: %v, FindRecord: %v", opened, err)
			}
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, catalog.ErrDamaged) || !strings.Contains(err.Error(), file+" lies there") || !strings.Contains(err.Error(), c.want) {
				t.Fatal(err)
			}
		})
	}
}

// beaten is a store in which the first merge commits just after somebody has
// looked for the record.
type beaten struct {
	objstore.Store
	merge func()
}

func (b *beaten) Get(ctx context.Context, key string, sp objstore.Span) (io.ReadCloser, objstore.Info, error) {
	r, info, err := b.Store.Get(ctx, key, sp)
	if key == batch.CommitKey() && b.merge != nil {
		merge := b.merge
		b.merge = nil
		merge()
	}
	return r, info, err
}

func TestARecordMadeMeanwhileIsNotLost(t *testing.T) {
	inner := mem.New()
	m := catalog.RunManifest{Run: "a1b2c3", Dataset: batch.Dataset, Batch: batch.Batch, State: catalog.RunCompleted, Chunks: 1}
	if err := catalog.PutRun(t.Context(), inner, m); err != nil {
		t.Fatal(err)
	}
	put(t, inner, batch.ChunkKey(m.Run, 0), "{}\n")
	s := &beaten{inner, func() {
		put(t, inner, batch.BlockKey("merged_00000.jsonl.gz"), "x")
		commit(t, inner, "c1", func(r *catalog.Record) {
			r.Absorb(catalog.Chunk{Batch: batch, Run: m.Run}, true)
		})
		if err := inner.Delete(context.Background(), batch.ChunkKey(m.Run, 0)); err != nil {
			t.Fatal(err)
		}
	}}
	snap, err := catalog.Open(t.Context(), s, batch)
	if err != nil || snap.Head.Record.Commit != "c1" || len(snap.Live) != 0 {
		t.Fatalf("%+v %v", snap, err)
	}
}
