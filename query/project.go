package query

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/siltstone-data/siltstone/dataset"
)

// Projection cuts rows down to some columns: id and _created_at first, then
// those asked for, in that order, and after them the fields of layers that come
// whole. Values keep their bytes, and a column that a row has not is left out,
// which is not the same as null.
type Projection struct {
	names  []string
	quoted [][]byte // each name with its colon, as it is written into a row
	index  map[string]int
	batch  int // where _batch is among names, or -1
	seen   []bool
	values [][]byte // of the current row
	open   []string // annotators, each with its dot, whose fields all come along
	rest   []field  // of the current row: such fields
}

// field is a member of a row.
type field struct {
	name  string
	value []byte
}

// NewProjection refuses names that nobody can mean. Of an annotator's columns,
// which are named A.field, it keeps those that columns has, or, where it has
// none, all.
func NewProjection(columns []string, annotators ...string) (*Projection, error) {
	for _, name := range columns {
		if !utf8.ValidString(name) {
			return nil, fmt.Errorf("column %q is not valid UTF-8", name)
		}
	}
	p := project(columns)
	for _, a := range annotators {
		prefix := a + "."
		if !slices.ContainsFunc(columns, func(c string) bool { return strings.HasPrefix(c, prefix) }) {
			p.open = append(p.open, prefix)
		}
	}
	return p, nil
}

// ofOpen reports whether a column is one of a layer that comes whole.
func (p *Projection) ofOpen(column string) bool {
	for _, prefix := range p.open {
		if strings.HasPrefix(column, prefix) {
			return true
		}
	}
	return false
}

// project also takes names with half of a surrogate pair, which rows can have.
func project(columns []string) *Projection {
	p := &Projection{index: map[string]int{}, batch: -1}
	for _, name := range append([]string{dataset.IDColumn, dataset.CreatedAtColumn}, columns...) {
		if _, twice := p.index[name]; twice {
			continue
		}
		if name == dataset.BatchColumn {
			p.batch = len(p.names)
		}
		p.index[name] = len(p.names)
		p.names = append(p.names, name)
		p.quoted = append(p.quoted, append(quote(name), ':'))
	}
	p.seen = make([]bool, len(p.names))
	p.values = make([][]byte, len(p.names))
	return p
}

// Columns are the names of the columns that rows are cut down to, without those
// of layers that come whole.
func (p *Projection) Columns() []string { return p.names }

func (p *Projection) fileColumns() []FileColumn {
	out := make([]FileColumn, len(p.names))
	for i, name := range p.names {
		out[i].Name = strings.ToValidUTF8(name, "\uFFFD")
	}
	return out
}

// Missing are the columns that no row had so far.
func (p *Projection) Missing() []string {
	var out []string
	for i, name := range p.names {
		if !p.seen[i] && name != dataset.IDColumn && name != dataset.CreatedAtColumn {
			out = append(out, name)
		}
	}
	return out
}

// Append appends the row, cut down, to dst.
func (p *Projection) Append(dst []byte, r Row) []byte {
	dst = append(dst, '{')
	first := true
	for i, v := range p.pick(r) {
		if v == nil {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(append(dst, p.quoted[i]...), v...)
	}
	for _, f := range p.rest {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if plain(f.name) {
			dst = append(append(append(dst, '"'), f.name...), '"', ':')
		} else {
			dst = append(append(dst, quote(f.name)...), ':')
		}
		dst = append(dst, f.value...)
	}
	return append(dst, '}')
}

// pick gives the value of each column, nil where the row has none. The slice is
// valid until the next call.
func (p *Projection) pick(r Row) [][]byte {
	clear(p.values)
	p.rest = p.rest[:0]
	left := len(p.names)
	// A row that is not told its batch may bring it along, as Project writes it.
	told := p.batch >= 0 && r.Batch != ""
	if told {
		left--
	}
	for name, v := range r.Fields() {
		if i, ok := p.index[name]; ok && !(told && i == p.batch) {
			p.values[i], p.seen[i] = v, true
			if left--; left == 0 && p.open == nil {
				break
			}
		} else if !ok && p.open != nil && p.ofOpen(name) {
			p.rest = append(p.rest, field{name, v})
		}
	}
	if told {
		p.values[p.batch], p.seen[p.batch] = quote(r.Batch), true
	}
	return p.values
}

// Project gives the JSON line of a row. With columns it has id, _created_at and
// those; without (nil) it is the line as stored. withBatch adds _batch.
func Project(r Row, columns []string, withBatch bool) ([]byte, error) {
	if columns != nil {
		if withBatch {
			columns = append(columns[:len(columns):len(columns)], dataset.BatchColumn)
		}
		p, err := NewProjection(columns)
		if err != nil {
			return nil, err
		}
		return p.Append(nil, r), nil
	}
	if !withBatch {
		return bytes.Clone(r.Raw), nil
	}
	return appendWithBatch(make([]byte, 0, len(r.Raw)+len(r.Batch)+16), r), nil
}

// quote writes s as a JSON string, with no more escapes than JSON needs.
func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return []byte(`""`) // a string always encodes
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
