package dataset

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// ParseFilter reads the JSON form of a filter. Errors are ErrFilter and say
// where in the filter and what would be right.
func ParseFilter(text []byte) (*Filter, error) {
	if len(text) > MaxFilterBytes {
		return nil, fmt.Errorf("%w: it has %d bytes, %d are allowed", ErrFilter, len(text), MaxFilterBytes)
	}
	text = bytes.Trim(text, jsonSpace)
	scanner := NewScanner(nil)
	if err := scanner.read(text); err != nil {
		return nil, fmt.Errorf("%w: it is no JSON object: %w", ErrFilter, err)
	}
	f, err := parseFilter(text, "", 1)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFilter, err)
	}
	return f, nil
}

// ParseExpr reads what a person gives as a filter: its JSON form, which starts
// with a brace, or else a DuckDB expression.
func ParseExpr(text string) (*Filter, error) {
	trimmed := strings.TrimSpace(text)
	switch {
	case trimmed == "":
		return nil, fmt.Errorf("%w: it is empty", ErrFilter)
	case trimmed[0] == '{':
		return ParseFilter([]byte(trimmed))
	case len(trimmed) > MaxFilterBytes:
		return nil, fmt.Errorf("%w: it has %d bytes, %d are allowed", ErrFilter, len(trimmed), MaxFilterBytes)
	}
	return SQL(trimmed), nil
}

// place is where an error is said to be; at the top it is nowhere.
func place(at, what string) string {
	switch {
	case at == "":
		return what
	case what == "" || what[0] == '[':
		return at + what
	}
	return at + "." + what
}

func at(path string, format string, args ...any) error {
	if path == "" {
		return fmt.Errorf(format, args...)
	}
	return fmt.Errorf("%s: %w", path, fmt.Errorf(format, args...))
}

// members has the members of a filter object that are known.
type members struct {
	all, any, not, column, layer, is, op, value, sql []byte
}

func parseFilter(raw []byte, path string, depth int) (*Filter, error) {
	if depth > MaxFilterDepth {
		return nil, at(path, "filters nest at most %d deep", MaxFilterDepth)
	}
	if raw[0] != '{' {
		return nil, at(path, "a filter is an object, like {\"column\":\"lang\",\"op\":\"eq\",\"value\":\"en\"}")
	}
	m, names, err := readMembers(raw, path)
	if err != nil {
		return nil, err
	}
	sole := func(name string) error {
		if len(names) > 1 {
			return at(path, "%q stands alone in its object; here are %s", name, strings.Join(names, ", "))
		}
		return nil
	}
	switch {
	case m.all != nil:
		if err := sole("all"); err != nil {
			return nil, err
		}
		parts, err := parseParts(m.all, place(path, "all"), depth)
		return All(parts...), err
	case m.any != nil:
		if err := sole("any"); err != nil {
			return nil, err
		}
		parts, err := parseParts(m.any, place(path, "any"), depth)
		return Any(parts...), err
	case m.not != nil:
		if err := sole("not"); err != nil {
			return nil, err
		}
		part, err := parseFilter(m.not, place(path, "not"), depth+1)
		if err != nil {
			return nil, err
		}
		return Not(part), nil
	case m.sql != nil:
		if err := sole("sql"); err != nil {
			return nil, err
		}
		text, err := stringMember(m.sql, place(path, "sql"))
		if err == nil && strings.TrimSpace(text) == "" {
			err = at(place(path, "sql"), "it is empty")
		}
		return SQL(text), err
	case m.column != nil:
		return parseCondition(m, path)
	}
	return nil, at(path, "a filter has one of \"all\", \"any\", \"not\", \"column\", \"sql\"")
}

func readMembers(raw []byte, path string) (m members, names []string, err error) {
	slots := map[string]*[]byte{
		"all": &m.all, "any": &m.any, "not": &m.not, "column": &m.column, "layer": &m.layer,
		"is": &m.is, "op": &m.op, "value": &m.value, "sql": &m.sql,
	}
	var unknown error
	err = Row{Raw: raw}.fields(func(name, value []byte) bool {
		slot := slots[string(name)]
		if slot == nil {
			unknown = at(path, "unknown member %q; a filter knows all, any, not, column, layer, is, op, value, sql", name)
			return false
		}
		*slot, names = value, append(names, string(name))
		return true
	})
	return m, names, cmp.Or(unknown, err)
}

func parseParts(raw []byte, path string, depth int) ([]*Filter, error) {
	items, err := list(raw, path)
	if err != nil {
		return nil, err
	}
	parts := make([]*Filter, len(items))
	for i, item := range items {
		if parts[i], err = parseFilter(item, place(path, fmt.Sprintf("[%d]", i)), depth+1); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

func list(raw []byte, path string) ([]json.RawMessage, error) {
	if raw[0] != '[' {
		return nil, at(path, "it must be a list")
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, at(path, "it is no list: %w", err)
	}
	return items, nil
}

func parseCondition(m members, path string) (*Filter, error) {
	if m.all != nil || m.any != nil || m.not != nil || m.sql != nil {
		return nil, at(path, "a condition on a column has no other filter beside it")
	}
	var ref ColumnRef
	var err error
	if ref.Column, err = stringMember(m.column, place(path, "column")); err != nil {
		return nil, err
	}
	if m.layer != nil {
		if ref.Layer, err = stringMember(m.layer, place(path, "layer")); err != nil {
			return nil, err
		}
		if err := CheckAnnotator(ref.Layer); err != nil {
			return nil, at(place(path, "layer"), "%w", err)
		}
	}
	switch {
	case m.is != nil && (m.op != nil || m.value != nil):
		return nil, at(path, "\"is\" takes neither \"op\" nor \"value\"")
	case m.is != nil:
		f, err := condition(ref, is, m.is)
		if err != nil {
			return nil, at(place(path, "is"), "%w", err)
		}
		return f, nil
	case m.op == nil:
		return nil, at(path, "column %q: \"op\" or \"is\" is missing", ref)
	}
	op, err := stringMember(m.op, place(path, "op"))
	if err != nil {
		return nil, err
	}
	f, err := condition(ref, Op(op), m.value)
	if err != nil {
		return nil, at(path, "%w", err)
	}
	return f, nil
}

func stringMember(raw []byte, path string) (string, error) {
	if raw[0] != '"' {
		return "", at(path, "it must be a string")
	}
	return string(unescape(raw)), nil
}

// condition checks a value against its operator. raw is nil where none was
// given.
func condition(ref ColumnRef, op Op, raw json.RawMessage) (*Filter, error) {
	bad := func(format string, args ...any) (*Filter, error) {
		return nil, fmt.Errorf("column %q, op %q: %w", ref, op, fmt.Errorf(format, args...))
	}
	if ref.Column == "" {
		return nil, fmt.Errorf("op %q: the column has no name", op)
	}
	f := &Filter{kind: kindColumn, column: ref, op: op, value: raw}
	switch op {
	case IsNull, IsNotNull:
		if raw != nil {
			return bad("it takes no value")
		}
		return f, nil
	case Eq, Ne, Lt, Lte, Gt, Gte, In, Contains, StartsWith, Search, is:
	default:
		return bad("unknown; there are eq, ne, lt, lte, gt, gte, in, contains, starts_with, search, is_null, is_not_null, and \"is\" for booleans")
	}
	if raw == nil {
		return bad("\"value\" is missing")
	}
	values := []json.RawMessage{raw}
	if op == In {
		var err error
		if values, err = list(raw, "value"); err != nil {
			return bad("%w", err)
		}
	}
	for _, v := range values {
		w, err := newOperand(v)
		if err != nil {
			return bad("%w", err)
		}
		f.want = append(f.want, w)
	}
	for _, w := range f.want {
		switch {
		case w.class == classNull:
			return bad("nothing is equal to null; use is_null or is_not_null")
		case op == is && w.class != classBool:
			return bad("it takes true or false")
		case (op == Contains || op == StartsWith || op == Search) && w.class != classString:
			return bad("it takes a string")
		case (op == Lt || op == Lte || op == Gt || op == Gte) && w.class != classNumber && w.class != classString:
			return bad("only numbers and strings have an order; use eq or ne")
		}
	}
	if op == Search {
		f.want[0].text = fold(nil, f.want[0].text)
	}
	return f, nil
}
