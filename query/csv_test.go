package query_test

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/query"
)

// writeAll writes rows of batch b and closes.
func writeAll(t *testing.T, w query.Writer, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if err := w.Write(row(t, "b", l)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w.Discard()
}

func asCSV(t *testing.T, columns []string, lines ...string) string {
	t.Helper()
	var out bytes.Buffer
	dir := t.TempDir()
	w, err := query.NewCSV(&out, columns, dir)
	if err != nil {
		t.Fatal(err)
	}
	writeAll(t, w, lines...)
	same(t, entries(t, dir))
	return out.String()
}

func TestCSVHasTheUnionOfTheColumns(t *testing.T) {
	got := asCSV(t, nil, `{"id":"1","b":1}`, `{"id":"2","_created_at":5,"a":2}`, `{"c":3,"id":"3","a":4}`)
	want := "id,_created_at,b,a,c\n1,,1,,\n2,5,,2,\n3,,,4,3\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := asCSV(t, nil); got != "id,_created_at\n" {
		t.Errorf("no rows: %q", got)
	}
}

func TestCSVWritesTheColumnsAskedFor(t *testing.T) {
	got := asCSV(t, []string{"x", "_batch", "none"}, `{"id":"1","b":1,"x":true}`, `{"id":"2","x":null}`)
	if want := "id,_created_at,x,_batch,none\n1,,true,b,\n2,,,b,\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestACellIsTextOrJSON(t *testing.T) {
	for value, want := range map[string]string{
		`"plain"`:              "plain",
		`"a \"b\", c"`:         `a "b", c`,
		`"two\nlines\r\nx"`:    "two\nlines\r\nx",
		`"\u00e9\ud83d\ude00"`: "é😀",
		`"x\ud83dy"`:           "x\uFFFDy",
		`1e400`:                "1e400",
		`-0`:                   "-0",
		`1.0`:                  "1.0",
		`9007199254740993`:     "9007199254740993",
		`true`:                 "true",
		`null`:                 "",
		`""`:                   "",
		`{"a":[1, "=x"]}`:      `{"a":[1, "=x"]}`,
		`[]`:                   "[]",
		`"=1+1"`:               "'=1+1",
		`"+SUM(A1)"`:           "'+SUM(A1)",
		`"-cmd|' /C calc'!A0"`: "'-cmd|' /C calc'!A0",
		`"@x"`:                 "'@x",
		`"\tx"`:                "'\tx",
		`"\rx"`:                "'\rx",
		`"-"`:                  "'-",
		`"-5"`:                 "-5",
		`"+4.5e-3"`:            "+4.5e-3",
		`"-.5"`:                "-.5",
		`"-5-5"`:               "'-5-5",
		`" =1"`:                " =1",
		`-5`:                   "-5",
	} {
		got := asCSV(t, []string{"v"}, `{"id":"1","v":`+value+`}`)
		_, cell, _ := strings.Cut(got, "\n1,,")
		var buf strings.Builder
		w := csv.NewWriter(&buf)
		_ = w.Write([]string{want, ""})
		w.Flush()
		if cell, want := strings.TrimSuffix(cell, "\n"), strings.TrimSuffix(buf.String(), ",\n"); cell != want {
			t.Errorf("%s: got %q, want %q", value, cell, want)
		}
	}
	if got := asCSV(t, nil, `{"id":"=1+1","=cmd":1}`); got != "id,_created_at,'=cmd\n'=1+1,,1\n" {
		t.Errorf("ids and names: %q", got)
	}
}

func TestCSVNamesThatLookAlikeStayApart(t *testing.T) {
	got := asCSV(t, nil, `{"id":"1","x":1,"X":2,"\ud800":3,"\udfff":4,"ID":5,"a\u0000b":6}`)
	rows, err := csv.NewReader(strings.NewReader(got)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"1", "", "1", "2", "3", "4", "5", "6"}
	if diff := cmp.Diff(want, rows[1]); diff != "" {
		t.Errorf("%s\n%q", diff, got)
	}
}

func TestCSVRefusesMoreColumnsThanAFileCanBear(t *testing.T) {
	w, err := query.NewCSV(&bytes.Buffer{}, nil, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Discard()
	for i := range 200 {
		var l strings.Builder
		fmt.Fprintf(&l, `{"id":"%d"`, i)
		for j := range 100 {
			fmt.Fprintf(&l, `,"c%d":1`, i*100+j)
		}
		if err = w.Write(row(t, "b", l.String()+"}")); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "10000 columns") {
		t.Error(err)
	}
}

func TestNDJSONIsTheStoredLine(t *testing.T) {
	lines := []string{`{"id":"1", "x" : 1.0}`, `{"x":"\u00e9","id":"2"}`}
	var out bytes.Buffer
	w, err := query.NewNDJSON(&out, nil)
	if err != nil {
		t.Fatal(err)
	}
	writeAll(t, w, lines...)
	if want := strings.Join(lines, "\n") + "\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	out.Reset()
	if w, err = query.NewNDJSON(&out, []string{"y", "x"}); err != nil {
		t.Fatal(err)
	}
	writeAll(t, w, lines...)
	if want := `{"id":"1","x":1.0}` + "\n" + `{"id":"2","x":"\u00e9"}` + "\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if diff := cmp.Diff([]string{"y"}, w.Missing()); diff != "" {
		t.Error(diff)
	}
}
