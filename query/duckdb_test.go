package query_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/duckdb/duckdb-go/v2"

	"github.com/siltstone-data/siltstone/block"
)

// TestDuckDBReadsABlockWhole is the promise that a block is an ordinary gzip
// file of JSON lines to other tools, however many members it has.
func TestDuckDBReadsABlockWhole(t *testing.T) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, rows := range []int{0, 1, 50, 3000} {
		t.Run(fmt.Sprintf("%d rows", rows), func(t *testing.T) {
			var want []string
			var buf bytes.Buffer
			w := block.NewWriter(&buf, 1)
			for i := range rows {
				l := line(fmt.Sprintf("%05d", i), fmt.Sprintf(`"n":%d`, 9007199254740993+i), `"x":1.0`, `"t":"é\n`+strings.Repeat("text ", i%400)+`"`)
				if err := w.Add(row(t, "b", l).Row); err != nil {
					t.Fatal(err)
				}
				want = append(want, l)
			}
			info, err := w.Close()
			if err != nil {
				t.Fatal(err)
			}
			if rows == 3000 && len(info.Frames) < 10 {
				t.Errorf("only %d frames", len(info.Frames))
			}
			path := filepath.Join(t.TempDir(), "merged_00000.jsonl.gz")
			if err := os.WriteFile(path, buf.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			same(t, column(t, db, "SELECT json::VARCHAR FROM read_ndjson_objects(?)", path), want...)

			var ids []string
			for i := range rows {
				ids = append(ids, fmt.Sprintf("%05d %d", i, 9007199254740993+i))
			}
			got := column(t, db, "SELECT id || ' ' || n FROM read_json(?, format='newline_delimited', records=true, columns={id: 'VARCHAR', n: 'BIGINT'})", path)
			slices.Sort(got)
			same(t, got, ids...)
		})
	}
}

// column gives the only column of a query's rows.
func column(t *testing.T, db *sql.DB, q string, args ...any) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), q, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
