package query_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query"
)

func TestLongStringsAreCut(t *testing.T) {
	for row, want := range map[string]string{
		`{"id":"1234567","t":"12345"}`:                `{"id":"1234567","t":"12345"}`,
		`{"id":"1","t":"123456"}`:                     `{"id":"1","t":"12345","_silt_clipped":{"t":6}}`,
		`{"id":"1","t":"éééééé","u":"ééééé"}`:         `{"id":"1","t":"ééééé","u":"ééééé","_silt_clipped":{"t":6}}`,
		`{"t":"\n\n\n\n\n\n","id":"1"}`:               `{"t":"\n\n\n\n\n","id":"1","_silt_clipped":{"t":6}}`,
		`{"id":"1","t":"1234\"6"}`:                    `{"id":"1","t":"1234\"","_silt_clipped":{"t":6}}`,
		`{"id":"1","t":"12345\\"}`:                    `{"id":"1","t":"12345","_silt_clipped":{"t":6}}`,
		`{"id":"1","t":"1234\ud83d\ude006"}`:          `{"id":"1","t":"1234\ud83d\ude00","_silt_clipped":{"t":6}}`,
		`{"id":"1","t":"1234\ud83dx"}`:                `{"id":"1","t":"1234\ud83d","_silt_clipped":{"t":6}}`,
		`{"id":"1","t":"123\ud83d\ud83d\ude006"}`:     `{"id":"1","t":"123\ud83d\ud83d\ude00","_silt_clipped":{"t":6}}`,
		`{"id":"1","t":"1234🙂6"}`:                     `{"id":"1","t":"1234🙂","_silt_clipped":{"t":6}}`,
		`{"id":"1","o":{"a":["123456",{"b":"1"}]}}`:   `{"id":"1","o":{"a":["12345",{"b":"1"}]},"_silt_clipped":{"o":26}}`,
		`{ "id" : "1" , "t" : "123456" , "n" : 1.0 }`: `{ "id" : "1" , "t" : "12345" , "n" : 1.0 ,"_silt_clipped":{"t":6}}`,
		`{"id":"1","a,}\"":"123456","":"1234567"}`:    `{"id":"1","a,}\"":"12345","":"12345","_silt_clipped":{"a,}\"":6,"":7}}`,
		`{"\u0069d":"1234567","_created_at":"2026-01-01","_batch":"1234567","n":1234567,"b":false,"x":null,"e":1e400}`: `{"\u0069d":"1234567","_created_at":"2026-01-01","_batch":"1234567","n":1234567,"b":false,"x":null,"e":1e400}`,
		`{}`: `{}`,
	} {
		if got := string(query.Clip(nil, []byte(row), 5)); got != want {
			t.Errorf("%s\n got %s\nwant %s", row, got, want)
		}
	}
}

// shorter compares a value with what was cut from it, and gives whether
// something was.
func shorter(t *testing.T, was, is any, limit int) bool {
	t.Helper()
	switch was := was.(type) {
	case string:
		is, ok := is.(string)
		if n := utf8.RuneCountInString(is); !ok || !strings.HasPrefix(was, is) || is != was && n != limit || n > limit {
			t.Fatalf("%q became %q", was, is)
		}
		return is != was
	case []any:
		is, ok := is.([]any)
		if !ok || len(is) != len(was) {
			t.Fatalf("%v became %v", was, is)
		}
		cut := false
		for i := range was {
			cut = shorter(t, was[i], is[i], limit) || cut
		}
		return cut
	case map[string]any:
		is, ok := is.(map[string]any)
		if !ok || len(is) != len(was) {
			t.Fatalf("%v became %v", was, is)
		}
		cut := false
		for k := range was {
			cut = shorter(t, was[k], is[k], limit) || cut
		}
		return cut
	}
	if was != is {
		t.Fatalf("%v became %v", was, is)
	}
	return false
}

func FuzzClip(f *testing.F) {
	f.Add(`{"id":"1","t":"12345678"}`, 5)
	f.Add(`{"id":"x","t":"\ud83d\ude00\ud83d","o":{"a":["é\\\"","\u0000"]},"n":1e400}`, 1)
	f.Add(` { "id" : 5 , "a" : [ { "b" : "cccccccc" } ] , "" : "" } `, 3)
	f.Add(`{"id":"1","日本":"日本語日本語","_created_at":"2026-11-30T06:00:00Z"}`, 2)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit < 1 || limit > 1000 {
			return
		}
		row, err := dataset.ParseRow([]byte(text))
		if err != nil || strings.Contains(text, "_silt") {
			return
		}
		out := query.Clip([]byte("before"), row.Raw, limit)
		if !strings.HasPrefix(string(out), "before") {
			t.Fatalf("what was there is gone: %s", out)
		}
		out = out[len("before"):]
		// An object as a list of members: two names that decode alike, with halves
		// of surrogate pairs, stay two.
		var was, is []string
		var wasValue, isValue [][]byte
		for name, v := range row.Fields() {
			was, wasValue = append(was, name), append(wasValue, v)
		}
		cut, err := dataset.ParseRow(out)
		if err != nil {
			t.Fatalf("%s became %s: %v", text, out, err)
		}
		told := map[string]int{}
		for name, v := range cut.Fields() {
			if name == "_silt_clipped" {
				if err := json.Unmarshal(v, &told); err != nil {
					t.Fatal(err)
				}
				continue
			}
			is, isValue = append(is, name), append(isValue, v)
		}
		if !slices.Equal(was, is) {
			t.Fatalf("columns %q became %q", was, is)
		}
		cuts := 0
		for i, name := range was {
			var a, b any
			da, db := json.NewDecoder(strings.NewReader(string(wasValue[i]))), json.NewDecoder(strings.NewReader(string(isValue[i])))
			da.UseNumber()
			db.UseNumber()
			if err := da.Decode(&a); err != nil {
				t.Skip() // nested deeper or odder than this decoder takes
			}
			if err := db.Decode(&b); err != nil {
				t.Fatal(err)
			}
			if name == "id" || name == "_created_at" || name == "_batch" {
				if string(wasValue[i]) != string(isValue[i]) {
					t.Fatalf("%s was cut", name)
				}
				continue
			}
			if !shorter(t, a, b, limit) {
				if string(wasValue[i]) != string(isValue[i]) {
					t.Fatalf("%s changed to %s", wasValue[i], isValue[i])
				}
				continue
			}
			cuts++
			if s, ok := a.(string); ok && utf8.ValidString(name) && told[name] != utf8.RuneCountInString(s) {
				t.Fatalf("%q has %d characters, told are %d", name, utf8.RuneCountInString(s), told[name])
			}
		}
		if (cuts > 0) != (len(told) > 0) {
			t.Fatalf("%d columns were cut, %v are told", cuts, told)
		}
	})
}
