package dataset

import (
	"bytes"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// Fields gives the top-level members in order: the unescaped name and the raw
// value, which aliases r.Raw. A Raw that did not come from this package and is
// no JSON object ends the sequence early.
func (r Row) Fields() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		_ = r.fields(func(name, value []byte) bool { return yield(string(name), value) })
	}
}

// Column is the raw value of a top-level member with exactly that name.
func (r Row) Column(name string) (raw []byte, ok bool) {
	_ = r.fields(func(n, value []byte) bool {
		if string(n) == name {
			raw, ok = value, true
		}
		return !ok
	})
	return raw, ok
}

// fields is Fields without a string per name. A name is valid until fn returns.
func (r Row) fields(fn func(name, value []byte) bool) error {
	w := newWalk(r.Raw)
	defer w.free()
	n, ok := w.fields(fn)
	if ok {
		return nil
	}
	return r.decodeFields(func(name, value []byte) bool {
		if n > 0 {
			n-- // fn has had it
			return true
		}
		return fn(name, value)
	})
}

// WithID puts an id first into a row that has none, and leaves every other
// byte alone. A row that has an id is returned as it is.
func (r Row) WithID(id string) Row {
	open := bytes.IndexByte(r.Raw, '{')
	if r.ID != "" || open < 0 {
		return r
	}
	quoted, err := jsontext.AppendQuote(nil, id)
	if err != nil {
		return r // an id that is not UTF-8 cannot be written
	}
	raw := make([]byte, 0, len(r.Raw)+len(quoted)+8)
	raw = append(raw, `{"id":`...)
	raw = append(raw, quoted...)
	rest := r.Raw[open+1:]
	if first := bytes.TrimLeft(rest, jsonSpace); len(first) > 0 && first[0] != '}' {
		raw = append(raw, ',')
	}
	r.ID, r.Raw = id, append(raw, rest...)
	return r
}
