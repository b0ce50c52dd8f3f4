package catalog_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

func TestTheListInForceIsTheIntersection(t *testing.T) {
	for _, c := range []struct {
		name  string
		lists [][]string
		want  []string
	}{
		{"no runs", nil, nil},
		{"nobody has said anything", [][]string{nil, nil}, nil},
		{"one opinion", [][]string{nil, {"text", "id2"}}, []string{"id2", "text"}},
		{"a column named twice", [][]string{{"a", "a"}}, []string{"a"}},
		{"two opinions", [][]string{{"a", "b", "c"}, {"c", "b"}}, []string{"b", "c"}},
		{"no common column", [][]string{{"a"}, {"b"}}, []string{}},
		{"one ends it", [][]string{{"a"}, {}, nil}, []string{}},
		{"ended alone", [][]string{{}}, []string{}},
	} {
		runs := map[dataset.Run]catalog.RunState{}
		for i, l := range c.lists {
			runs[dataset.Run(rune('a'+i))] = catalog.RunState{DeduplicateOn: l}
		}
		for range 5 { // maps have no order
			if got := catalog.InForce(runs); !catalog.SameList(got, c.want) {
				t.Errorf("%s: %#v, want %#v", c.name, got, c.want)
			}
		}
	}
}

func TestNoOpinionDiffersFromTheEmptyList(t *testing.T) {
	if catalog.SameList(nil, []string{}) || !catalog.SameList(nil, nil) || !catalog.SameList([]string{}, []string{}) {
		t.Fatal("nil and [] are mixed up")
	}
}

func TestARunManifestThatComesLateIsStillHeard(t *testing.T) {
	s := mem.New()
	r := commit(t, s, "c1", func(r *catalog.Record) {
		r.Runs = map[dataset.Run]catalog.RunState{"aaaaaa": {State: catalog.RunCompleted, DeduplicateOn: []string{"x"}}, "bbbbbb": {State: catalog.RunOpen}}
	}).Record
	for _, m := range []catalog.RunManifest{
		{Run: "aaaaaa", DeduplicateOn: []string{"changed"}, State: catalog.RunFailed}, // closed: not read again
		{Run: "bbbbbb", DeduplicateOn: nil, State: catalog.RunCompleted},
		{Run: "cccccc", DeduplicateOn: []string{"a", "b"}, State: catalog.RunOpen},
	} {
		m.Dataset, m.Batch = batch.Dataset, batch.Batch
		if err := catalog.PutRun(t.Context(), s, m); err != nil {
			t.Fatal(err)
		}
	}
	got, err := catalog.MergeRuns(t.Context(), s, r, []dataset.Run{"aaaaaa", "bbbbbb", "cccccc"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[dataset.Run]catalog.RunState{
		"aaaaaa": {State: catalog.RunCompleted, DeduplicateOn: []string{"x"}},
		"bbbbbb": {State: catalog.RunCompleted},
		"cccccc": {State: catalog.RunOpen, DeduplicateOn: []string{"a", "b"}},
	}
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b catalog.Ranges) bool { return a.String() == b.String() })); d != "" {
		t.Fatal(d)
	}
}

func TestARunManifestBelongsToTheRunUnderWhoseNameItLies(t *testing.T) {
	other := `{"run":"ffffff","dataset":"other","batch":"b","annotator":null,"state":"completed"}`
	layer := batch
	layer.Annotator = "judge"
	for _, c := range []struct {
		name, body string
		b          dataset.BatchID
		want       []string // of the error; none where it is valid
	}{
		{"its own", `{"version":1,"run":"a1b2c3","dataset":"日本語 a+b","batch":"50%","annotator":null,"state":"open"}`, batch, nil},
		{"says nothing", `{"state":"completed","deduplicate_on":["x"]}`, batch, nil},
		{"says nothing, of a layer", `{"state":"completed"}`, layer, nil},
		{"as the way out has it", `{"run":"a1b2c3","deduplicate_on":null,"state":"failed"}`, layer, nil},
		{"a newer field", `{"version":1,"run":"a1b2c3","colour":"red"}`, batch, nil},
		{"another run", `{"run":"ffffff"}`, batch, []string{"run a1b2c3 of 日本語 a+b/50%", "run ffffff of 日本語 a+b/50%"}},
		{"another batch", other, batch, []string{"日本語 a+b/50%", "other/b"}},
		{"the batch, for its layer", `{"run":"a1b2c3","dataset":"日本語 a+b","batch":"50%","annotator":null}`, layer, []string{"judge"}},
		{"cut", `{"run":"a1b2c3","dedup`, batch, []string{`{"run":"a1b2c3","deduplicate_on":LIST,"state":"failed"}`}},
		{"empty", "", batch, []string{"put the file back"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mem.New()
			put(t, s, c.b.RunKey("a1b2c3"), c.body)
			m, err := catalog.ReadRun(t.Context(), s, c.b, "a1b2c3")
			if c.want == nil {
				if err != nil || m.Run != "a1b2c3" || m.ID() != c.b {
					t.Fatalf("%+v %v", m, err)
				}
				return
			}
			if !errors.Is(err, catalog.ErrDamaged) {
				t.Fatal(err)
			}
			for _, part := range append(c.want, c.b.RunKey("a1b2c3")) {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is not in %v", part, err)
				}
			}
		})
	}
}

func TestARunManifestOfANewerVersionIsRefused(t *testing.T) {
	s := mem.New()
	put(t, s, batch.RunKey("a1b2c3"), `{"version":2,"run":["a1b2c3"]}`)
	_, err := catalog.ReadRun(t.Context(), s, batch, "a1b2c3")
	if err == nil || errors.Is(err, catalog.ErrDamaged) || !strings.Contains(err.Error(), "newer siltstone") {
		t.Fatal(err)
	}
}
