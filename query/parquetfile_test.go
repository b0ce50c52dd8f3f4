package query_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query"
)

// typedFile writes rows, in the order given, as a parquet file for other tools.
func typedFile(t *testing.T, columns []string, lines ...string) (string, []query.FileColumn) {
	t.Helper()
	var out bytes.Buffer
	dir := t.TempDir()
	w, err := query.NewParquet(&out, columns, dir)
	if err != nil {
		t.Fatal(err)
	}
	writeAll(t, w, lines...)
	same(t, entries(t, dir))
	path := filepath.Join(t.TempDir(), "rows.parquet")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, w.FileColumns()
}

func typesOf(columns []query.FileColumn) string {
	var out []string
	for _, c := range columns {
		out = append(out, c.Name+" "+c.Type)
	}
	return strings.Join(out, ", ")
}

// TestAColumnHasTheTypeInWhichNoValueChanges: the rule, name by name.
func TestAColumnHasTheTypeInWhichNoValueChanges(t *testing.T) {
	for values, want := range map[string]string{
		`true|false|null`:              "bool",
		`1|-9223372036854775808|null`:  "int64",
		`1|9223372036854775808`:        "json", // past int64, and no double
		`9223372036854775807|0.5`:      "json",
		`9007199254740992|0.5`:         "double",
		`1|0.5|1e3|-0.0|0.10`:          "double",
		`0.1|0.10000000000000000001`:   "json",
		`1e400|1`:                      "json",
		`-0|1`:                         "double",
		`"a"|"\ud83d\ude00"|""|null`:   "string",
		`"a"|"\ud83d"`:                 "text",
		`1|"1"`:                        "json",
		`true|1`:                       "json",
		`{"a":1}|[1, 2]`:               "json",
		`{"a":"\udc00"}`:               "text",
		`null|null`:                    "string",
		`"2026-11-30T06:12:09.000Z"|1`: "json",
	} {
		var lines []string
		for i, v := range strings.Split(values, "|") {
			lines = append(lines, fmt.Sprintf(`{"id":"%d","v":%s}`, i, v))
		}
		if _, got := typedFile(t, nil, lines...); got[2].Type != want {
			t.Errorf("%s: %s, want %s", values, got[2].Type, want)
		}
	}
}

func TestDuckDBReadsATypedFile(t *testing.T) {
	db := duckDB(t)
	_, columns := typedFile(t, []string{"n", "none"},
		`{"id":"b","n":9223372036854775807,"x":-0.0,"t":"caf\u00e9 \"q\"","mix":9223372036854775808,"a.b":1,"":7,"_silt_x":[1]}`,
		`{"id":"a","n":-1,"x":1e2,"t":"two\nlines","mix":"text","a.b":null}`,
		`{"id":"b","n":null,"mix":{"k":[1, 2.0]},"v":1,"V":2}`)
	// The columns asked for are cut by the caller's projection.
	if got, want := typesOf(columns), "id string, _created_at string, n int64, none string"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	var path string
	path, columns = typedFile(t, nil,
		`{"id":"b","n":9223372036854775807,"x":-0.0,"t":"caf\u00e9 \"q\"","mix":9223372036854775808,"a.b":1,"":7,"_silt_x":[1]}`,
		`{"id":"a","n":-1,"x":1e2,"t":"two\nlines","mix":"text","a.b":null}`,
		`{"id":"b","n":null,"mix":{"k":[1, 2.0]},"v":1,"V":2}`)
	if got, want := typesOf(columns), "id string, _created_at string, n int64, x double, t string, mix json, v int64, V int64, a.b int64, _silt_rest text"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	rows, err := db.Query(`SELECT id, n::VARCHAR, x::VARCHAR, t, mix::VARCHAR, "a.b"::VARCHAR, v::VARCHAR, "V_1"::VARCHAR, _silt_rest FROM read_parquet('` + path + `')`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got [][]string
	for rows.Next() {
		cells := make([]*string, 9)
		to := make([]any, 9)
		for i := range cells {
			to[i] = &cells[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		var line []string
		for _, c := range cells {
			if c == nil {
				line = append(line, "NULL")
			} else {
				line = append(line, *c)
			}
		}
		got = append(got, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"b", "9223372036854775807", "-0.0", `café "q"`, "9223372036854775808", "1", "NULL", "NULL", `{"":7,"_silt_x":[1]}`},
		{"a", "-1", "100.0", "two\nlines", `"text"`, "NULL", "NULL", "NULL", "NULL"},
		{"b", "NULL", "NULL", "NULL", `{"k":[1, 2.0]}`, "NULL", "1", "2", "NULL"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestATypedFileGivesEveryValueBack reads files of random rows again: what a value
// is does not change, whatever its column has become.
func TestATypedFileGivesEveryValueBack(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	literals := []string{"null", "true", "false", "0", "-0", "1", "1.0", "-1.5e-7", "9007199254740993", "18446744073709551615", "1e400",
		`""`, `"x"`, `"\u0000"`, `"\ud83d\ude00"`, `"\ud800"`, `[]`, `{"a":[null,1.10]}`, `"{}"`, `"null"`}
	for range 60 {
		var lines []string
		pool := literals
		if rnd.IntN(2) == 0 {
			from := rnd.IntN(len(literals) - 3)
			pool = literals[from : from+3] // columns of one type
		}
		for i := range 1 + rnd.IntN(30) {
			line := fmt.Sprintf(`{"id":"%03d"`, rnd.IntN(900)+i)
			for c := range 4 {
				if rnd.IntN(4) > 0 {
					line += fmt.Sprintf(`,"c%d":%s`, c, pool[rnd.IntN(len(pool))])
				}
			}
			lines = append(lines, line+"}")
		}
		checkTyped(t, lines)
	}
}

func checkTyped(t *testing.T, lines []string) {
	t.Helper()
	path, columns := typedFile(t, nil, lines...)
	types := map[string]string{}
	for _, c := range columns {
		types[c.Name] = c.Type
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := block.OpenParquetFile(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for {
		got, err := f.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		want := membersOf(t, []byte(lines[n]))
		for name, v := range membersOf(t, got) {
			if v == "null" {
				if w, ok := want[name]; ok && w != "null" {
					t.Errorf("%s of %s is null", name, lines[n])
				}
				continue
			}
			w := want[name]
			if types[name] == "text" {
				var text string
				if err := json.Unmarshal([]byte(v), &text); err != nil {
					t.Fatal(err)
				}
				v = text
			}
			if !equalJSON(t, v, w) {
				t.Errorf("%s of %s is %s (%s)", name, lines[n], v, types[name])
			}
			delete(want, name)
		}
		for name, w := range want {
			if w != "null" {
				t.Errorf("%s of %s is lost", name, lines[n])
			}
		}
		n++
	}
	if n != len(lines) {
		t.Errorf("%d rows of %d", n, len(lines))
	}
}

func membersOf(t *testing.T, line []byte) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, v := range (dataset.Row{Raw: line}).Fields() {
		out[name] = string(v)
	}
	return out
}

func equalJSON(t *testing.T, a, b string) bool {
	t.Helper()
	x, err := dataset.Canonical(nil, []byte(a))
	if err != nil {
		return a == b
	}
	y, err := dataset.Canonical(nil, []byte(b))
	return err == nil && bytes.Equal(x, y)
}

func TestATypedFileHasColumnsForTheMostCommonNames(t *testing.T) {
	db := duckDB(t)
	var wide strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&wide, `,"c%04d":%d`, i, i)
	}
	_, columns := typedFile(t, []string{"asked"}, `{"id":"0"`+wide.String()+`}`)
	if len(columns) != 3 { // the projection has cut the rest
		t.Errorf("%d columns", len(columns))
	}
	var path string
	path, columns = typedFile(t, nil, `{"id":"0","often":1}`, `{"id":"1"`+wide.String()+`,"often":2}`)
	if len(columns) != 1001 || columns[len(columns)-1].Name != "_silt_rest" || !strings.Contains(typesOf(columns), ", often int64, ") {
		t.Errorf("%d columns, %v", len(columns), columns[len(columns)-1])
	}
	got := column(t, db, "SELECT sum(often)::VARCHAR || ' ' || max(len(json_keys(_silt_rest))) FROM read_parquet('"+path+"')")
	same(t, got, "3 203")
}

func TestRowGroupsOfATypedFileAreBoundedByBytes(t *testing.T) {
	db := duckDB(t)
	var lines []string
	long := strings.Repeat("0123456789abcdef", 1<<16)
	for i := range 40 {
		lines = append(lines, fmt.Sprintf(`{"id":"%d","t":"%s"}`, 100-i, long))
	}
	path, _ := typedFile(t, nil, lines...)
	same(t, column(t, db, "SELECT count(DISTINCT row_group_id)::VARCHAR FROM parquet_metadata('"+path+"')"), "2")
	same(t, column(t, db, "SELECT count(*)::VARCHAR || ' ' || max(id) || ' ' || sum(length(t)) FROM read_parquet('"+path+"')"), fmt.Sprintf("40 99 %d", 40<<20))
}
