package merger_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

func zipped(t testing.TB, lines ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(strings.Join(lines, "\n") + "\n")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// foreign is a batch of an older tool: files in no order, an id twice, rows
// without an id, one parquet file without a number.
func foreign(t *testing.T) *mem.Store {
	s := mem.New()
	put(t, s, "d/b/manifest.yaml", "rows: 7\nfiles:\n  - merged_00003.jsonl.gz\n")
	put(t, s, "d/b/merged_00000.jsonl.gz", zipped(t, row("z", "Z", 9), row("m", "first", 4), `{"k":"no id"}`))
	put(t, s, "d/b/merged_00003.jsonl.gz", zipped(t, row("m", "second", 2), row("b", "Z", 1), "rubbish"))
	parquet, err := os.ReadFile(filepath.Join("testdata", "merged.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "d/b/merged.parquet", string(parquet))
	return s
}

func TestTheFirstCommitAdoptsTheFilesOfAnotherTool(t *testing.T) {
	s := foreign(t)
	c := newClock()
	e := engine(t, s, config(t, c))
	putChunk(t, s, theBatch, "aaaaaa", 0, row("m", "new", 1), row("n", "N", 1))
	res := merge(t, e, theBatch)
	if !res.Committed || res.Added != 1 || res.IDConflicts != 2 || res.Rejected != 1 {
		t.Fatalf("%+v", res)
	}
	want := []string{
		`{"id":"` + dataset.DerivedID("d/b/merged_00000.jsonl.gz", 3) + `","k":"no id"}`,
		row("b", "Z", 1), row("m", "second", 2), row("n", "N", 1),
		`{"id":"p1","k":"from parquet"}`, `{"id":"p2","k":"Z"}`, row("z", "Z", 9),
	}
	got := merged(t, s, theBatch)
	slices.Sort(want) // by text, not by id
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	r := record(t, s, theBatch)
	var garbage []string
	for _, g := range r.Garbage {
		garbage = append(garbage, g.File)
	}
	if diff := cmp.Diff([]string{"merged.parquet", "merged_00000.jsonl.gz", "merged_00003.jsonl.gz"}, garbage); diff != "" {
		t.Error(diff)
	}
	if r.NextFile <= 4 || r.Blocks[0].File != "merged_00004.jsonl.gz" {
		t.Errorf("next_file %d, %+v", r.NextFile, r.Blocks)
	}
	if kept := get(t, s, "d/b/_rejected/merged_00000.jsonl.gz"); !strings.Contains(kept, "id conflict") {
		t.Error(kept)
	}
	if kept := get(t, s, "d/b/_rejected/merged_00003.jsonl.gz"); !strings.Contains(kept, "rubbish") {
		t.Error(kept)
	}
	if got := get(t, s, "d/b/_history/00000000.yaml"); !strings.HasPrefix(got, "rows: 7") {
		t.Error(got)
	}
	healthy(t, s, theBatch)
	if res := merge(t, e, theBatch); res.Committed {
		t.Errorf("%+v", res)
	}
}

func TestAnAdoptedBatchIsDeduplicatedLikeAnyOther(t *testing.T) {
	s := foreign(t)
	putRun(t, s, theBatch, "aaaaaa", []string{"k"}, catalog.RunOpen)
	putChunk(t, s, theBatch, "aaaaaa", 0, row("a", "Z", 0), row("q", "from parquet", 1), row("r", "R", 1))
	res := merge(t, engine(t, s, config(t, newClock())), theBatch)
	if res.Added != 1 || res.Duplicates != 4 || res.IDConflicts != 1 {
		t.Fatalf("%+v", res)
	}
	var ks []string
	for _, l := range merged(t, s, theBatch) {
		r, err := dataset.ParseRow([]byte(l))
		if err != nil {
			t.Fatal(err)
		}
		k, _ := r.Column("k")
		ks = append(ks, string(k))
	}
	if len(ks) != 5 {
		t.Fatal(ks)
	}
	healthy(t, s, theBatch)
}

func TestADamagedFileOfAnotherToolIsAdoptedByNobody(t *testing.T) {
	s := foreign(t)
	cut := zipped(t, row("z", "Z", 9))
	put(t, s, "d/b/merged_00000.jsonl.gz", cut[:len(cut)-5])
	_, err := engine(t, s, config(t, newClock())).Merge(t.Context(), theBatch)
	if err == nil || !strings.Contains(err.Error(), "merged_00000.jsonl.gz") {
		t.Fatal(err)
	}
	h, err := catalog.ReadHead(t.Context(), s, theBatch)
	if err != nil || !h.Foreign {
		t.Fatalf("%+v, %v", h, err)
	}
}

func TestVerifyReadsTheFilesThatAMergeWouldAdopt(t *testing.T) {
	whole := zipped(t, row("z", "Z", 9), row("y", "Y", 9))
	for name, c := range map[string]struct{ key, body, what string }{
		"a line is no row":      {"d/b/merged_00003.jsonl.gz", zipped(t, row("m", "second", 2), "rubbish"), "line 2: "},
		"cut":                   {"d/b/merged_00000.jsonl.gz", whole[:len(whole)-5], "no merge can adopt it"},
		"a byte is another":     {"d/b/merged_00000.jsonl.gz", whole[:30] + "x" + whole[31:], "no merge can adopt it"},
		"empty":                 {"d/b/merged_00000.jsonl.gz", "", "empty"},
		"a parquet file is cut": {"d/b/merged.parquet", "PAR1", "no merge can adopt it"},
	} {
		t.Run(name, func(t *testing.T) {
			s := foreign(t)
			put(t, s, "d/b/merged_00003.jsonl.gz", zipped(t, row("m", "second", 2)))
			rep, err := merger.Verify(t.Context(), s, theBatch)
			if err != nil || !rep.OK() || rep.Blocks != 3 || rep.Rows != 6 {
				t.Fatalf("before: %+v %v", rep, err)
			}
			put(t, s, c.key, c.body)
			rep, err = merger.Verify(t.Context(), s, theBatch)
			if err != nil || len(rep.Problems) != 1 || rep.Problems[0].Key != c.key || !strings.Contains(rep.Problems[0].What, c.what) {
				t.Errorf("%+v %v", rep.Problems, err)
			}
		})
	}
}

func TestAStoreThatFailsIsNoDamageOfAFileToBeAdopted(t *testing.T) {
	down := errors.New("the store is down")
	s := objtest.NewFaulty(t, foreign(t), objtest.On(objtest.Get).Key("*merged_00000*").Fail(down))
	if _, err := merger.Verify(t.Context(), s, theBatch); !errors.Is(err, down) {
		t.Error(err)
	}
}
