package dataset_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/dataset"
)

func TestEventsReadBackAndNameTheirBatch(t *testing.T) {
	rows := int64(100)
	for _, b := range oddBatches() {
		e := dataset.NewEvent(dataset.RowsIngested, b, noon.In(time.FixedZone("", 3600)))
		e.Key, e.ETag, e.Rows, e.Bytes = b.ChunkKey("a1b2c3", 0), "abc", &rows, 8123
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := dataset.ParseEvent(text)
		if err != nil || got.ID() != b {
			t.Fatalf("%s: %v, %v", text, got.ID(), err)
		}
		if d := cmp.Diff(e, got); d != "" {
			t.Errorf("%s: %s", b, d)
		}
	}
}

func TestAnEventLooksAsTheFormatSays(t *testing.T) {
	e := dataset.NewEvent(dataset.RowsIngested, dataset.BatchID{Dataset: "D", Batch: "B"}, noon)
	e.Key, e.ETag = "D/B/a1b2c3_chunk_00000.jsonl", "e"
	got, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"version":1,"type":"rows_ingested","dataset":"D","batch":"B","annotator":null,"at":"2026-11-30T12:00:00.123456789Z",` +
		`"key":"D/B/a1b2c3_chunk_00000.jsonl","etag":"e","rows":null}`
	var g, w map[string]any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	if _, ok := g["rows"]; !ok {
		delete(w, "rows") // an unknown number may be left out
	}
	if d := cmp.Diff(w, g); d != "" {
		t.Error(d)
	}
}

func TestTwoReportsOfOneHappeningHaveOneMessageID(t *testing.T) {
	b := dataset.BatchID{Dataset: "D", Batch: "B"}
	a := dataset.BatchID{Dataset: "D", Batch: "B", Annotator: "A"}
	fill := func(t dataset.EventType, b dataset.BatchID) dataset.Event {
		e := dataset.NewEvent(t, b, noon)
		e.Key, e.ETag, e.Run, e.State, e.Sequencer = "K", "E", "a1b2c3", "completed", "S"
		return e
	}
	merge := fill(dataset.BatchMerged, a)
	merge.Commit = "5f0c"
	layer := fill(dataset.AnnotationUpdated, a)
	layer.Commit = "5f0c"
	index := fill(dataset.IndexRefreshed, b)
	index.Commit = "5f0c"
	for _, tc := range []struct {
		event dataset.Event
		want  string
	}{
		{fill(dataset.RowsIngested, b), "put:K@E"},
		{fill(dataset.RunCompleted, b), "run:D/B/a1b2c3@completed"},
		{merge, "merge:D/B/A@5f0c"},
		{layer, "annotation:D/B/A@5f0c"},
		{fill(dataset.AnnotationUpdated, a), "put:K@E"},
		{index, "index:D/B@5f0c"},
		{fill(dataset.ObjectsDeleted, b), "del:K@S"},
		{dataset.Event{Type: "other"}, ""},
	} {
		if got := tc.event.MsgID(); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.event.Type, got, tc.want)
		}
	}
}

func TestAnEventThatCannotBeTrustedIsRefused(t *testing.T) {
	for _, text := range []string{
		"", "null", "[]", `{"version":1}`, `{"version":2,"type":"rows_ingested","dataset":"D","batch":"B"}`,
		`{"version":1,"type":"","dataset":"D","batch":"B"}`, `{"version":1,"type":"rows_ingested","dataset":"D"}`,
		`{"version":1,"type":"rows_ingested","dataset":"..","batch":"B"}`, `{"version":1,"type":"x","dataset":"D","batch":"B","annotator":"a.b"}`,
		`{"version":1,"type":"rows_ingested","dataset":"D","batch":"B","at":"yesterday"}`, `{"version":"1"}`,
	} {
		if e, err := dataset.ParseEvent([]byte(text)); err == nil {
			t.Errorf("%s is %+v", text, e)
		}
	}
	if _, err := dataset.ParseEvent([]byte(`{"version":1,"type":"of_tomorrow","dataset":"D","batch":"B","annotator":null,"at":"2026-11-30T12:00:00Z","more":1}`)); err != nil {
		t.Errorf("an event of a type or with a field that is not known yet: %v", err)
	}
}
