package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone"
	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/producers"
	"github.com/siltstone-data/siltstone/query"
)

// annotated lets an annotator write data of the rows that it has for them.
func (e *exporter) annotated(t *testing.T, annotator string, data map[string]string) {
	t.Helper()
	_, err := producers.Annotate(t.Context(), e.store, nil, siltstone.NewLocker(e.store, e.log), e.log, "d", annotator,
		func(_ context.Context, r dataset.Row) (dataset.Annotation, error) {
			text, ok := data[r.ID]
			if !ok {
				return dataset.Annotation{}, os.ErrNotExist
			}
			return dataset.Annotation{Data: json.RawMessage(text), Metadata: json.RawMessage(`{"by":"` + annotator + `"}`)}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
}

// mergeAll merges what is live, layers included.
func (e *exporter) mergeAll(t *testing.T) {
	t.Helper()
	e.registry = prometheus.NewRegistry()
	if err := (&mergeCmd{Target: "d"}).Run(t.Context(), e.app); err != nil {
		t.Fatal(err)
	}
	e.out.Reset()
	e.errs.Reset()
}

// twoLayers are four rows and the layers words and lang, of three of them each.
func twoLayers(t *testing.T) *exporter {
	e := newExporter(t)
	e.merged(t, `{"id":"a","n":3}`, `{"id":"b","n":1}`, `{"id":"c","n":2}`, `{"id":"d"}`)
	e.annotated(t, "words", map[string]string{"a": `{"count":5}`, "b": `{"count":7}`, "c": `{"count":6.0}`})
	e.annotated(t, "lang", map[string]string{"a": `{"code":"en"}`, "b": `{"code":"de"}`, "d": `{"code":"en"}`})
	e.mergeAll(t)
	return e
}

func jsonLines(ls ...string) string { return strings.Join(ls, "\n") + "\n" }

func TestExportJoinsLayersFiltersAndSorts(t *testing.T) {
	e := twoLayers(t)
	two := int64(2)
	tests := []struct {
		name string
		c    exportCmd
		want string
		says []string
	}{
		{"layers", exportCmd{Annotators: []string{"words", "lang"}},
			jsonLines(`{"id":"a","n":3,"words.count":5,"lang.code":"en"}`, `{"id":"b","n":1,"words.count":7,"lang.code":"de"}`,
				`{"id":"c","n":2,"words.count":6.0}`, `{"id":"d","lang.code":"en"}`), nil},
		{"a filter asks a layer that is not shown", exportCmd{Where: `{"layer":"lang","column":"code","op":"eq","value":"en"}`},
			jsonLines(`{"id":"a","n":3}`, `{"id":"d"}`), nil},
		{"columns of layers", exportCmd{Annotators: []string{"words", "lang"}, Columns: []string{"lang.code", "words.count"}, Format: "csv"},
			jsonLines("id,_created_at,lang.code,words.count", "a,,en,5", "b,,de,7", "c,,,6.0", "d,,en,"), nil},
		{"metadata", exportCmd{Annotators: []string{"words"}, Columns: []string{"words._metadata"}, Where: `{"column":"n","op":"eq","value":3}`},
			jsonLines(`{"id":"a","words._metadata":{"by":"words"}}`), nil},
		{"a sort by a field", exportCmd{Annotators: []string{"words"}, Sort: []string{"words.count:desc"}, Columns: []string{"words.count"}},
			jsonLines(`{"id":"b","words.count":7}`, `{"id":"c","words.count":6.0}`, `{"id":"a","words.count":5}`, `{"id":"d"}`), nil},
		{"all together", exportCmd{Annotators: []string{"words", "lang"}, Sort: []string{"lang.code", "n:desc"}, Batch: []string{"b"}, Limit: &two,
			Columns: []string{"n", "lang.code"}, Where: `{"any":[{"column":"words.count","op":"gt","value":5},{"column":"n","op":"eq","value":3.0}]}`},
			jsonLines(`{"id":"b","n":1,"lang.code":"de","words.count":7}`, `{"id":"a","n":3,"lang.code":"en","words.count":5}`), nil},
		{"a column that no row has", exportCmd{Where: `{"column":"nn","op":"eq","value":3}`}, "", []string{`no row has a column "nn", which --where asks for`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { e.wants(t, tt.c, tt.want, tt.says...) })
	}
}

func TestExportRefusesWhatCannotBeMeant(t *testing.T) {
	e := twoLayers(t)
	tests := []struct {
		c    exportCmd
		says string
	}{
		{exportCmd{Sort: []string{"words.count"}}, `"words.count" is a field of annotator "words": its layer is not read; name the annotator too, with --annotators`},
		{exportCmd{Columns: []string{"lang.code"}}, "with --annotators"},
		{exportCmd{Sort: []string{":desc"}}, "--sort"},
		{exportCmd{Sort: []string{"n", "n:desc"}}, `column "n" is named twice`},
		{exportCmd{Where: `{"column"`}, "--where"},
		{exportCmd{Where: `{"all":[{"column":"n"}]}`}, "--where"},
		{exportCmd{At: "3", Annotators: []string{"words"}}, "--at 3 and --annotators"},
		{exportCmd{At: "1", Where: `{"layer":"words","column":"count","op":"gt","value":1}`}, "give a time"},
		{exportCmd{At: "3", Live: true}, "--at and --live"},
		{exportCmd{Overwrite: true, Output: "x"}, "--overwrite"},
		{exportCmd{Annotators: []string{"a.b"}}, "--annotators"},
	}
	for _, tt := range tests {
		if code := e.export(t, tt.c); code != exitUsage || !strings.Contains(e.errs.String(), tt.says) || e.out.Len() > 0 {
			t.Errorf("%+v: exit %d, %q, %q", tt.c, code, e.out.String(), e.errs.String())
		}
	}
	if code := e.export(t, exportCmd{Annotators: []string{"word"}}); code != exitFailed || !strings.Contains(e.errs.String(), `did you mean "words"?`) {
		t.Errorf("exit %d, %q", code, e.errs.String())
	}
}

func TestExportCountsLiveAnnotationsThatAreLeftOut(t *testing.T) {
	e := twoLayers(t)
	e.annotated(t, "lang", map[string]string{"c": `{"code":"fr"}`})
	want := jsonLines(`{"id":"c","n":2}`)
	only := `{"column":"n","op":"eq","value":2}`
	e.wants(t, exportCmd{Annotators: []string{"lang"}, Where: only}, want, "1 annotation of lang not merged yet and left out")
	e.wants(t, exportCmd{Where: `{"column":"lang.code","op":"eq","value":"fr"}`}, "", "1 annotation of lang not merged yet and left out")
	e.wants(t, exportCmd{Where: only}, want)
	e.wants(t, exportCmd{Annotators: []string{"lang"}, Where: only, Live: true}, jsonLines(`{"id":"c","n":2,"lang.code":"fr"}`))
	e.json = true
	path := filepath.Join(t.TempDir(), "x.ndjson")
	if code := e.export(t, exportCmd{Annotators: []string{"lang"}, Where: `{"column":"nn","op":"eq","value":2}`, Output: path}); code != 0 {
		t.Fatal(e.errs.String())
	}
	var got exportResult
	if err := json.Unmarshal(e.out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.LiveAnnotations["lang"] != 1 || len(got.UnknownColumns) != 1 || got.UnknownColumns[0] != "nn" || got.Rows != 0 {
		t.Errorf("%+v", got)
	}
}

func TestAManifestSaysWhatAFileHolds(t *testing.T) {
	e := twoLayers(t)
	e.live(t, `{"id":"e"}`)
	path := filepath.Join(t.TempDir(), `rows\1.csv`)
	c := exportCmd{Output: path, Annotators: []string{"words"}, Columns: []string{"n"}, Where: `{"column":"n","op":"gt","value":1}`, Sort: []string{"n:desc"}}
	if code := e.export(t, c); code != 0 {
		t.Fatal(e.errs.String())
	}
	raw, err := os.ReadFile(path + manifestSuffix)
	if err != nil {
		t.Fatal(err)
	}
	var m exportManifest
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(file)) != m.Bytes || m.SHA256 != sha256Of(file) || m.Rows != 2 || m.Dataset != "d" || m.Version != 1 || m.LeftOut.LiveRows != 1 {
		t.Errorf("%s", raw)
	}
	if diff := cmp.Diff([]query.FileColumn{{Name: "id"}, {Name: "_created_at"}, {Name: "n"}, {Name: "words.count"}}, m.Columns); diff != "" {
		t.Error(diff)
	}
	if len(m.Batches) != 1 || m.Batches[0].Generation != 1 || len(m.Layers["words"]) != 1 || m.Layers["words"][0].Rows != 3 {
		t.Errorf("%s", raw)
	}
	sum, err := os.ReadFile(path + sumSuffix)
	if want := `\` + m.SHA256 + `  rows\\1.csv` + "\n"; err != nil || string(sum) != want {
		t.Errorf("%q, want %q, %v", sum, want, err)
	}
	c.NoManifest, c.Where = true, ""
	other := filepath.Join(t.TempDir(), "x.csv")
	c.Output = other
	if code := e.export(t, c); code != 0 {
		t.Fatal(e.errs.String())
	}
	if got, err := filepath.Glob(other + "*"); len(got) != 1 || err != nil {
		t.Errorf("%v", got)
	}
}

func TestExportWritesParquetInAnyOrder(t *testing.T) {
	e := twoLayers(t)
	path := filepath.Join(t.TempDir(), "x.parquet")
	c := exportCmd{Output: path, Annotators: []string{"words", "lang"}, Sort: []string{"words.count:desc"}}
	if code := e.export(t, c); code != 0 {
		t.Fatal(e.errs.String())
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	p, err := block.OpenParquetFile(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var got []string
	for {
		line, err := p.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(line))
	}
	created := `,"_created_at":null`
	want := []string{
		`{"id":"b"` + created + `,"n":1,"words.count":7.0,"lang.code":"de"}`, `{"id":"c"` + created + `,"n":2,"words.count":6.0,"lang.code":null}`,
		`{"id":"a"` + created + `,"n":3,"words.count":5.0,"lang.code":"en"}`, `{"id":"d"` + created + `,"n":null,"words.count":null,"lang.code":"en"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	raw, err := os.ReadFile(path + manifestSuffix)
	if err != nil || !strings.Contains(string(raw), `"type": "double"`) {
		t.Errorf("%s %v", raw, err)
	}
}
