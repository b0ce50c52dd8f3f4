package duck

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/duckdb/duckdb-go/v2"
)

// slot is a connection and what is prepared on it. One goroutine has it at a
// time.
type slot struct {
	engine     *Engine
	conn       *duckdb.Conn // nil: not connected yet
	statements map[string]*statement
}

// maxStatements are kept for a connection: one for each expression and the types
// that a row may have in it.
const maxStatements = 256

// statement is an expression prepared for rows of some types.
type statement struct {
	stmt   *duckdb.Stmt
	source *source
}

func (s *slot) connect(ctx context.Context) error {
	if s.conn != nil {
		return nil
	}
	c, err := s.engine.box.connector.Connect(ctx)
	if err != nil {
		return fmt.Errorf("connect to DuckDB: %w", err)
	}
	s.conn = c.(*duckdb.Conn)
	return nil
}

// text runs a query that gives one text, of an argument.
func (s *slot) text(ctx context.Context, query, arg string) (string, error) {
	rows, err := s.conn.QueryContext(ctx, query, []driver.NamedValue{{Ordinal: 1, Value: arg}})
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var v [1]driver.Value
	if err := rows.Next(v[:]); err != nil {
		return "", err
	}
	out, ok := v[0].(string)
	if !ok {
		return "", fmt.Errorf("DuckDB gave %T where text was due", v[0])
	}
	return out, nil
}

// prepared gives the statement for an expression over rows of these types.
func (s *slot) prepared(ctx context.Context, x *Expr, types []valueType) (*statement, error) {
	key := string(appendSignature(nil, types)) + x.text
	if st, ok := s.statements[key]; ok {
		return st, nil
	}
	if len(s.statements) >= maxStatements {
		for _, st := range s.statements {
			s.drop(st)
		}
		clear(s.statements)
	}
	st, err := s.prepare(ctx, x, types)
	if err != nil {
		return nil, err
	}
	s.statements[key] = st
	return st, nil
}

func (s *slot) drop(st *statement) {
	_ = st.stmt.Close() // it is not used again, whatever Close says
	s.engine.sources.Delete(st.source.number)
}

// nullTypes are what a null may be of, in the order in which they are tried.
var nullTypes = []string{"", "VARCHAR", "DOUBLE", "BIGINT", "BOOLEAN", "TIMESTAMP"}

// maxNullTries bounds the combinations of types for nulls that are tried.
const maxNullTries = 216

// prepare makes a statement. A null has no type of its own, and an expression
// may need one: the first that it takes is as good as any, for null is what
// comes of it.
func (s *slot) prepare(ctx context.Context, x *Expr, types []valueType) (*statement, error) {
	src, err := newSource(s.engine.last.Add(1), types)
	if err != nil {
		return nil, err
	}
	s.engine.sources.Store(src.number, src)
	var nulls []int
	for i, t := range types {
		if t.kind == kindNull {
			nulls = append(nulls, i)
		}
	}
	var first error
	for try := range nullChoices(len(nulls)) {
		stmt, err := s.prepareAs(ctx, x, src, types, nulls, try)
		if err == nil {
			return &statement{stmt, src}, nil
		}
		if first == nil {
			first = err
		}
		if !isBinding(err) {
			break
		}
	}
	s.engine.sources.Delete(src.number)
	return nil, first
}

// nullChoices gives for n nulls which of nullTypes each is: first those where all
// are the same, then the others.
func nullChoices(n int) func(yield func([]int) bool) {
	return func(yield func([]int) bool) {
		choice := make([]int, n)
		if n == 0 {
			yield(choice)
			return
		}
		for k := range nullTypes {
			for i := range choice {
				choice[i] = k
			}
			if !yield(choice) {
				return
			}
		}
		if n == 1 {
			return
		}
		clear(choice)
		for range maxNullTries {
			i := 0
			for ; i < n; i++ {
				if choice[i]++; choice[i] < len(nullTypes) {
					break
				}
				choice[i] = 0
			}
			if i == n || !yield(choice) {
				return
			}
		}
	}
}

// prepareAs prepares the text for one choice of types for nulls.
func (s *slot) prepareAs(ctx context.Context, x *Expr, src *source, types []valueType, nulls, choice []int) (*duckdb.Stmt, error) {
	var q strings.Builder
	fmt.Fprintf(&q, "SELECT n, (%s) FROM (SELECT n", x.text)
	for i, t := range types {
		if t.kind != kindNull {
			fmt.Fprintf(&q, ", %s", columnName(i))
		}
	}
	for i, c := range nulls {
		if as := nullTypes[choice[i]]; as == "" {
			fmt.Fprintf(&q, ", NULL AS %s", columnName(c))
		} else {
			fmt.Fprintf(&q, ", CAST(NULL AS %s) AS %s", as, columnName(c))
		}
	}
	fmt.Fprintf(&q, " FROM %s(%d))", rowsFunction, src.number)
	prepared, err := s.conn.PrepareContext(ctx, q.String())
	if err != nil {
		return nil, err
	}
	stmt := prepared.(*duckdb.Stmt)
	t, err := stmt.ColumnType(1)
	if err == nil && t != duckdb.TYPE_BOOLEAN && t != duckdb.TYPE_SQLNULL {
		err = fmt.Errorf("%w %s", errNotBoolean, typeName(t))
	}
	if err != nil {
		_ = stmt.Close()
		return nil, err
	}
	return stmt, nil
}

func typeName(t duckdb.Type) string {
	switch t {
	case duckdb.TYPE_INTEGER, duckdb.TYPE_BIGINT, duckdb.TYPE_HUGEINT, duckdb.TYPE_DOUBLE, duckdb.TYPE_DECIMAL, duckdb.TYPE_FLOAT:
		return "a number"
	case duckdb.TYPE_VARCHAR:
		return "text"
	case duckdb.TYPE_DATE, duckdb.TYPE_TIMESTAMP, duckdb.TYPE_TIMESTAMP_TZ, duckdb.TYPE_TIME, duckdb.TYPE_INTERVAL:
		return "a time"
	}
	return "something else"
}

// errNotBoolean reports an expression that says neither yes nor no.
var errNotBoolean = errors.New("a filter gives true or false, and this gives")

// run has the statement say of rows from to to of a group what it says, into
// out by their numbers.
func (st *statement) run(ctx context.Context, g *group, from, to int, out func(n int64, yes bool)) error {
	st.source.give(g, from, to)
	defer st.source.give(nil, 0, 0)
	rows, err := st.stmt.QueryContext(ctx, nil)
	if err != nil {
		return err
	}
	defer rows.Close()
	var v [2]driver.Value
	for {
		if err := rows.Next(v[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		n, ok := v[0].(int64)
		if !ok {
			return fmt.Errorf("DuckDB gave %T where a number was due", v[0])
		}
		if yes, ok := v[1].(bool); ok {
			out(n, yes)
		}
	}
}
