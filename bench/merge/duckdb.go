package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"

	_ "github.com/duckdb/duckdb-go/v2"
)

// mergeDuckDB does the job in SQL: lines are kept as they are, which is both
// faster and more exact than columns, DISTINCT ON drops duplicates, and COPY
// writes ten blocks. CSV without quotes is how DuckDB writes lines as they are.
func mergeDuckDB(ctx context.Context, dir, out string) (err error) {
	db, err := sql.Open("duckdb", filepath.Join(out, "work.duckdb"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	chunks := filepath.Join(dir, theDataset, theBatchName, "*_chunk_*.jsonl")
	run := func(format string, args ...any) error {
		_, err := db.ExecContext(ctx, fmt.Sprintf(format, args...))
		return err
	}
	if err := run(`CREATE TEMP TABLE rows AS SELECT json->>'id' AS id, json->>'_created_at' AS created,
		md5(json->>'text' || chr(1) || (json->>'source_id')) AS k, json::VARCHAR AS line
		FROM read_ndjson_objects('%s')`, chunks); err != nil {
		return err
	}
	if err := run(`CREATE TEMP TABLE kept AS SELECT line, row_number() OVER (ORDER BY id) - 1 AS n
		FROM (SELECT DISTINCT ON (k) id, line FROM (SELECT DISTINCT ON (id) * FROM rows ORDER BY id, created) ORDER BY k, created, id)`); err != nil {
		return err
	}
	var n int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM kept`).Scan(&n); err != nil {
		return err
	}
	for i := 0; i*blockRows < n; i++ {
		path := filepath.Join(out, fmt.Sprintf("merged_%05d.jsonl.gz", i))
		if err := run(`COPY (SELECT line FROM kept WHERE n >= %d AND n < %d ORDER BY n) TO '%s'
			(FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\x07', COMPRESSION gzip)`, i*blockRows, (i+1)*blockRows, path); err != nil {
			return err
		}
	}
	return nil
}

const blockRows = 50_000
