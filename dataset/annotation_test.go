package dataset_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
)

var midday = time.Date(2026, 11, 30, 12, 0, 0, 1000, time.UTC)

func TestAnAnnotationIsARowOfALayer(t *testing.T) {
	for _, c := range []struct{ id, batch, data, metadata, want string }{
		{"a", "b", `{"x":1.0}`, `{"cost_usd":1e-3}`, `{"id":"a","_batch":"b","_created_at":"2026-11-30T12:00:00.000001Z","data":{"x":1.0},"metadata":{"cost_usd":1e-3}}`},
		{"a", "b", " {}\n", ``, `{"id":"a","_batch":"b","_created_at":"2026-11-30T12:00:00.000001Z","data":{},"metadata":{}}`},
		{"a", "b", `{}`, `null`, `{"id":"a","_batch":"b","_created_at":"2026-11-30T12:00:00.000001Z","data":{},"metadata":{}}`},
		{"é\"\n", `日本語`, "{\n\t\"x\": [1,\r\n2]}", `{}`, `{"id":"é\"\n","_batch":"日本語","_created_at":"2026-11-30T12:00:00.000001Z","data":{ ` + "\t" + `"x": [1,  2]},"metadata":{}}`},
	} {
		got, err := dataset.AppendAnnotation([]byte("before"), c.batch, dataset.Row{ID: c.id}, midday, []byte(c.data), []byte(c.metadata))
		if err != nil || string(got) != "before"+c.want {
			t.Errorf("%s\nwant   %s, %v", got, "before"+c.want, err)
		}
		row, err := dataset.ParseRow([]byte(c.want))
		if err != nil || row.ID != c.id || !row.CreatedAt.Equal(midday) {
			t.Errorf("%+v, %v", row, err)
		}
	}
}

func TestWhatCannotBeStoredIsNoAnnotation(t *testing.T) {
	for name, c := range map[string]struct{ data, metadata, says string }{
		"no data":              {``, `{}`, "an empty object {}"},
		"null":                 {`null`, ``, "an empty object {}"},
		"a list":               {`[1]`, ``, "[1]"},
		"a text":               {`"x"`, ``, `"x"`},
		"metadata of a number": {`{}`, `3`, "metadata is 3"},
		"two objects":          {`{"a":1},"b":{}`, ``, "one JSON object"},
		"two objects more":     {`{}`, `{},"b":1`, "one JSON object"},
		"another data":         {`{},"data":{}`, ``, "twice"},
		"cut off":              {`{"a":1`, ``, "line ends"},
		"closed early":         {`{"a":1}}`, ``, "after the object"},
		"names twice":          {`{"a":1,"a":2}`, ``, "twice"},
		"NaN":                  {`{"a":NaN}`, ``, "NaN"},
		"invalid UTF-8":        {"{\"a\":\"\xff\"}", ``, "UTF-8"},
		"too deep":             {strings.Repeat(`{"a":`, 600) + "1" + strings.Repeat("}", 600), ``, "deep"},
		"metadata as a field":  {`{"_metadata":1}`, ``, "reserved"},
		"escaped":              {`{"\u005fmetadata":1}`, ``, "reserved"},
		"a name of ours":       {`{"_silt_x":1}`, ``, "reserved"},
	} {
		got, err := dataset.AppendAnnotation(nil, "b", dataset.Row{ID: "a"}, midday, []byte(c.data), []byte(c.metadata))
		if !errors.Is(err, dataset.ErrAnnotation) || !strings.Contains(err.Error(), c.says) || len(got) != 0 {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

func TestAQuestionIsOneLineWithTheRowAsItIs(t *testing.T) {
	row := dataset.Row{ID: "a\"b", Raw: []byte(`{"id":"a\"b","x":1.0,  "big":9007199254740993}`)}
	got := string(dataset.AppendQuestion(nil, "x=1", row))
	if want := `{"id":"a\"b","batch":"x=1","data":` + string(row.Raw) + "}\n"; got != want {
		t.Fatalf("%s want %s", got, want)
	}
	if !json.Valid([]byte(got)) {
		t.Fatal(got)
	}
}

func TestALeaseHasOnePlace(t *testing.T) {
	if got := dataset.LeaseKey("d", "a"); got != "d/annotations/a/.temp/.lock" {
		t.Fatal(got)
	}
}

func FuzzAppendAnnotation(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1}`, `{},"data":{}`, `{"a":{"b":[1,2,{"c":null}]}}`, "{\"a\":\n1}", `{"_metadata":1}`} {
		f.Add("id", s, s)
	}
	f.Fuzz(func(t *testing.T, id, data, metadata string) {
		if id == "" || len(id) > dataset.MaxIDBytes || strings.ToValidUTF8(id, "") != id {
			return
		}
		line, err := dataset.AppendAnnotation(nil, "b", dataset.Row{ID: id}, midday, []byte(data), []byte(metadata))
		if err != nil {
			return
		}
		row, err := dataset.ParseRow(line)
		if err != nil || row.ID != id {
			t.Fatalf("%q: %+v, %v", line, row, err)
		}
		var names []string
		for name, value := range row.Fields() {
			names = append(names, name)
			if (name == dataset.DataMember || name == dataset.MetadataMember) && value[0] != '{' {
				t.Fatalf("%q", line)
			}
		}
		if len(names) != 5 {
			t.Fatalf("%q", line)
		}
	})
}
