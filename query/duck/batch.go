package duck

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/duckdb/duckdb-go/v2"

	"github.com/siltstone-data/siltstone/dataset"
)

// The bounds of a batch: an expression may make something of each row before it
// is done with any.
const (
	maxRows  = 2048
	maxBytes = 1 << 20
)

// Batch collects rows for an expression. A value has the type that it has in its
// row: an integer is BIGINT or else HUGEINT, another number DOUBLE if the nearest
// double spells it again and else DECIMAL, true and false are BOOLEAN, a string
// is VARCHAR, and so is the JSON text of an object or array. What is null or
// missing is NULL. A number that none of these holds exactly is an error.
type Batch struct {
	x      *Expr
	n      int
	bytes  int
	groups []*group
	by     map[string]*group
	values []value
	key    []byte
}

// Batch begins a batch of rows.
func (x *Expr) Batch() *Batch {
	return &Batch{x: x, by: map[string]*group{}, values: make([]value, len(x.columns))}
}

// RowError reports a row of which an expression can say nothing.
type RowError struct {
	Row int // its number in the batch, from 0
	err error
}

// Error gives the reason; the caller knows the row.
func (e *RowError) Error() string { return e.err.Error() }

// Unwrap gives the reason.
func (e *RowError) Unwrap() error { return e.err }

// Add takes a row: the JSON values of the columns of the expression, nil for
// those that it does not have. They are copied.
func (b *Batch) Add(raw [][]byte) error {
	size := 0
	for _, r := range raw {
		size += len(r)
	}
	// DuckDB holds long texts outside of its memory limit while it makes them.
	if made := b.x.growth * float64(size); made > float64(b.x.engine.cfg.memory()) {
		return &RowError{b.n, b.x.fail("what it makes of this row, of %d MB, could be %.0f times as much, and DUCKDB_MEMORY_LIMIT is %d MB; a condition in JSON beside it, in {\"all\":[…,{\"sql\":…}]}, keeps such rows from it",
			size/1e6, b.x.growth, b.x.engine.cfg.memory()/1e6)}
	}
	for i, r := range raw {
		var err error
		if b.values[i], err = newValue(r); err != nil {
			return &RowError{b.n, b.x.fail("column %q: %w; a condition in JSON beside it, in {\"all\":[…,{\"sql\":…}]}, keeps such rows from it", b.x.columns[i], err)}
		}
		b.bytes += len(r)
	}
	b.key = b.key[:0]
	for i := range b.values {
		b.key = append(b.key, byte(b.values[i].kind), b.values[i].scale)
	}
	g := b.by[string(b.key)]
	if g == nil {
		g = newGroup(b.values)
		b.groups, b.by[string(b.key)] = append(b.groups, g), g
	}
	g.add(b.n, b.values)
	b.n++
	return nil
}

// Rows is the number of rows that it has.
func (b *Batch) Rows() int { return b.n }

// Full reports that it should be decided before more is added.
func (b *Batch) Full() bool { return b.n >= b.x.rows || b.bytes >= maxBytes }

// Decide gives what the expression says of each row. It ends with ctx, though
// DuckDB may not; after that the batch must not be used. An error of a row is a
// *RowError of the first such row.
func (b *Batch) Decide(ctx context.Context) ([]dataset.Truth, error) {
	out := make([]dataset.Truth, b.n)
	for i := range out {
		out[i] = dataset.Null
	}
	err := b.x.engine.do(ctx, func(ctx context.Context, s *slot) error {
		var first *RowError
		for _, g := range b.groups {
			err := b.decide(ctx, s, g, out)
			var bad *RowError
			switch {
			case errors.As(err, &bad):
				if first == nil || bad.Row < first.Row {
					first = bad
				}
			case err != nil:
				return err
			}
		}
		if first != nil {
			return first
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// decide asks for the rows of one group.
func (b *Batch) decide(ctx context.Context, s *slot, g *group, out []dataset.Truth) error {
	st, err := s.prepared(ctx, b.x, g.types)
	if err != nil {
		if !ofRows(err) {
			return b.x.explain(err)
		}
		return &RowError{g.rows[0], b.x.fail("%w%s; %s", b.x.brief(err), b.x.typesIn(g), wayOut(err))}
	}
	answer := func(n int64, yes bool) {
		out[g.rows[n]] = dataset.False
		if yes {
			out[g.rows[n]] = dataset.True
		}
	}
	err = st.run(ctx, g, 0, len(g.rows), answer)
	if err == nil || !ofRows(err) || ctx.Err() != nil {
		return b.x.explain(err)
	}
	// Which row it was, DuckDB does not say: halve until one is left.
	from, to := 0, len(g.rows)
	for to-from > 1 {
		mid := (from + to) / 2
		half := st.run(ctx, g, from, mid, answer)
		switch {
		case half == nil:
			from = mid
		case !ofRows(half) || ctx.Err() != nil:
			return b.x.explain(half)
		default:
			to, err = mid, half
		}
	}
	return &RowError{g.rows[from], b.x.fail("%w%s; %s", b.x.brief(err), b.x.typesIn(g), wayOut(err))}
}

// typesIn tells the types of the columns in a group.
func (x *Expr) typesIn(g *group) string {
	var parts []string
	for i, t := range g.types {
		if len(parts) == 8 {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, fmt.Sprintf("%s is %s", shorten(x.columns[i], 40), t))
	}
	if parts == nil {
		return ""
	}
	return " (here " + strings.Join(parts, ", ") + ")"
}

// isBinding reports that an expression does not fit the types of a row.
func isBinding(err error) bool {
	var e *duckdb.Error
	return errors.Is(err, errNotBoolean) || errors.As(err, &e) && (e.Type == duckdb.ErrorTypeBinder || e.Type == duckdb.ErrorTypeParameterNotResolved)
}

// ofRows tells errors that lie in what a row holds from those of the machine.
func ofRows(err error) bool {
	var e *duckdb.Error
	if !errors.As(err, &e) {
		return errors.Is(err, errNotBoolean)
	}
	switch e.Type {
	case duckdb.ErrorTypeOutOfMemory, duckdb.ErrorTypeInterrupt, duckdb.ErrorTypeIO, duckdb.ErrorTypeFatal, duckdb.ErrorTypeInternal:
		return false
	}
	return true
}

func wayOut(err error) string {
	if isBinding(err) {
		return "cast what is of another type than it should be, as in TRY_CAST(column AS DOUBLE), which is null where it cannot be cast"
	}
	return "TRY_CAST and TRY(…) give null instead of an error"
}

// briefError is the first line of what DuckDB says, with columns as they are
// called: what follows shows a text that nobody wrote.
type briefError struct {
	err  error
	line string
}

// Error gives the line.
func (e briefError) Error() string { return e.line }

// Unwrap gives the whole.
func (e briefError) Unwrap() error { return e.err }

// fromColumn is how DuckDB names a column in what it says of a cast.
var fromColumn = regexp.MustCompile(`source column c(\d+)\b`)

func (x *Expr) brief(err error) error {
	line, _, _ := strings.Cut(err.Error(), "\n")
	line = fromColumn.ReplaceAllStringFunc(line, func(s string) string {
		if n, err := strconv.Atoi(fromColumn.FindStringSubmatch(s)[1]); err == nil && n < len(x.columns) {
			return "column " + x.columns[n]
		}
		return s
	})
	return briefError{err, shorten(line, 300)}
}
