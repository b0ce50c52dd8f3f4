package merger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

// rewrite changes the commit record in place, as no merger would.
func rewrite(t *testing.T, s objstore.Store, change func(r *catalog.Record)) {
	t.Helper()
	r := record(t, s, theBatch)
	change(&r)
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, theBatch.CommitKey(), string(raw))
}

func TestVerifyFindsEachKindOfDamage(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(t *testing.T, s objstore.Store)
		key  string
		what string
	}{
		"a block is missing": {func(t *testing.T, s objstore.Store) {
			remove(t, s, theBatch.BlockKey(record(t, s, theBatch).Blocks[1].File))
		}, "merged_", "not there"},
		"a byte of a block is another": {func(t *testing.T, s objstore.Store) {
			flip(t, s, theBatch.BlockKey(record(t, s, theBatch).Blocks[0].File), 60)
		}, "merged_", "damaged"},
		"a block has a frame more": {func(t *testing.T, s objstore.Store) {
			key := theBatch.BlockKey(record(t, s, theBatch).Blocks[0].File)
			body := get(t, s, key)
			put(t, s, key, zipped(t)+body) // a member more
		}, "merged_", "damaged"},
		"counters do not add up": {func(t *testing.T, s objstore.Store) {
			rewrite(t, s, func(r *catalog.Record) { r.Rows++ })
		}, "manifest.yaml", "rows is"},
		"raw bytes of a block are wrong": {func(t *testing.T, s objstore.Store) {
			rewrite(t, s, func(r *catalog.Record) { r.RawBytes++; r.Blocks[0].RawBytes++ })
		}, "merged_", "its rows have"},
		"ids of a block are wrong": {func(t *testing.T, s objstore.Store) {
			rewrite(t, s, func(r *catalog.Record) { r.Blocks[0].LastID += "x" })
		}, "merged_", "its ids are"},
		"ranges overlap": {func(t *testing.T, s objstore.Store) {
			rewrite(t, s, func(r *catalog.Record) { r.Blocks[0].LastID = r.Blocks[1].FirstID })
		}, "manifest.yaml", "not past"},
		"blocks are out of order": {func(t *testing.T, s objstore.Store) {
			rewrite(t, s, func(r *catalog.Record) { r.Blocks[0], r.Blocks[1] = r.Blocks[1], r.Blocks[0] })
		}, "manifest.yaml", "order"},
		"the generation is none": {func(t *testing.T, s objstore.Store) {
			rewrite(t, s, func(r *catalog.Record) { r.Generation = 0 })
		}, "manifest.yaml", "generation is 0"},
		"a live chunk is gone": {func(t *testing.T, s objstore.Store) {
			m := catalog.RunManifest{Run: "dddddd", Dataset: theBatch.Dataset, Batch: theBatch.Batch, State: catalog.RunCompleted, Chunks: 2}
			if err := catalog.PutRun(t.Context(), s, m); err != nil {
				t.Fatal(err)
			}
			putChunk(t, s, theBatch, "dddddd", 1, a)
		}, "dddddd.manifest.json", "a chunk, number 0, that is neither merged nor there"},
		"the manifest of a closed run is damaged": {func(t *testing.T, s objstore.Store) {
			for run := range record(t, s, theBatch).Runs {
				put(t, s, theBatch.RunKey(run), "{")
			}
		}, "d/b/", "manifest.json: "},
		"next_file is too low": {func(t *testing.T, s objstore.Store) {
			rewrite(t, s, func(r *catalog.Record) { r.NextFile = 1 })
		}, "manifest.yaml", "next_file"},
		"a file is named twice": {func(t *testing.T, s objstore.Store) {
			rewrite(t, s, func(r *catalog.Record) { r.Garbage = append(r.Garbage, r.Garbage[0]) })
		}, "manifest.yaml", "twice"},
		"the digest file is missing": {func(t *testing.T, s objstore.Store) {
			remove(t, s, theBatch.DigestKey(record(t, s, theBatch).Digests[0].File))
		}, "_digests/", "not there"},
		"the digest file is another": {func(t *testing.T, s objstore.Store) {
			flip(t, s, theBatch.DigestKey(record(t, s, theBatch).Digests[0].File), 20)
		}, "_digests/", "damaged"},
		"the digest file is cut": {func(t *testing.T, s objstore.Store) {
			key := theBatch.DigestKey(record(t, s, theBatch).Digests[0].File)
			put(t, s, key, get(t, s, key)[:40])
		}, "_digests/", "too many"},
		"digests are on other columns": {func(t *testing.T, s objstore.Store) {
			rewrite(t, s, func(r *catalog.Record) { r.DeduplicateOn = []string{"id"} })
		}, "_digests/", "columns"},
		"no digests": {func(t *testing.T, s objstore.Store) {
			rewrite(t, s, func(r *catalog.Record) { r.Digests = nil })
		}, "", "digests"},
		"history is damaged": {func(t *testing.T, s objstore.Store) {
			put(t, s, theBatch.HistoryKey(1), "{")
		}, "_history/", "no commit record"},
		"history is another generation": {func(t *testing.T, s objstore.Store) {
			put(t, s, theBatch.HistoryKey(1), get(t, s, theBatch.CommitKey()))
		}, "_history/", "generation"},
		"a live chunk cannot be read whole": {nil, "_chunk_", "whole"},
	} {
		t.Run(name, func(t *testing.T) {
			c2 := newClock()
			var s objstore.Store = busy(t, c2, []string{"k"})
			if c.do != nil {
				c.do(t, s)
			} else {
				s = objtest.NewFaulty(t, s, objtest.On(objtest.Get).Key("*aaaaaa_chunk_00002*").Cut(10))
			}
			rep, err := merger.Verify(t.Context(), s, theBatch)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range rep.Problems {
				if strings.Contains(p.Key, c.key) && strings.Contains(p.What, c.what) {
					return
				}
			}
			t.Errorf("found %+v", rep.Problems)
		})
	}
}

func remove(t *testing.T, s objstore.Store, key string) {
	t.Helper()
	if err := s.Delete(context.Background(), key); err != nil {
		t.Fatal(err)
	}
}

func flip(t *testing.T, s objstore.Store, key string, at int) {
	t.Helper()
	body := []byte(get(t, s, key))
	body[at] ^= 1
	put(t, s, key, string(body))
}

func TestVerifyNotesWhatAMergeOrASweepWillSeeTo(t *testing.T) {
	s := busy(t, newClock(), []string{"k"})
	put(t, s, "d/b/merged_00003.jsonl.gz", "an orphan")
	put(t, s, "d/b/merged_00077.jsonl.gz", "a stray")
	put(t, s, "d/b/_history/notes.txt", "?")
	put(t, s, "d/b/data.jsonl", a)
	put(t, s, "d/b/AAAAAA_chunk_00000.jsonl", a)
	put(t, s, "d/b/", "")
	rep, err := merger.Verify(t.Context(), s, theBatch)
	if err != nil || !rep.OK() {
		t.Fatalf("%+v, %v", rep, err)
	}
	if rep.Rows != 16 || rep.LiveChunks != 2 || rep.LiveRows != 6 || rep.Rejected != 2 || rep.Generation != 2 || rep.Blocks != 3 {
		t.Errorf("%+v", rep)
	}
	notes := ""
	for _, n := range rep.Notes {
		notes += n.Key + ": " + n.What + "\n"
	}
	for _, want := range []string{"absorbed, and still there", "lines will be rejected", "merged_00077.jsonl.gz: not named", "merged_00003.jsonl.gz: an orphan", "wait for the sweeper",
		"notes.txt: not a file of the format", "data.jsonl: not a file", "AAAAAA_chunk_00000.jsonl: not a file"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in\n%s", want, notes)
		}
	}
}

func TestVerifyOfABatchWithoutARecord(t *testing.T) {
	s := mem.New()
	putChunk(t, s, theBatch, "aaaaaa", 0, a)
	rep, err := merger.Verify(t.Context(), s, theBatch)
	if err != nil || !rep.OK() || rep.LiveRows != 1 || rep.Generation != 0 || len(rep.Notes) != 1 {
		t.Errorf("%+v, %v", rep, err)
	}
	put(t, s, "d/b/merged.parquet", "?")
	put(t, s, "d/b/merged_00000.jsonl.gz", "?")
	put(t, s, "d/b/_rejected/merged.parquet", "?")
	if rep, err = merger.Verify(t.Context(), s, theBatch); err != nil || len(rep.Notes) != 3 {
		t.Errorf("%+v, %v", rep, err)
	}
	m := catalog.RunManifest{Run: "aaaaaa", Dataset: theBatch.Dataset, Batch: theBatch.Batch, State: catalog.RunCompleted, Chunks: 3}
	if err := catalog.PutRun(t.Context(), s, m); err != nil {
		t.Fatal(err)
	}
	if rep, err = merger.Verify(t.Context(), s, theBatch); err != nil || len(rep.Problems) != 2 || !strings.Contains(rep.Problems[0].What, "it is gone") || !strings.Contains(rep.Problems[1].What, "2 chunks, from number 1 on") {
		t.Errorf("a deleted record is not noticed: %+v, %v", rep, err)
	}
	rep, err = merger.Verify(t.Context(), foreign(t), theBatch)
	if err != nil || len(rep.Problems) != 1 || !strings.Contains(rep.Problems[0].What, "line 3: ") || len(rep.Notes) != 1 {
		t.Errorf("%+v, %v", rep, err)
	}
}

func TestVerifyLooksAgainWhereAMergerWasAtWork(t *testing.T) {
	now := newClock()
	s := busy(t, now, []string{"k"})
	// between the record and the first block: a merge, and a sweep that removes
	// what it replaced
	merged := false
	live := hooked{s, t, func(verb, key string, do func() error) error {
		if verb == objtest.Get && strings.Contains(key, "merged_") && !merged {
			merged = true
			merge(t, engine(t, s, config(t, now)), theBatch)
			now.move(1 << 40)
			by := catalog.Committer{By: "sweeper", Now: now.now, Commit: func() string { return "swept" }}
			if _, err := catalog.Sweep(context.Background(), s, theBatch, catalog.SweepPolicy{}, by); err != nil {
				t.Error(err)
			}
		}
		return do()
	}}
	rep, err := merger.Verify(t.Context(), live, theBatch)
	if err != nil || !rep.OK() || rep.Generation < 3 || !merged {
		t.Errorf("%+v, %v", rep, err)
	}
}

func TestDamageStopsAMergeAndNamesTheObject(t *testing.T) {
	for _, c := range []struct {
		name, key string
		do        func(t *testing.T, s objstore.Store, key string)
	}{
		{"a block with another byte", "merged_", func(t *testing.T, s objstore.Store, key string) { flip(t, s, key, 60) }},
		{"a block without its rows", "merged_", func(t *testing.T, s objstore.Store, key string) { put(t, s, key, zipped(t)) }},
		{"a missing block", "merged_", func(t *testing.T, s objstore.Store, key string) { remove(t, s, key) }},
		{"a digest file with another byte", "_digests/", func(t *testing.T, s objstore.Store, key string) { flip(t, s, key, 20) }},
		{"a missing digest file", "_digests/", func(t *testing.T, s objstore.Store, key string) { remove(t, s, key) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := busy(t, newClock(), []string{"k"})
			r := record(t, s, theBatch)
			key := theBatch.BlockKey(r.Blocks[0].File)
			if c.key != "merged_" {
				key = theBatch.DigestKey(r.Digests[0].File)
			}
			c.do(t, s, key)
			res, err := engine(t, s, config(t, newClock())).Merge(t.Context(), theBatch)
			if err == nil || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "generation 2") || !errorsIsDamaged(err) || res.Attempts != 2 {
				t.Fatalf("%+v, %v", res, err)
			}
			if now := record(t, s, theBatch); now.Commit != r.Commit {
				t.Error("it was committed")
			}
		})
	}
}

func TestABatchThatHasLostItsRecordIsNotBegunAnew(t *testing.T) {
	for name, merges := range map[string]int{"after one merge": 1, "after two": 2} {
		t.Run(name, func(t *testing.T) {
			s := mem.New()
			e := engine(t, s, config(t, newClock()))
			m := catalog.RunManifest{Run: "aaaaaa", Dataset: theBatch.Dataset, Batch: theBatch.Batch, State: catalog.RunCompleted, Chunks: 1}
			if err := catalog.PutRun(t.Context(), s, m); err != nil {
				t.Fatal(err)
			}
			putChunk(t, s, theBatch, "aaaaaa", 0, a)
			for i := range merges {
				putChunk(t, s, theBatch, "bbbbbb", i, row(fmt.Sprint("b", i), "k", i))
				merge(t, e, theBatch)
			}
			was := get(t, s, theBatch.CommitKey())
			remove(t, s, theBatch.CommitKey())
			putChunk(t, s, theBatch, "cccccc", 0, row("z", "k", 9))
			_, err := e.Merge(t.Context(), theBatch)
			if !errors.Is(err, catalog.ErrDamaged) || exists(t, s, theBatch.CommitKey()) {
				t.Errorf("begun anew: %v", err)
			}
			if says := strings.Contains(err.Error(), theBatch.HistoryDir()); says != (merges > 1) {
				t.Errorf("there are %d records in history: %v", merges-1, err)
			}
			put(t, s, theBatch.CommitKey(), was)
			if r := merge(t, e, theBatch); r.Rows != int64(merges)+2 {
				t.Errorf("%+v", r)
			}
			healthy(t, s, theBatch)
		})
	}
}

func TestALostFirstRecordIsMadeAgainFromWhatLiesThere(t *testing.T) {
	s := mem.New()
	e := engine(t, s, config(t, newClock()))
	putRun(t, s, theBatch, "aaaaaa", []string{"k"}, catalog.RunCompleted)
	putChunk(t, s, theBatch, "aaaaaa", 0, row("a", "1", 1), row("b", "1", 2), row("c", "2", 3))
	merge(t, e, theBatch)
	want := merged(t, s, theBatch)
	put(t, s, theBatch.CommitKey(), "lost")
	putChunk(t, s, theBatch, "bbbbbb", 0, row("a", "1", 1))
	merge(t, e, theBatch)
	if diff := cmp.Diff(want, merged(t, s, theBatch)); diff != "" {
		t.Error(diff)
	}
	healthy(t, s, theBatch)
}
