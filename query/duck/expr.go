package duck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/duckdb/duckdb-go/v2"

	"github.com/siltstone-data/siltstone/dataset"
)

// MaxBytes is how long an expression may be.
const MaxBytes = 16 << 10

// Expr is an expression that was checked. It may be used from many goroutines.
type Expr struct {
	engine  *Engine
	written string
	text    string // as DuckDB writes the checked tree, over c0, c1, …
	columns []string
	growth  float64 // how many times as long as a row what is made of it may be
	rows    int     // most rows of a batch
}

// Columns are the columns that it asks for, each once, in the order in which
// they stand. A.f and "A.f" are both A.f.
func (x *Expr) Columns() []string { return x.columns }

// before is what an expression is parsed behind.
const before = "SELECT ("

// Compile checks an expression. What is wrong with it is dataset.ErrFilter, with
// the place in the text.
func (e *Engine) Compile(ctx context.Context, text string) (*Expr, error) {
	x := &Expr{engine: e, written: text}
	switch {
	case len(text) > MaxBytes:
		return nil, x.fail("it has %d bytes, %d are allowed", len(text), MaxBytes)
	case !utf8.ValidString(text):
		return nil, x.fail("it is no UTF-8")
	case strings.ContainsRune(text, 0):
		return nil, x.fail("it has a NUL")
	}
	err := e.do(ctx, func(ctx context.Context, s *slot) error { return x.compile(ctx, s) })
	if err != nil {
		return nil, err
	}
	// Constants count for each row, as they may become a part of what is made of
	// it.
	x.rows = max(16, min(maxRows, maxBytes/len(x.text)))
	return x, nil
}

// compile has the text parsed, checks the tree and has it written again. The
// text that is run must mean the checked tree, so it is parsed once more.
func (x *Expr) compile(ctx context.Context, s *slot) error {
	tree, err := x.parse(ctx, s, x.written)
	if err != nil {
		return err
	}
	c := &checker{seen: map[string]int{}}
	root, err := c.statement(tree)
	var at *placeError
	if errors.As(err, &at) && at.offset >= 0 {
		return x.fail("at character %d: %s", characters(x.written, at.offset), at.reason)
	}
	if err != nil {
		return x.fail("%w", err)
	}
	checked, err := json.Marshal(root)
	if err != nil {
		return fmt.Errorf("encode a checked expression: %w", err)
	}
	query, err := s.text(ctx, "SELECT json_deserialize_sql(CAST(?::VARCHAR AS JSON))", string(checked))
	if err != nil {
		return x.explain(fmt.Errorf("write a checked expression: %w", err))
	}
	text, ok := strings.CutPrefix(query, "SELECT ")
	if !ok {
		return x.fail("DuckDB does not write it as it reads it")
	}
	again, err := x.parse(ctx, s, text)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(plain(again), plain(root)) {
		return x.fail("DuckDB does not write it as it reads it: write it in a simpler way")
	}
	x.text, x.columns, x.growth = text, c.columns, c.growth
	return nil
}

// characters turns an offset in bytes into the number of a character, from 1.
func characters(s string, offset int) int {
	return utf8.RuneCountInString(s[:min(max(offset, 0), len(s))]) + 1
}

// serialized is what json_serialize_sql gives.
type serialized struct {
	Error      bool             `json:"error"`
	Message    string           `json:"error_message"`
	Position   json.Number      `json:"position"`
	Statements []map[string]any `json:"statements"`
}

// parse gives the statement that an expression in parentheses behind SELECT
// makes. A comment that begins in it ends with the line.
func (x *Expr) parse(ctx context.Context, s *slot, text string) (map[string]any, error) {
	out, err := s.text(ctx, "SELECT json_serialize_sql(?::VARCHAR)::VARCHAR", before+text+"\n)")
	if err != nil {
		return nil, x.explain(err)
	}
	var tree serialized
	d := json.NewDecoder(strings.NewReader(out))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		return nil, fmt.Errorf("read what DuckDB parsed: %w", err)
	}
	if tree.Error {
		if strings.HasPrefix(tree.Message, "Only SELECT") {
			return nil, x.fail("%s", oneExpression)
		}
		message := shorten(strings.ReplaceAll(tree.Message, "\n", " "), 200)
		if at, err := tree.Position.Int64(); err == nil {
			return nil, x.fail("at character %d: %s", characters(text, int(at)-len(before)), message)
		}
		return nil, x.fail("%s", message)
	}
	if len(tree.Statements) != 1 {
		return nil, x.fail("%s", oneExpression)
	}
	return tree.Statements[0], nil
}

const oneExpression = "it must be one expression that gives true or false, like length(text) > 100"

// fail names the expression.
func (x *Expr) fail(format string, args ...any) error {
	return fmt.Errorf("%w: sql %q: %w", dataset.ErrFilter, shorten(x.written, 120), fmt.Errorf(format, args...))
}

// explain tells what DuckDB could not do.
func (x *Expr) explain(err error) error {
	if err == nil {
		return nil
	}
	var e *duckdb.Error
	if errors.As(err, &e) && e.Type == duckdb.ErrorTypeOutOfMemory {
		return x.fail("it needs more memory than DUCKDB_MEMORY_LIMIT allows: %w", x.brief(err))
	}
	return fmt.Errorf("sql %q: %w", shorten(x.written, 120), x.brief(err))
}
