package merger_test

import (
	"slices"
	"testing"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/merger"
)

func TestTheBatchOfAnAdoptedRowGoesAndNothingElse(t *testing.T) {
	for line, want := range map[string]string{
		`{"_batch":"b"}`:                                    `{}`,
		`{ "_batch" : "b" , "x" : 1 }`:                      `{"x" : 1 }`,
		`{"id":"a","_batch":"b"}`:                           `{"id":"a"}`,
		`{"id": "a", "_batch": "b", "x": 1.0}`:              `{"id": "a", "x": 1.0}`,
		`{"\u005fbatch":"\u0062","x":{"_batch":"c"}}`:       `{"x":{"_batch":"c"}}`,
		`{"x\"_batch":[1,{"a":"}"}],"_batch":"b","y":null}`: `{"x\"_batch":[1,{"a":"}"}],"y":null}`,
		`{"_batch":"c"}`:                                    "",
		`{"_batch":7}`:                                      "",
		`{"_batch":null}`:                                   "",
		`{"x":{"_batch":"b"}}`:                              "",
		`{}`:                                                "",
	} {
		r, err := dataset.ParseRow([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		got, ok := merger.WithoutOwnBatch(r, "b")
		if !ok {
			got.Raw = nil
		}
		if string(got.Raw) != want {
			t.Errorf("%s: %s, want %s", line, got.Raw, want)
		}
	}
}

func FuzzTheBatchOfAnAdoptedRow(f *testing.F) {
	f.Add([]byte(`{ "id": "a" , "_batch" : "b" , "x\\":[1] }`))
	f.Add([]byte(`{"\u005fbatch":"b"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := dataset.ParseRow(line)
		if err != nil {
			return
		}
		was := slices.Clone(r.Raw)
		got, ok := merger.WithoutOwnBatch(r, "b")
		if !ok {
			return
		}
		again, err := dataset.ParseRow(got.Raw)
		if err != nil {
			t.Fatalf("%q became %q: %v", was, got.Raw, err)
		}
		var want, have []string
		for name, v := range (dataset.Row{Raw: was}).Fields() {
			if name != dataset.BatchColumn {
				want = append(want, name, string(v))
			}
		}
		for name, v := range again.Fields() {
			have = append(have, name, string(v))
		}
		if !slices.Equal(want, have) {
			t.Fatalf("%q became %q", was, got.Raw)
		}
	})
}
