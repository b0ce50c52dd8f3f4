package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ErrFilter reports a filter that breaks a rule; the error names the place in
// the filter, and the way out.
var ErrFilter = errors.New("bad filter")

// Op is what a filter asks of a column.
type Op string

// The operators. A value that is null or missing answers none of them but the
// last two: it is neither true nor false.
const (
	Eq         Op = "eq"          // equal as JSON values: numbers exactly
	Ne         Op = "ne"          // not equal, of the same type
	Lt         Op = "lt"          // numbers exactly, strings bytewise; so for the next three
	Lte        Op = "lte"         //
	Gt         Op = "gt"          //
	Gte        Op = "gte"         //
	In         Op = "in"          // equal to one of a list
	Contains   Op = "contains"    // has these bytes in it
	StartsWith Op = "starts_with" // begins with these bytes
	Search     Op = "search"      // has this text in it, whatever its case and normal form
	IsNull     Op = "is_null"     // null or missing
	IsNotNull  Op = "is_not_null" //
	is         Op = "is"          // a boolean of this value; written {"column":…,"is":…}
)

// MaxFilterDepth is how deep a filter may nest, and MaxFilterBytes how long its
// text may be.
const (
	MaxFilterDepth = 64
	MaxFilterBytes = 1 << 20
)

// ColumnRef names a column: of the rows themselves, or a field of a layer. A
// filter that was not resolved yet may have a field of a layer as "A.f" in
// Column.
type ColumnRef struct{ Layer, Column string }

// String is the name that the column has in views.
func (c ColumnRef) String() string {
	if c.Layer == "" {
		return c.Column
	}
	return c.Layer + "." + c.Column
}

// Filter says yes, no or null of a row. It is never changed after it was made,
// and may be used from many goroutines. Its JSON form is:
//
//	{"all":[F,…]}  {"any":[F,…]}  {"not":F}
//	{"column":"found","is":true}
//	{"column":"lang","op":"eq","value":"en"}
//	{"layer":"A","column":"found",…}   the same as "A.found"
//	{"sql":"length(text) > 100"}       a DuckDB expression
type Filter struct {
	kind   kind
	parts  []*Filter // of all, any and not
	column ColumnRef
	op     Op
	value  json.RawMessage // as it was given; nil where the operator takes none
	want   []operand       // what value means: one, or the list of in
	sql    string
	leaves int // sql leaves in it
}

type kind uint8

const (
	kindAll kind = iota
	kindAny
	kindNot
	kindColumn
	kindSQL
)

// All is true where every part is; without parts it is true.
func All(parts ...*Filter) *Filter { return group(kindAll, parts) }

// Any is true where one part is; without parts it is false.
func Any(parts ...*Filter) *Filter { return group(kindAny, parts) }

// Not is true where f is false.
func Not(f *Filter) *Filter { return group(kindNot, []*Filter{f}) }

// SQL is a DuckDB expression over the columns that gives a boolean.
func SQL(expression string) *Filter { return &Filter{kind: kindSQL, sql: expression, leaves: 1} }

func group(k kind, parts []*Filter) *Filter {
	f := &Filter{kind: k, parts: parts}
	for _, p := range parts {
		f.leaves += p.leaves
	}
	return f
}

// Compare is a condition on a column. value is any value that encodes to JSON;
// IsNull and IsNotNull take none (nil).
func Compare(column ColumnRef, op Op, value any) (*Filter, error) {
	if op == is {
		return nil, fmt.Errorf("%w: column %q: use Is for booleans", ErrFilter, column)
	}
	var raw json.RawMessage
	if value != nil || op != IsNull && op != IsNotNull {
		var err error
		if raw, err = marshalPlain(value); err != nil {
			return nil, fmt.Errorf("%w: value for column %q: %w", ErrFilter, column, err)
		}
	}
	f, err := condition(column, op, raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFilter, err)
	}
	return f, nil
}

// Is is true where the column is a boolean of this value.
func Is(column ColumnRef, value bool) *Filter {
	raw := json.RawMessage("false")
	if value {
		raw = json.RawMessage("true")
	}
	f, _ := condition(column, is, raw)
	return f
}

// Columns are the columns that f asks for, each once, in the order in which
// they stand in it; those of sql leaves are not among them.
func (f *Filter) Columns() []ColumnRef {
	var refs []ColumnRef
	seen := map[ColumnRef]bool{}
	f.walk(func(g *Filter) {
		if g.kind == kindColumn && !seen[g.column] {
			seen[g.column] = true
			refs = append(refs, g.column)
		}
	})
	return refs
}

// SQL are the expressions of the sql leaves, in the order in which they stand.
func (f *Filter) SQL() []string {
	var s []string
	f.walk(func(g *Filter) {
		if g.kind == kindSQL {
			s = append(s, g.sql)
		}
	})
	return s
}

func (f *Filter) walk(visit func(*Filter)) {
	visit(f)
	for _, p := range f.parts {
		p.walk(visit)
	}
}

// Resolve tells columns of rows from fields of layers: "A.f" is field f of
// layer A if there is such an annotator, and an error if the rows have a column
// of that name as well.
func (f *Filter) Resolve(annotators []string, base func(column string) bool) (*Filter, error) {
	out := *f
	if f.kind == kindColumn {
		ref, err := resolve(f.column, annotators, base)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFilter, err)
		}
		out.column = ref
		return &out, nil
	}
	out.parts = make([]*Filter, len(f.parts))
	for i, p := range f.parts {
		var err error
		if out.parts[i], err = p.Resolve(annotators, base); err != nil {
			return nil, err
		}
	}
	return &out, nil
}

func resolve(ref ColumnRef, annotators []string, base func(string) bool) (ColumnRef, error) {
	if ref.Layer != "" {
		for _, a := range annotators {
			if a == ref.Layer {
				return ref, nil
			}
		}
		return ref, fmt.Errorf("column %q: there is no annotator %q here", ref, ref.Layer)
	}
	name, field, dotted := strings.Cut(ref.Column, ".")
	if !dotted {
		return ref, nil
	}
	for _, a := range annotators {
		if a != name {
			continue
		}
		if base(ref.Column) {
			return ref, fmt.Errorf("column %q is a column of the rows and a field of a layer: write {\"layer\":%q,\"column\":%q,…} for the layer", ref.Column, name, field)
		}
		return ColumnRef{Layer: name, Column: field}, nil
	}
	return ref, nil
}

// String is the JSON form.
func (f *Filter) String() string {
	b, err := f.MarshalJSON()
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// MarshalJSON gives the form that ParseFilter reads.
func (f *Filter) MarshalJSON() ([]byte, error) { return f.append(nil), nil }

func (f *Filter) append(dst []byte) []byte {
	switch f.kind {
	case kindSQL:
		return append(appendQuoted(append(dst, `{"sql":`...), f.sql), '}')
	case kindNot:
		return append(f.parts[0].append(append(dst, `{"not":`...)), '}')
	case kindColumn:
		dst = append(dst, '{')
		if f.column.Layer != "" {
			dst = append(appendQuoted(append(dst, `"layer":`...), f.column.Layer), ',')
		}
		dst = appendQuoted(append(dst, `"column":`...), f.column.Column)
		if f.op == is {
			return append(append(append(dst, `,"is":`...), f.value...), '}')
		}
		dst = appendQuoted(append(dst, `,"op":`...), string(f.op))
		if f.value != nil {
			dst = append(append(dst, `,"value":`...), f.value...)
		}
		return append(dst, '}')
	}
	name := `{"all":[`
	if f.kind == kindAny {
		name = `{"any":[`
	}
	dst = append(dst, name...)
	for i, p := range f.parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = p.append(dst)
	}
	return append(dst, "]}"...)
}

func appendQuoted(dst []byte, s string) []byte {
	b, err := marshalPlain(s)
	if err != nil {
		return dst // a string always has a JSON form
	}
	return append(dst, b...)
}

// marshalPlain is json.Marshal that leaves <, > and & as they are.
func marshalPlain(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
