package catalog_test

import (
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
