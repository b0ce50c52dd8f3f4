package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// aged is a batch of three generations, of which the first one lacks a block.
func aged(t *testing.T) *exporter {
	e := newExporter(t)
	e.merged(t, `{"id":"a"}`, `{"id":"c"}`)
	gone := dataset.BatchID{Dataset: "d", Batch: "b"}.BlockKey(dataset.BlockFile(0))
	e.merged(t, `{"id":"b"}`) // between the two: their block is written anew
	e.merged(t, `{"id":"b2"}`)
	if err := e.store.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestExportAtReadsWhatWasMergedThen(t *testing.T) {
	e := aged(t)
	e.wants(t, exportCmd{At: "2"}, `{"id":"a"}`+"\n"+`{"id":"b"}`+"\n"+`{"id":"c"}`+"\n")
	e.live(t, `{"id":"d"}`)
	e.wants(t, exportCmd{At: "3"}, `{"id":"a"}`+"\n"+`{"id":"b"}`+"\n"+`{"id":"b2"}`+"\n"+`{"id":"c"}`+"\n") // says nothing of live rows
	e.wants(t, exportCmd{At: time.Now().Format(time.RFC3339Nano)}, `{"id":"a"}`+"\n"+`{"id":"b"}`+"\n"+`{"id":"b2"}`+"\n"+`{"id":"c"}`+"\n")
	e.wants(t, exportCmd{At: "2020-01-01"}, "", "1 batch had no rows merged at 2020-01-01: b")

	file := filepath.Join(t.TempDir(), "out.ndjson")
	if code := e.export(t, exportCmd{At: "1", Output: file}); code != exitFailed {
		t.Fatalf("exit %d, %s", code, e.errs.String())
	}
	for _, want := range []string{"d/b", "generation 1", "merged_00000.jsonl.gz", "HISTORY_MAX_AGE", "not written"} {
		if !strings.Contains(e.errs.String(), want) {
			t.Errorf("%q is not in %s", want, e.errs.String())
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("there is a file")
	}
	for _, c := range []exportCmd{{At: "0"}, {At: "noon"}, {At: "2", Live: true}} {
		if code := e.export(t, c); code != exitUsage || e.out.Len() > 0 {
			t.Errorf("%+v: exit %d, %s", c, code, e.errs.String())
		}
	}
	if _, err := e.store.Put(t.Context(), dataset.BatchID{Dataset: "d", Batch: "second"}.ChunkKey("abc123", 0), []byte("{}\n"), objstore.IfAbsent()); err != nil {
		t.Fatal(err)
	}
	if code := e.export(t, exportCmd{At: "2"}); code != exitUsage || !strings.Contains(e.errs.String(), "--batch") {
		t.Errorf("two batches: exit %d, %s", code, e.errs.String())
	}
	e.wants(t, exportCmd{At: "2", Batch: []string{"b"}}, `{"id":"a"}`+"\n"+`{"id":"b"}`+"\n"+`{"id":"c"}`+"\n")
}

func TestDescribeListsTheGenerationsThatCanBeRead(t *testing.T) {
	e := aged(t)
	if err := (&describeCmd{Target: "d/b", History: true}).Run(t.Context(), e.app); err != nil {
		t.Fatal(err)
	}
	if out := e.out.String(); strings.Count(out, " yes\n") != 2 || !strings.Contains(out, "no: 1 block replaced and gone") {
		t.Error(out)
	}
	e.out.Reset()
	e.json = true
	if err := (&describeCmd{Target: "d/b", History: true}).Run(t.Context(), e.app); err != nil {
		t.Fatal(err)
	}
	var got struct{ History []generationLine }
	if err := json.Unmarshal(e.out.Bytes(), &got); err != nil || len(got.History) != 3 || got.History[0].Generation != 3 || got.History[2].Readable {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTimesAreReadInDaysToo(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "7d": 7 * 24 * time.Hour, "1d12h": 36 * time.Hour, "0.5d": 12 * time.Hour, "0": 0,
		"d": -1, "7days": -1, "-1d": -1, "1d1": -1, "9999999d": -1, "NaNd": -1, "Infd": -1,
	} {
		d, err := parseDuration(text)
		if want < 0 && err == nil || want >= 0 && (err != nil || d != want) {
			t.Errorf("%s: %s, %v", text, d, err)
		}
	}
}
