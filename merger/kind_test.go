package merger_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

func kindsOf(r catalog.Record) (gzip, parquet int) {
	for _, b := range r.Blocks {
		if dataset.IsParquetBlock(b.File) {
			parquet++
		} else {
			gzip++
		}
	}
	return gzip, parquet
}

func TestABatchGoesOverToParquetAndStays(t *testing.T) {
	s := mem.New()
	size, failing := int64(10), error(nil)
	cfg := config(t, newClock())
	cfg.MaxJSONLBytes = 100_000
	cfg.DatasetBytes = func(context.Context, string) (int64, error) { return size, failing }
	e := engine(t, s, cfg)
	var want []string
	chunk := 0
	add := func(from, n int) {
		var lines []string
		for i := range n {
			lines = append(lines, fmt.Sprintf(`{"id":"%05d","t":"caf\\u00e9","n":1.0, "lone":"\\ud800","big":9223372036854775808,"e":1e400}`, from+i))
		}
		want = append(want, lines...)
		putChunk(t, s, theBatch, "aaaaaa", chunk, lines...)
		chunk++
		merge(t, e, theBatch)
		healthy(t, s, theBatch)
		if diff := cmp.Diff(want, merged(t, s, theBatch)); diff != "" {
			t.Fatal(diff)
		}
	}
	add(0, 16)
	if gzip, parquet := kindsOf(record(t, s, theBatch)); gzip != 2 || parquet != 0 {
		t.Fatalf("below the limit: %d and %d", gzip, parquet)
	}
	size = 100_001
	failing = errors.New("the catalog is away")
	add(16, 8)
	if _, parquet := kindsOf(record(t, s, theBatch)); parquet != 0 {
		t.Fatalf("with a size that nobody knows: %d", parquet)
	}
	failing = nil
	add(24, 8)
	if gzip, parquet := kindsOf(record(t, s, theBatch)); gzip != 3 || parquet != 1 {
		t.Fatalf("over the limit: %d and %d", gzip, parquet)
	}
	size = 0
	add(32, 8)
	if gzip, parquet := kindsOf(record(t, s, theBatch)); gzip != 3 || parquet != 2 {
		t.Fatalf("below it again: %d and %d", gzip, parquet)
	}

	// Rows among those of blocks of both kinds let them be written anew.
	putChunk(t, s, theBatch, "aaaaaa", chunk, `{"id":"00001a"}`, `{"id":"00025a"}`)
	merge(t, e, theBatch)
	healthy(t, s, theBatch)
	if n := len(merged(t, s, theBatch)); n != 42 {
		t.Errorf("%d rows", n)
	}
	if gzip, parquet := kindsOf(record(t, s, theBatch)); gzip >= 3 || parquet < 3 {
		t.Errorf("written anew: %d and %d", gzip, parquet)
	}
	// A list to deduplicate on decides all rows again.
	putRun(t, s, theBatch, "bbbbbb", []string{"t"}, catalog.RunCompleted)
	res := merge(t, e, theBatch)
	healthy(t, s, theBatch)
	if r := record(t, s, theBatch); !res.FullPass || r.Rows != 2 { // one with t, one without
		t.Errorf("%+v: %d rows", res, r.Rows)
	}
}

func TestALayerStaysLines(t *testing.T) {
	s := mem.New()
	cfg := config(t, newClock())
	cfg.MaxJSONLBytes = 1
	cfg.DatasetBytes = func(context.Context, string) (int64, error) { return 1 << 40, nil }
	layer := dataset.BatchID{Dataset: "d", Batch: "b", Annotator: "a"}
	putChunk(t, s, layer, "aaaaaa", 0, `{"id":"a","_batch":"b","data":{"x":1}}`)
	merge(t, engine(t, s, cfg), layer)
	if gzip, parquet := kindsOf(record(t, s, layer)); gzip != 1 || parquet != 0 {
		t.Errorf("%d and %d", gzip, parquet)
	}
}

func TestADamagedParquetBlockIsNeverMerged(t *testing.T) {
	s := mem.New()
	cfg := config(t, newClock())
	cfg.MaxJSONLBytes = 1
	cfg.DatasetBytes = func(context.Context, string) (int64, error) { return 2, nil }
	e := engine(t, s, cfg)
	putChunk(t, s, theBatch, "aaaaaa", 0, row("a", "x", 1), row("c", "y", 2))
	merge(t, e, theBatch)
	key := theBatch.BlockKey(record(t, s, theBatch).Blocks[0].File)
	whole := get(t, s, key)
	for name, damage := range map[string]func(){
		"cut":     func() { put(t, s, key, whole[:len(whole)-9]) },
		"flipped": func() { put(t, s, key, whole[:40]+string(whole[40]^1)+whole[41:]) },
		"empty":   func() { put(t, s, key, "") },
		"gone":    func() { _ = s.Delete(t.Context(), key) },
		"other":   func() { put(t, s, key, whole[:len(whole)-4]+"PAR2") },
	} {
		damage()
		chunk := putChunk(t, s, theBatch, "aaaaaa", 1, row("b", "z", 3))
		if _, err := e.Merge(t.Context(), theBatch); !errorsIsDamaged(err) || !exists(t, s, chunk) {
			t.Errorf("%s: %v", name, err)
		}
		rep, err := merger.Verify(t.Context(), s, theBatch)
		if err != nil || len(rep.Problems) == 0 || rep.Problems[0].Key != key {
			t.Errorf("%s: verify says %+v, %v", name, rep.Problems, err)
		}
		if name != "gone" {
			put(t, s, key, whole)
			continue
		}
		if _, err := s.Put(t.Context(), key, []byte(whole), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	merge(t, e, theBatch)
	healthy(t, s, theBatch)
}
