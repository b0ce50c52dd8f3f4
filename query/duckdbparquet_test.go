package query_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/dataset"
)

// parquetFile writes lines into a parquet block on disk.
func parquetFile(t *testing.T, lines ...string) string {
	t.Helper()
	var buf bytes.Buffer
	w := block.NewParquetWriter(&buf, t.TempDir())
	for _, l := range lines {
		r, err := dataset.ParseRow([]byte(l))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "merged_00000.parquet")
	if err := os.WriteFile(path, buf.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func duckDB(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// TestDuckDBReadsAParquetBlock is the promise that a parquet block has typed
// columns for other tools, of which none lies.
func TestDuckDBReadsAParquetBlock(t *testing.T) {
	db := duckDB(t)
	lines := []string{
		`{"id":"0193817e-6f2a-7cc1-9b1e-5a1f0c6f2d11","n":9223372036854775807,"x":-0.0,"ok":true,"t":"lone \ud800 half","o":{"k":[1,{"l":"\ud83d"}]},"mix":9223372036854775808,"ID":7,"a.b":1}`,
		`{"id":"0193817e-6f2a-7cc1-9b1e-5a1f0c6f2d12","n":-9223372036854775808,"x":0.5,"ok":false,"t":"caf\u00e9","o":[1],"mix":1e400,"ID":8,"a.b":2}`,
		`{"id":"0193817e-6f2a-7cc1-9b1e-5a1f0c6f2d13","n":null,"x":1.5,"t":"\u0000","mix":"text","v":1,"V":2,"ID":9,"a.b":3}`,
	}
	path := parquetFile(t, lines...)
	from := " FROM read_parquet('" + path + "')"
	same(t, column(t, db, "SELECT column_name || ' ' || column_type FROM (DESCRIBE SELECT *"+from+")"),
		"id VARCHAR", "n BIGINT", "x DOUBLE", "ok BOOLEAN", "t VARCHAR", "o JSON", "mix JSON", "v BIGINT", "V_1 BIGINT", "ID_1 BIGINT", "a.b BIGINT", "_silt_raw VARCHAR")
	same(t, column(t, db, "SELECT count(*)::VARCHAR || ' ' || count(n) || ' ' || sum(x) || ' ' || sum(\"a.b\")"+from), "3 2 2.0 6")
	same(t, column(t, db, "SELECT n::VARCHAR"+from+" WHERE n IS NOT NULL"), "9223372036854775807", "-9223372036854775808")
	same(t, column(t, db, "SELECT id"+from+" WHERE x >= 0"), lines[0][7:43], lines[1][7:43], lines[2][7:43])
	same(t, column(t, db, "SELECT t"+from), "lone \ufffd half", "café", "\x00")
	same(t, column(t, db, "SELECT mix::VARCHAR"+from), "9223372036854775808", "1e400", `"text"`)
	same(t, column(t, db, "SELECT (o->'k'->1->>'l')"+from+" WHERE id < '"+lines[1][7:43]+"'"), "\ufffd")
	same(t, column(t, db, "SELECT _silt_raw"+from+" WHERE _silt_raw IS NOT NULL"), lines[0])
}

// Row groups are left out by their bounds and bloom filters, and never one that
// holds a row asked for (B092).
func TestDuckDBFindsEveryRowOfAParquetBlockByItsValues(t *testing.T) {
	db := duckDB(t)
	var lines []string
	for i := range 6000 {
		x := fmt.Sprintf("%d.5", i%7-3)
		if i%7 == 3 {
			x = []string{"0.0", "-0.0", "null"}[i%3]
		}
		lines = append(lines, fmt.Sprintf(`{"id":"%08d","x":%s,"name":"%s%d","text":"%s"}`,
			i*2, x, strings.Repeat("ÿ", 40+i%3), i, strings.Repeat("some text ", 60)))
	}
	path := parquetFile(t, lines...)
	from := " FROM read_parquet('" + path + "')"
	groups := column(t, db, "SELECT count(DISTINCT row_group_id)::VARCHAR FROM parquet_metadata('"+path+"')")
	if groups[0] < "3" || len(groups[0]) > 1 {
		t.Fatalf("%q row groups", groups)
	}
	count := func(where string) string { return column(t, db, "SELECT count(*)::VARCHAR"+from+" WHERE "+where)[0] }
	var zeros, named int
	for i, l := range lines {
		if strings.Contains(l, `"x":0.0`) || strings.Contains(l, `"x":-0.0`) {
			zeros++
		}
		if i%500 == 0 {
			if n := count(fmt.Sprintf("id = '%08d'", i*2)); n != "1" {
				t.Errorf("row %d is found %s times", i, n)
			}
			named++
			if n := count(fmt.Sprintf("name = '%s%d'", strings.Repeat("ÿ", 40+i%3), i)); n != "1" {
				t.Errorf("row %d is found %s times by name", i, n)
			}
		}
	}
	if n := count("x = 0"); n != fmt.Sprint(zeros) || zeros == 0 {
		t.Errorf("%s zeros, there are %d", n, zeros)
	}
	if n := count("id >= '00000000' AND id < '00006000'"); n != "3000" {
		t.Errorf("%s rows in a range", n)
	}
	if n := count("id = '00000001'"); n != "0" {
		t.Errorf("a row that is not there is found %s times", n)
	}
	probe := column(t, db, "SELECT bloom_filter_excludes::VARCHAR FROM parquet_bloom_probe('"+path+"', 'id', '00000001')")
	if len(probe) < 3 {
		t.Errorf("bloom filters: %q", probe)
	}
}

// Blocks with other columns are read together by name (B094, B095).
func TestDuckDBReadsParquetBlocksOfOtherColumnsTogether(t *testing.T) {
	db := duckDB(t)
	a := parquetFile(t, `{"id":"a","m":null,"n":1}`, `{"id":"b","m":null,"n":2}`)
	b := parquetFile(t, `{"id":"c","m":7,"n":2.5,"k":{"b":1,"a":2}}`)
	got := column(t, db, fmt.Sprintf("SELECT id || coalesce(m, -1) || n FROM read_parquet(['%s','%s'], union_by_name=true) ORDER BY id", a, b))
	same(t, got, "a-11.0", "b-12.0", "c72.5")
}
