package main

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// gc runs the command and gives its lines.
func (e *exporter) gc(t *testing.T, c gcCmd, code int) []gcLine {
	t.Helper()
	e.out.Reset()
	e.errs.Reset()
	e.json = true
	defer func() { e.json = false }()
	if got := exitCode(c.Run(t.Context(), e.app), e.stderr); got != code {
		t.Fatalf("%+v: exit %d, %s", c, got, e.errs.String())
	}
	var lines []gcLine
	for dec := json.NewDecoder(bytes.NewReader(e.out.Bytes())); dec.More(); {
		var l gcLine
		if err := dec.Decode(&l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return lines
}

func (e *exporter) keys(t *testing.T, prefix string) []string {
	t.Helper()
	var out []string
	for info, err := range e.store.List(context.Background(), prefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, info.Key[len(prefix):])
	}
	return out
}

func (e *exporter) putRaw(t *testing.T, key, body string) {
	t.Helper()
	if _, err := e.store.Put(t.Context(), key, []byte(body), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
}

func TestGcDeletesWhatNoRecordCanNameAgain(t *testing.T) {
	e := newExporter(t)
	b := dataset.BatchID{Dataset: "d", Batch: "b"}
	e.merged(t, `{"id":"a"}`, `{"id":"c"}`)
	e.merged(t, `{"id":"b"}`)
	e.putRaw(t, b.IndexKey(0), "index")
	e.putRaw(t, b.IndexKey(1), "index")
	e.putRaw(t, b.BlockKey(dataset.BlockFile(7)), "stray")
	before := e.keys(t, "")

	lines := e.gc(t, gcCmd{Grace: time.Hour}, 0)
	if diff := cmp.Diff([]gcLine{{Dataset: "d", Batch: "b"}}, lines); diff != "" || len(e.keys(t, "d/")) != len(before) {
		t.Fatalf("within the grace period: %s", diff)
	}
	lines = e.gc(t, gcCmd{Target: "d/b", DryRun: true}, 0)
	if len(lines) != 1 || !lines[0].DryRun || lines[0].Garbage.Objects != 1 || lines[0].Garbage.Bytes == 0 || lines[0].RaisedTo != 8 || lines[0].Indexes != (heap{1, 5}) {
		t.Fatalf("%+v", lines)
	}
	if diff := cmp.Diff(before, e.keys(t, "")); diff != "" {
		t.Fatalf("a dry run has changed something:\n%s", diff)
	}
	lines = e.gc(t, gcCmd{Target: "d"}, 0)
	if len(lines) != 1 || lines[0].Garbage.Objects != 1 || lines[0].Orphans != (heap{1, 5}) || lines[0].RaisedTo != 8 || lines[0].Indexes.Objects != 1 {
		t.Fatalf("%+v", lines)
	}
	if diff := cmp.Diff([]string{"00001.jsonl.gz"}, e.keys(t, "d/b/merged_")); diff != "" {
		t.Fatal(diff)
	}
	if diff := cmp.Diff([]string{"00001.parquet"}, e.keys(t, "d/_index/b/")); diff != "" {
		t.Fatal(diff)
	}
	e.wants(t, exportCmd{}, `{"id":"a"}`+"\n"+`{"id":"b"}`+"\n"+`{"id":"c"}`+"\n")
}

func TestGcKeepsTheBlocksOfHistory(t *testing.T) {
	e := newExporter(t)
	e.merged(t, `{"id":"a"}`, `{"id":"c"}`)
	e.merged(t, `{"id":"b"}`)
	e.historyMaxAge = time.Hour
	if lines := e.gc(t, gcCmd{}, 0); lines[0].Garbage.Objects != 0 {
		t.Fatalf("%+v", lines)
	}
	e.wants(t, exportCmd{At: "1"}, `{"id":"a"}`+"\n"+`{"id":"c"}`+"\n")
	e.merged(t, `{"id":"z"}`) // a merge forgets no entry of a file that is kept
	e.historyMaxAge = 0
	if lines := e.gc(t, gcCmd{}, 0); lines[0].Garbage.Objects != 1 {
		t.Fatalf("%+v", lines)
	}
	if code := e.export(t, exportCmd{At: "1"}); code != exitFailed {
		t.Fatalf("exit %d", code)
	}
}

func TestGcGoesOnAfterABatchThatCannotBeSwept(t *testing.T) {
	e := newExporter(t)
	e.merged(t, `{"id":"a"}`, `{"id":"c"}`)
	e.merged(t, `{"id":"b"}`)
	e.putRaw(t, dataset.BatchID{Dataset: "d", Batch: "a"}.CommitKey(), `{"version":1,"commit":"`)
	layer := dataset.BatchID{Dataset: "d", Batch: "b", Annotator: "A"}
	e.putRaw(t, layer.ChunkKey("abc123", 0), "{}\n")
	lines := e.gc(t, gcCmd{}, exitFailed)
	if len(lines) != 3 || lines[0].Error == "" || lines[1].Garbage.Objects != 1 || lines[2].Annotator != "A" {
		t.Fatalf("%+v", lines)
	}
	if got := exitCode((&gcCmd{Target: "x"}).Run(t.Context(), e.app), e.stderr); got != exitFailed {
		t.Fatalf("exit %d", got)
	}
}
