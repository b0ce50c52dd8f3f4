package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/index"
)

// verify runs the command and gives its lines by batch.
func (e *exporter) verify(t *testing.T, c verifyCmd, code int) map[string]verifyLine {
	t.Helper()
	e.out.Reset()
	e.errs.Reset()
	e.json = true
	e.registry = prometheus.NewRegistry()
	defer func() { e.json = false }()
	if got := exitCode(c.Run(t.Context(), e.app), e.stderr); got != code {
		t.Fatalf("%+v: exit %d, %s%s", c, got, e.out.String(), e.errs.String())
	}
	lines := map[string]verifyLine{}
	for dec := json.NewDecoder(bytes.NewReader(e.out.Bytes())); dec.More(); {
		var l verifyLine
		if err := dec.Decode(&l); err != nil {
			t.Fatal(err)
		}
		lines[l.Batch] = l
	}
	return lines
}

// ruined is a dataset with a lost record, a damaged block and a batch that is
// well, each with an index.
func ruined(t *testing.T) *exporter {
	e := newExporter(t)
	for _, b := range []string{"block", "lost", "well"} {
		id := dataset.BatchID{Dataset: "d", Batch: b}
		for n, line := range []string{`{"id":"m"}`, `{"id":"a"}`, `{"id":"z"}`} {
			e.putRaw(t, id.ChunkKey("abc123", n), line+"\n")
			e.registry = prometheus.NewRegistry()
			if err := (&mergeCmd{Target: "d/" + b}).Run(t.Context(), e.app); err != nil {
				t.Fatal(err)
			}
		}
		h, err := catalog.ReadHead(t.Context(), e.store, id)
		if err != nil {
			t.Fatal(err)
		}
		for _, bl := range h.Record.Blocks {
			if err := index.Build(t.Context(), e.store, id, bl); err != nil {
				t.Fatal(err)
			}
		}
		switch b {
		case "block":
			e.putRaw(t, id.BlockKey(h.Record.Blocks[0].File), "no block")
		case "lost":
			if err := e.store.Delete(t.Context(), id.CommitKey()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return e
}

func TestVerifyGoesOnAfterADamagedBatchAndRepairsWhatItCan(t *testing.T) {
	e := ruined(t)
	for range 2 { // it changes nothing
		got := e.verify(t, verifyCmd{Target: "d"}, exitFailed)
		if len(got) != 3 || !got["well"].OK() || got["lost"].OK() || got["block"].OK() || !strings.Contains(got["lost"].Problems[0].What, "it is gone") {
			t.Fatalf("%+v", got)
		}
		if !strings.Contains(e.errs.String(), "2 bad batches of 3") {
			t.Error(e.errs.String())
		}
	}
	e.verify(t, verifyCmd{Target: "d", Repair: true}, exitFailed)
	got := e.verify(t, verifyCmd{}, exitFailed)
	if !got["lost"].OK() || got["lost"].Rows != 3 || got["block"].OK() || len(got["well"].Notes) > 1 {
		t.Fatalf("%+v", got)
	}
	e.wants(t, exportCmd{Batch: []string{"lost"}}, `{"id":"a"}`+"\n"+`{"id":"m"}`+"\n"+`{"id":"z"}`+"\n")
	if code := e.export(t, exportCmd{Batch: []string{"block"}}); code != exitFailed || !strings.Contains(e.errs.String(), "merged_") {
		t.Fatalf("exit %d, %s", code, e.errs.String())
	}
}

func TestVerifyRepairsIndexesAndTheirSummary(t *testing.T) {
	id := dataset.BatchID{Dataset: "d", Batch: "well"}
	e := ruined(t)
	e.verify(t, verifyCmd{Target: "d/well", Repair: true}, 0)
	h, err := catalog.ReadHead(t.Context(), e.store, id)
	if err != nil {
		t.Fatal(err)
	}
	key, err := index.Key(id, h.Record.Blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, harm := range map[string]struct {
		do      func()
		problem bool
	}{
		"an index is gone":             {func() { _ = e.store.Delete(t.Context(), key) }, false},
		"an index is damaged":          {func() { e.putRaw(t, key, "no parquet") }, true},
		"the summary is gone":          {func() { _ = e.store.Delete(t.Context(), id.IndexMetaKey()) }, false},
		"the summary is damaged":       {func() { e.putRaw(t, id.IndexMetaKey(), "{") }, true},
		"the summary is of the future": {func() { e.putRaw(t, id.IndexMetaKey(), `{"version":1,"generation":99}`) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			harm.do()
			code := 0
			if harm.problem {
				code = exitFailed
			}
			if got := e.verify(t, verifyCmd{Target: "d/well"}, code)["well"]; got.OK() == harm.problem || len(got.Notes)+len(got.Problems) == 0 {
				t.Fatalf("%+v", got)
			}
			if got := e.verify(t, verifyCmd{Target: "d/well", Repair: true}, 0)["well"]; len(got.Repaired) == 0 {
				t.Fatalf("%+v", got)
			}
			if faults, err := index.Check(t.Context(), e.store, h.Record); err != nil || len(faults) > 0 {
				t.Fatalf("%+v, %v", faults, err)
			}
		})
	}
}

func TestMergeDryRunSaysWhatWouldHappen(t *testing.T) {
	e := newExporter(t)
	e.merged(t, `{"id":"b"}`)
	e.live(t, `{"id":"a"}`, `{"id":"b"}`, "rubbish")
	before := e.keys(t, "")
	if err := (&mergeCmd{Target: "d", DryRun: true}).Run(t.Context(), e.app); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"d/b: would commit generation 2: live chunks: 1", "1 added, 1 duplicate, 1 rejected", "1 replaced, 1 created"} {
		if !strings.Contains(e.out.String(), want) {
			t.Errorf("%q is not in %s", want, e.out.String())
		}
	}
	if diff := cmp.Diff(before, e.keys(t, "")); diff != "" {
		t.Fatal(diff)
	}
	e.merged(t)
	e.json = true
	if err := (&mergeCmd{Target: "d", DryRun: true}).Run(t.Context(), e.app); err != nil {
		t.Fatal(err)
	}
	var got planLine
	if err := json.Unmarshal(e.out.Bytes(), &got); err != nil || got.Due && got.LiveChunks != 1 || got.Batch != "b" || got.Rows != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
}
