package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// note stores a live chunk of annotations of d/b by an annotator.
func (e *exporter) note(t *testing.T, annotator string, ids ...string) {
	t.Helper()
	var lines []string
	for _, id := range ids {
		lines = append(lines, fmt.Sprintf(`{"id":%q,"_batch":"b","_created_at":"2026-11-24T14:02:11Z","data":{"n":1},"metadata":{}}`, id))
	}
	key := dataset.BatchID{Dataset: "d", Batch: "b", Annotator: annotator}.ChunkKey("abc123", e.chunks)
	e.chunks++
	if _, err := e.store.Put(t.Context(), key, []byte(strings.Join(lines, "\n")), objstore.IfAbsent()); err != nil {
		t.Fatal(err)
	}
}

// annotated is a batch of three merged rows, two of which A has annotated, and B
// one: in a live chunk.
func annotated(t *testing.T) *exporter {
	e := newExporter(t)
	e.note(t, "A", "a", "b")
	e.merged(t, `{"id":"a"}`, `{"id":"b"}`, `{"id":"c"}`)
	e.note(t, "B", "c")
	return e
}

func TestLsAndDescribeTellOfLayers(t *testing.T) {
	e := annotated(t)
	one := int64(1)
	zero := int64(0)
	want := []layerLine{
		{Annotator: "A", Rows: 2, Share: 2. / 3, LiveRows: &zero},
		{Annotator: "B", LiveRows: &one, LiveChunks: 1},
	}
	for name, run := range map[string]func() error{
		"A 67%, B 0%+live":    func() error { return (&lsCmd{}).Run(t.Context(), e.app) },
		" A 67%, B 0%+live  ": func() error { return (&lsCmd{Dataset: "d"}).Run(t.Context(), e.app) },
		"annotator B  0 rows annotated (0%), 0 B; live 1 annotation in 1 chunk\n": func() error {
			return (&describeCmd{Target: "d/b"}).Run(t.Context(), e.app)
		},
	} {
		e.json = false
		e.out.Reset()
		if err := run(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(e.out.String(), name) {
			t.Errorf("%q is not in %s", name, e.out.String())
		}
		e.json = true
		e.out.Reset()
		if err := run(); err != nil {
			t.Fatal(err)
		}
		var got struct{ Layers []layerLine }
		if err := json.Unmarshal(e.out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Layers, cmpopts.IgnoreFields(layerLine{}, "Bytes", "UpdatedAt"), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if got.Layers[0].Bytes == 0 || got.Layers[0].UpdatedAt == nil || got.Layers[1].UpdatedAt != nil {
			t.Errorf("%s: %s", name, e.out.String())
		}
	}
}

func TestADatasetWithoutLayersHasAnEmptyListOfThem(t *testing.T) {
	e := newExporter(t)
	e.merged(t, `{"id":"a"}`)
	e.json = true
	if err := (&lsCmd{Dataset: "d"}).Run(t.Context(), e.app); err != nil || !strings.Contains(e.out.String(), `"layers":[]`) {
		t.Error(err, e.out.String())
	}
}

func TestAShareIsRoundWithoutSayingAllOrNothing(t *testing.T) {
	for share, want := range map[float64]string{0: "0%", 0.0001: "<1%", 0.5: "50%", 0.999: ">99%", 1: "100%"} {
		if got := percent(share); got != want {
			t.Errorf("%v: %s, want %s", share, got, want)
		}
	}
}

func TestADryRunTellsOfLayers(t *testing.T) {
	e := annotated(t)
	old := dataset.OldChunkDir("d", "C") + "chunk_00000.jsonl"
	if k := dataset.ParseKey(old); k.Kind != dataset.KindOldChunk {
		t.Fatalf("%s is %v", old, k.Kind)
	}
	body := `{"id":"a","_batch":"b","data":{"n":1}}`
	if _, err := e.store.Put(t.Context(), old, []byte(body), objstore.IfAbsent()); err != nil {
		t.Fatal(err)
	}
	plan := func(target string) string {
		t.Helper()
		e.out.Reset()
		if err := (&mergeCmd{Target: target, DryRun: true}).Run(t.Context(), e.app); err != nil {
			t.Fatal(err)
		}
		return e.out.String()
	}
	for _, target := range []string{"d", "d/b"} {
		said := plan(target)
		for _, want := range []string{"d/b: nothing to do", "d/b/A: nothing to do", "d/b/B: would commit generation 1", "1 added",
			"d, layer C: would first split 1 chunk of an older tool, 38 B"} {
			if !strings.Contains(said, want) {
				t.Errorf("%q is not in %s", want, said)
			}
		}
	}
	e.json = true
	said := plan("d")
	for _, want := range []string{`"annotator":"B","due":true`, `"annotator":"C","older_chunks":1,"older_bytes":38`} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in %s", want, said)
		}
	}
	e.json = false
	if again := plan("d"); !strings.Contains(again, "d/b/B: would commit generation 1") || !strings.Contains(again, "layer C: would first split 1 chunk") {
		t.Errorf("a dry run changed something: %s", again)
	}
	e.live(t, `{"id":"z"}`)
	second := dataset.BatchID{Dataset: "d", Batch: "second"}
	if _, err := e.store.Put(t.Context(), second.ChunkKey("abc123", 0), []byte(`{"id":"a"}`), objstore.IfAbsent()); err != nil {
		t.Fatal(err)
	}
	if said := plan("d/second"); strings.Contains(said, "d/b") {
		t.Errorf("the layers of another batch: %s", said)
	}
}

func TestEventsTellOfTheCommitOfALayer(t *testing.T) {
	dir := t.TempDir()
	up := startUp(t, dir)
	must(t, `{"n":1}`+"\n", "--dir", dir, "put", "corpus", "--batch", "b")
	must(t, "", "--dir", dir, "merge", "corpus")
	note := annotation{dir: dir, name: "A", child: testAnnotator{Says: "yes", Calls: filepath.Join(t.TempDir(), "calls")}}
	if _, r := note.run(t); r.code != 0 {
		t.Fatalf("exit %d, %s", r.code, r.stderr)
	}
	must(t, "", "--dir", dir, "merge", "corpus")
	var commits int
	for l := range strings.Lines(must(t, "", "--dir", dir, "events", "corpus", "--since", "1h")) {
		var e dataset.Event
		if err := json.Unmarshal([]byte(l), &e); err != nil {
			t.Fatal(err)
		}
		if e.Type == dataset.AnnotationUpdated && e.Commit != "" && *e.Annotator == "A" && e.Generation == 1 && *e.Rows == 1 {
			commits++
		}
	}
	if commits != 1 {
		t.Errorf("%d events tell of the commit", commits)
	}
	up.stop(syscall.SIGTERM)
}
