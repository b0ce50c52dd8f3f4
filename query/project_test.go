package query_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query"
)

func row(t testing.TB, batch, line string) query.Row {
	t.Helper()
	r, err := dataset.ParseRow([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	return query.Row{Batch: batch, Row: r}
}

func TestProjectKeepsBytesAndPutsIDFirst(t *testing.T) {
	const line = `{ "x" : 1.0, "_created_at":"2026-01-02T03:04:05Z","\u0061": [1, 2],"":null,"a.b":1e400,"id":"\u00e9","big":9007199254740993 }`
	tests := []struct {
		columns   []string
		withBatch bool
		want      string
	}{
		{nil, false, line},
		{nil, true, line[:len(line)-1] + `,"_batch":"b <\"1\">"}`},
		{[]string{}, false, `{"id":"\u00e9","_created_at":"2026-01-02T03:04:05Z"}`},
		{[]string{"a", "x"}, false, `{"id":"\u00e9","_created_at":"2026-01-02T03:04:05Z","a":[1, 2],"x":1.0}`},
		{[]string{"", "a.b", "", "none", "id", "_created_at"}, false, `{"id":"\u00e9","_created_at":"2026-01-02T03:04:05Z","":null,"a.b":1e400}`},
		{[]string{"_batch", "big"}, false, `{"id":"\u00e9","_created_at":"2026-01-02T03:04:05Z","_batch":"b <\"1\">","big":9007199254740993}`},
		{[]string{"big"}, true, `{"id":"\u00e9","_created_at":"2026-01-02T03:04:05Z","big":9007199254740993,"_batch":"b <\"1\">"}`},
		{[]string{"X", "A"}, false, `{"id":"\u00e9","_created_at":"2026-01-02T03:04:05Z"}`},
	}
	for _, tt := range tests {
		given := slices.Clone(tt.columns)
		got, err := query.Project(row(t, `b <"1">`, line), tt.columns, tt.withBatch)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != tt.want {
			t.Errorf("%q, batch %v:\n got %s\nwant %s", tt.columns, tt.withBatch, got, tt.want)
		}
		if !slices.Equal(given, tt.columns) {
			t.Errorf("the caller's columns became %q", tt.columns)
		}
	}
	if _, err := query.Project(row(t, "b", line), []string{"\xff"}, false); err == nil {
		t.Error("a column name that is not UTF-8 was taken")
	}
}

func TestAProjectionTellsColumnsThatNoRowHad(t *testing.T) {
	p, err := query.NewProjection([]string{"a", "b", "c", "_batch"})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(p.Append([]byte("x"), row(t, "q", `{"id":"1","a":null}`))); got != `x{"id":"1","a":null,"_batch":"q"}` {
		t.Error(got)
	}
	p.Append(nil, row(t, "q", `{"id":"2","c":1}`))
	if diff := cmp.Diff([]string{"b"}, p.Missing()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"id", "_created_at", "a", "b", "c", "_batch"}, p.Columns()); diff != "" {
		t.Error(diff)
	}
}

func TestRowsCutsDownToColumns(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("a", `"t":"hello"`, `"u":1`))
	b.chunk("x", 7, line("b", `"u":2.0`))
	same(t, b.read(query.Options{Live: true, Columns: []string{"u", "_batch"}}),
		`x {"id":"a","u":1,"_batch":"x"}`, `x {"id":"b","u":2.0,"_batch":"x"}`)
	if _, err := read(t.Context(), b.store, query.Options{Columns: []string{"\xff"}}); err == nil {
		t.Error("a column name that is not UTF-8 was taken")
	}
}

func FuzzProjectGivesARow(f *testing.F) {
	f.Add(`{"id":"a","x":1.0,"o":{"x":2}}`, "x", "b")
	f.Add(`{"\u0069d":"a","\u0078":"\ud800"}`, "x", "\"")
	f.Add(`{"id":1,"":[{}]}`, "", "日本")
	f.Fuzz(func(t *testing.T, line, column, batch string) {
		r, err := dataset.ParseRow([]byte(line))
		if err != nil || r.ID == "" {
			return
		}
		for _, columns := range [][]string{nil, {column}} {
			out, err := query.Project(query.Row{Batch: batch, Row: r}, columns, false)
			if err != nil {
				continue
			}
			back, err := dataset.ParseRow(out)
			if err != nil {
				t.Fatalf("%s became %s: %v", line, out, err)
			}
			if back.ID != r.ID || !back.CreatedAt.Equal(r.CreatedAt) {
				t.Errorf("%s became %s", line, out)
			}
			want, ok := r.Column(column)
			got, still := back.Column(column)
			if column != dataset.BatchColumn && (ok != still || string(want) != string(got)) {
				t.Errorf("column %q of %s became %s", column, line, out)
			}
		}
	})
}
