package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// lay stores an object as an older tool would.
func (e *exporter) lay(t *testing.T, key, body string) {
	t.Helper()
	if _, err := e.store.Put(t.Context(), key, []byte(body), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
}

// sweep sweeps every batch without any grace.
func (e *exporter) sweep(t *testing.T, d string) {
	t.Helper()
	ids, err := catalog.AllBatches(t.Context(), e.store, d)
	if err != nil {
		t.Fatal(err)
	}
	by := catalog.Committer{By: "sweeper", Now: func() time.Time { return time.Now().Add(time.Hour) }, Commit: func() string { return fmt.Sprintf("%016x", time.Now().UnixNano()) }}
	for _, b := range ids {
		for range 2 {
			if _, err := catalog.Sweep(t.Context(), e.store, b, catalog.SweepPolicy{}, by); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// command runs a command and gives its exit code and its lines of JSON.
func (e *exporter) command(t *testing.T, run func() error) (int, []map[string]any) {
	t.Helper()
	e.registry = prometheus.NewRegistry() // of another process
	e.out.Reset()
	e.errs.Reset()
	code := exitCode(run(), e.stderr)
	var lines []map[string]any
	if e.json {
		for l := range strings.Lines(e.out.String()) {
			var m map[string]any
			if err := json.Unmarshal([]byte(l), &m); err != nil {
				t.Fatalf("%s: %v", l, err)
			}
			lines = append(lines, m)
		}
	}
	return code, lines
}

func gz(t *testing.T, lines ...string) string {
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

// olderDataset is a dataset in all the older layouts, and what is to be exported
// of it, by id. There is no _index.
func olderDataset(t *testing.T, e *exporter) (rows []string, annotations map[string][]string) {
	t.Helper()
	parquet, err := os.ReadFile("../../block/testdata/types.parquet")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := os.ReadFile("../../block/testdata/types.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	rows = strings.Split(strings.TrimSpace(string(lines)), "\n")
	e.lay(t, "d/parquet/merged.parquet", string(parquet))
	e.lay(t, "d/lines/manifest.yaml", "blocks:\n- merged_00000.jsonl.gz\n")
	e.lay(t, "d/lines/merged_00000.jsonl.gz", gz(t, `{"id":"z9","x":1.0}`, `{"x":1e400,"t":"\u00e9"}`, `{"id":"m5","x": 2 }`))
	e.lay(t, "d/lines/merged_00001.jsonl.gz", gz(t, `{"id":"m5","x": 2 }`, `{"id":"k1","_batch":"lines","x":null}`))
	e.lay(t, "d/chunks/00aa00_chunk_00000.jsonl", `{"id":"c1","x":9007199254740993}`+"\n")
	rows = append(rows, `{"id":"z9","x":1.0}`, `{"id":"`+dataset.DerivedID("d/lines/merged_00000.jsonl.gz", 2)+`","x":1e400,"t":"\u00e9"}`,
		`{"id":"m5","x": 2 }`, `{"id":"k1","x":null}`, `{"id":"c1","x":9007199254740993}`)
	annotations = map[string][]string{
		"lines":  {`{"id":"k1","_batch":"lines","data":{"ok":true}}`, `{"id":"m5","_batch":"lines","data":{"ok":1.50}}`},
		"chunks": {`{"id":"c1","_batch":"chunks","data":{}}`},
	}
	e.lay(t, "d/annotations/lang/lines/manifest.yaml", "blocks: []\n")
	e.lay(t, "d/annotations/lang/lines/merged_00000.jsonl.gz", gz(t, annotations["lines"][1]))
	e.lay(t, "d/annotations/lang/.temp/chunk_00000.jsonl", annotations["chunks"][0]+"\n"+annotations["lines"][0]+"\nno row\n")
	return rows, annotations
}

// check compares what is exported, and what is stored of the layer.
func (e *exporter) check(t *testing.T, rows []string, annotations map[string][]string) {
	t.Helper()
	if code := e.export(t, exportCmd{Dataset: "d"}); code != 0 {
		t.Fatalf("exit %d: %s", code, e.errs.String())
	}
	got := strings.Split(strings.TrimSpace(e.out.String()), "\n")
	want := slices.Clone(rows)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	for batch, want := range annotations {
		b := dataset.BatchID{Dataset: "d", Batch: batch, Annotator: "lang"}
		h, err := catalog.ReadHead(t.Context(), e.store, b)
		if err != nil || !h.Exists() || h.Record.Rows != int64(len(want)) {
			t.Fatalf("%s: %+v %v", b, h.Record, err)
		}
		var got []string
		for _, bl := range h.Record.Blocks {
			raw, _, err := objstore.ReadAll(t.Context(), e.store, b.BlockKey(bl.File))
			if err != nil {
				t.Fatal(err)
			}
			r, err := gzip.NewReader(bytes.NewReader(raw))
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			if _, err := text.ReadFrom(r); err != nil {
				t.Fatal(err)
			}
			got = append(got, strings.Split(strings.TrimSpace(text.String()), "\n")...)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestTheOlderLayoutsAreMergedConvertedAndExportedExactly(t *testing.T) {
	for name, steps := range map[string][]string{
		"merge":                 {"merge"},
		"convert, then merge":   {"convert", "merge"},
		"merge, then convert":   {"merge", "convert"},
		"again and again":       {"convert", "convert", "merge", "merge", "convert"},
		"dry runs do not count": {"dry", "merge", "dry"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newExporter(t)
			e.json, e.convertMax = true, 1e9
			rows, annotations := olderDataset(t, e)
			e.sweep(t, "d")
			if code := e.export(t, exportCmd{Dataset: "d"}); code != exitFailed || !strings.Contains(e.errs.String(), "merged") {
				t.Errorf("before a merge: exit %d: %s", code, e.errs.String())
			}
			for _, step := range steps {
				code, _ := e.command(t, func() error {
					switch step {
					case "merge":
						return (&mergeCmd{Target: "d"}).Run(t.Context(), e.app)
					case "dry":
						return (&convertCmd{Dataset: "d", DryRun: true}).Run(t.Context(), e.app)
					}
					return (&convertCmd{}).Run(t.Context(), e.app)
				})
				if code != 0 {
					t.Fatalf("%s: exit %d: %s", step, code, e.errs.String())
				}
				e.sweep(t, "d")
			}
			e.json = false
			e.check(t, rows, annotations)
			for _, gone := range []string{"d/parquet/merged.parquet", "d/annotations/lang/.temp/chunk_00000.jsonl"} {
				if body, _, err := objstore.ReadAll(t.Context(), e.store, gone); err == nil && len(body) > 0 {
					t.Errorf("%s is still there", gone)
				}
			}
			kept, _, err := objstore.ReadAll(t.Context(), e.store, "d/annotations/lang/.temp/_rejected/chunk_00000.jsonl")
			if err != nil || !strings.Contains(string(kept), `"no row"`) {
				t.Errorf("%s %v", kept, err)
			}
			if code, _ := e.command(t, func() error { return (&verifyCmd{Target: "d"}).Run(t.Context(), e.app) }); code != 0 {
				t.Errorf("verify: exit %d: %s%s", code, e.out.String(), e.errs.String())
			}
		})
	}
}

func TestConvertSaysWhatBecomesOfEachBatch(t *testing.T) {
	e := newExporter(t)
	e.json, e.convertMax = true, 1e9
	olderDataset(t, e)
	e.lay(t, "d/damaged/merged.parquet", "PAR1 no more")
	outcomes := func(c convertCmd) (int, map[string]string) {
		t.Helper()
		code, lines := e.command(t, func() error { return c.Run(t.Context(), e.app) })
		got := map[string]string{}
		for _, l := range lines {
			got[l["batch"].(string)] = l["outcome"].(string)
		}
		return code, got
	}
	code, got := outcomes(convertCmd{Dataset: "d", DryRun: true})
	if diff := cmp.Diff(map[string]string{"parquet": "planned", "damaged": "planned"}, got); diff != "" || code != 0 {
		t.Error(code, diff)
	}
	if _, _, err := objstore.ReadAll(t.Context(), e.store, dataset.ConversionKey("d")); err == nil {
		t.Error("a dry run has written a status")
	}
	code, got = outcomes(convertCmd{Dataset: "d"})
	if diff := cmp.Diff(map[string]string{"parquet": "converted", "damaged": "failed"}, got); diff != "" || code != exitPartial {
		t.Error(code, diff)
	}
	if !strings.Contains(e.errs.String(), "1 batch failed") || !strings.Contains(e.out.String(), "d/damaged/merged.parquet") {
		t.Error(e.errs.String(), e.out.String())
	}
	st, err := catalog.ReadConversion(t.Context(), e.store, "d")
	if err != nil || st.State != catalog.ConversionFailed || st.BatchesDone != 1 || st.Errors["damaged"] == "" {
		t.Errorf("%+v %v", st, err)
	}
	if body, _, err := objstore.ReadAll(t.Context(), e.store, "d/damaged/merged.parquet"); err != nil || string(body) != "PAR1 no more" {
		t.Error(body, err)
	}
	if code, _ = outcomes(convertCmd{Dataset: "nothing"}); code != exitFailed {
		t.Error(code)
	}
	if code, _ = outcomes(convertCmd{Dataset: "a/b"}); code != exitUsage {
		t.Error(code)
	}
	e.convertMax = 10
	e.lay(t, "d/more/merged.parquet", mustRead(t, "../../merger/testdata/merged.parquet"))
	if code, got = outcomes(convertCmd{Dataset: "d"}); code != exitPartial || got["more"] != "merged" {
		t.Error(code, got)
	}
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
