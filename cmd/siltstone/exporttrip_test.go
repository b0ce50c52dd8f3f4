package main

import (
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query"
)

// TestExportAndPutAreARoundTrip: rows come back byte for byte under another name,
// and fields of layers as columns of the rows.
func TestExportAndPutAreARoundTrip(t *testing.T) {
	dir := t.TempDir()
	up := startUp(t, dir)
	must(t, `{"n":1.0,"id":"b","t":"\u00e9"}`+"\n"+`{"id":7, "x":9007199254740993}`+"\n"+`{"t":"no id"}`+"\n", "--dir", dir, "put", "d", "--batch", "b", "-")
	must(t, "", "--dir", dir, "merge", "d")
	must(t, "", "--dir", dir, "annotate", "d", "--annotator", "words", "--concurrency", "1", "--", "sh", "-c", `while read -r l; do echo '{"data":{"count":1.50}}'; done`)
	must(t, "", "--dir", dir, "merge", "d")
	for name, args := range map[string][]string{"plain": nil, "layered": {"--annotators", "words"}} {
		out := must(t, "", append([]string{"--dir", dir, "export", "d"}, args...)...)
		if got, want := strings.Count(out, `"words.count":1.50`), 3*len(args)/2; got != want || strings.Count(out, "\n") != 3 {
			t.Errorf("%s: %s", name, out)
		}
		must(t, out, "--dir", dir, "put", name, "--batch", "b", "-")
		must(t, "", "--dir", dir, "merge", name)
		if again := must(t, "", "--dir", dir, "export", name); again != out {
			t.Errorf("%s: %s, want %s", name, again, out)
		}
	}
	tool, err := siltstone.Open(t.Context(), up.config(t))
	if err != nil {
		t.Fatal(err)
	}
	defer tool.Close()
	f, err := dataset.ParseFilter([]byte(`{"column":"words.count","op":"eq","value":1.5}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for row, err := range tool.Export(t.Context(), "d", query.Where(f), query.Annotators("words"), query.Sort(query.SortBy{Column: "id", Desc: true}), query.Columns("words.count")) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, row.ID)
	}
	if len(got) != 3 || got[0] != "b" {
		t.Errorf("%q", got)
	}
	for _, err := range tool.Export(t.Context(), "none") {
		if err == nil {
			t.Error("a dataset that is not there was exported")
		}
	}
}
