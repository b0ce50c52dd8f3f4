package catalog_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
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
		}, "--repair"},
		"lost after two": {func(t *testing.T, s objstore.Store) {
			run(t, s, 1, catalog.RunOpen)
			put(t, s, file, "x")
			put(t, s, batch.HistoryKey(1), "{}")
		}, "so does " + batch.HistoryKey(1)},
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

func TestALostRecordIsFollowedByOneThatRemembersWhatHistoryKnows(t *testing.T) {
	s := mem.New()
	generations(t, s, 3)
	commit(t, s, "c4", func(r *catalog.Record) {
		r.Runs = map[dataset.Run]catalog.RunState{"a1b2c3": {DeduplicateOn: []string{"t"}, State: catalog.RunOpen}}
		r.Absorb(catalog.Chunk{Batch: batch, Run: "a1b2c3", Number: 7}, true)
		r.Absorb(catalog.Chunk{Batch: batch, Run: "ffffff", ETag: "e"}, false)
		r.Duplicates, r.Rejected, r.IDConflicts, r.Rows = 5, 6, 7, 8
	})
	commit(t, s, "c5", nil) // c4 is in history now
	known := head(t, s).Record
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"it is there", func() {}},
		{"the record is gone", func() { remove(t, s, batch.CommitKey()) }},
		{"it is damaged", func() { put(t, s, batch.CommitKey(), `{"version":1,"comm`) }},
		{"so is the newest one kept", func() { put(t, s, batch.HistoryKey(5), "{") }},
		{"another tool's lies there", func() { put(t, s, batch.CommitKey(), "rows: 5\n") }},
	} {
		name, do := step.name, step.do
		t.Run(name, func(t *testing.T) {
			do()
			h, was, err := catalog.ReadLost(t.Context(), s, batch)
			if err != nil {
				t.Fatal(err)
			}
			if name == "it is there" {
				if !h.Exists() || h.Record.Commit != "c5" {
					t.Fatalf("%+v", h)
				}
				return
			}
			if h.Exists() || h.Lost == h.Foreign || len(h.Record.Blocks) > 0 || h.Record.NextFile != known.NextFile || h.Record.Rows != 0 {
				t.Fatalf("%+v", h)
			}
			if was.Generation != 4 || h.Record.Generation < 5 || h.Record.Generation > 6 {
				t.Fatalf("known is %d, the next builds on %d", was.Generation, h.Record.Generation)
			}
			if h.Lost && (h.Record.Duplicates != 5 || !h.Record.Runs["a1b2c3"].Absorbed.Has(7) || !h.Record.Absorbed(catalog.Chunk{Batch: batch, Run: "ffffff", ETag: "e"})) {
				t.Fatalf("%+v", h.Record)
			}
			if h.Foreign && len(h.Record.Runs) > 0 {
				t.Fatalf("%+v", h.Record)
			}
		})
	}
}

func TestWhatIsNoRecordIsKeptWhereNoRecordIs(t *testing.T) {
	s := mem.New()
	generations(t, s, 2)
	put(t, s, batch.CommitKey(), `{"version":1,"comm`)
	for range 2 {
		h, _, err := catalog.ReadLost(t.Context(), s, batch)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := catalog.Commit(t.Context(), s, h, h.Record.Next("new", "m", noon)); err != nil {
			t.Fatal(err)
		}
		if raw, _, err := objstore.ReadAll(t.Context(), s, batch.HistoryKey(0)); err != nil || string(raw) != `{"version":1,"comm` {
			t.Fatalf("%q, %v", raw, err)
		}
		put(t, s, batch.CommitKey(), "something else\n")
	}
}

func TestMissingChunksOfCompletedRunsWereAbsorbedByTheLostRecord(t *testing.T) {
	s := mem.New()
	if err := catalog.PutRun(t.Context(), s, catalog.RunManifest{Run: "a1b2c3", Dataset: batch.Dataset, Batch: batch.Batch, State: catalog.RunCompleted, Chunks: 9}); err != nil {
		t.Fatal(err)
	}
	if err := catalog.PutRun(t.Context(), s, catalog.RunManifest{Run: "bbbbbb", Dataset: batch.Dataset, Batch: batch.Batch, State: catalog.RunOpen, Chunks: 9}); err != nil {
		t.Fatal(err)
	}
	put(t, s, batch.ChunkKey("a1b2c3", 4), "{}\n")
	put(t, s, batch.ChunkKey("bbbbbb", 4), "{}\n")
	l, err := catalog.ListLive(t.Context(), s, batch)
	if err != nil {
		t.Fatal(err)
	}
	runs := map[dataset.Run]catalog.RunState{"a1b2c3": {State: catalog.RunCompleted}, "bbbbbb": {State: catalog.RunOpen}}
	old, err := catalog.ParseRanges("1,8,20")
	if err != nil {
		t.Fatal(err)
	}
	h := catalog.Head{Record: catalog.Record{Runs: map[dataset.Run]catalog.RunState{"a1b2c3": {Absorbed: old}}}}
	runs["a1b2c3"] = catalog.RunState{State: catalog.RunCompleted, Absorbed: old}
	if _, err := catalog.AbsorbMissing(t.Context(), s, batch, h, l, runs); err != nil {
		t.Fatal(err)
	}
	if got := runs["a1b2c3"].Absorbed.String(); got != "0-3,5-8,20" {
		t.Errorf("absorbed %s", got)
	}
	if got := runs["bbbbbb"].Absorbed.String(); got != "" {
		t.Errorf("of the open run: %s", got)
	}
}
