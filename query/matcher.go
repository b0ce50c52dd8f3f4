package query

import (
	"fmt"
	"slices"
	"strings"

	"github.com/siltstone-data/siltstone/dataset"
)

// matcher runs a filter over rows and their annotations. It looks at each line
// once, and only for the columns that the filter asks for.
type matcher struct {
	filter *dataset.Filter
	base   *dataset.Scanner
	column map[dataset.ColumnRef]int // of base columns: which value of base
	field  map[dataset.ColumnRef]int // of fields of layers: which of values
	layers []layerFields
	values [][]byte // of fields of layers
	batch  []byte   // the row's batch, as JSON
	seen   []bool   // by column of filter.Columns: a row had it
	refs   []dataset.ColumnRef
	// unclear are base columns, by their place in base, that must not be there:
	// the filter means a field of a layer by that name.
	unclear map[int]string
}

// layerFields are the fields that a filter asks of one layer.
type layerFields struct {
	layer int // as the join counts
	names map[string]int
	meta  int // of values; -1: not asked for
}

// mayUseLayers reports whether a filter has a name that a field of a layer could
// have, or an expression that could have one.
func mayUseLayers(f *dataset.Filter) bool {
	return len(f.SQL()) > 0 || slices.ContainsFunc(f.Columns(), func(c dataset.ColumnRef) bool {
		return c.Layer != "" || strings.Contains(c.Column, ".")
	})
}

// newMatcher makes a matcher for a resolved filter over these layers. dotted are
// names that it resolved to fields of layers.
func newMatcher(f *dataset.Filter, layers []string, dotted map[string]bool) (*matcher, error) {
	if len(f.SQL()) > 0 {
		return nil, fmt.Errorf("%w: an expression in SQL cannot be run here; write the filter as JSON", dataset.ErrFilter)
	}
	m := &matcher{filter: f, column: map[dataset.ColumnRef]int{}, field: map[dataset.ColumnRef]int{}, unclear: map[int]string{}}
	var base []string
	for _, c := range f.Columns() {
		if c.Layer == "" {
			m.column[c] = len(base)
			base = append(base, c.Column)
			continue
		}
		if dotted[c.String()] {
			m.unclear[len(base)] = c.String()
			base = append(base, c.String())
		}
		m.field[c] = len(m.values)
		m.ask(slices.Index(layers, c.Layer), c.Column, len(m.values))
		m.values = append(m.values, nil)
	}
	m.base = dataset.NewScanner(base)
	m.refs = f.Columns()
	m.seen = make([]bool, len(m.refs))
	return m, nil
}

func (m *matcher) ask(layer int, field string, value int) {
	i := slices.IndexFunc(m.layers, func(l layerFields) bool { return l.layer == layer })
	if i < 0 {
		i = len(m.layers)
		m.layers = append(m.layers, layerFields{layer: layer, names: map[string]int{}, meta: -1})
	}
	if field == metadataField {
		m.layers[i].meta = value
	} else {
		m.layers[i].names[field] = value
	}
}

// takes reports whether the filter is true of a row.
func (m *matcher) takes(row Row, notes [][]byte) (bool, error) {
	if _, err := m.base.Scan(row.Raw); err != nil {
		return false, fmt.Errorf("%w: row %q of batch %s: %w", ErrDamaged, row.ID, row.Batch, err)
	}
	for i, name := range m.unclear {
		if m.base.Value(i) != nil {
			return false, fmt.Errorf("%w: row %q of batch %s has a column %q, and so has a layer: write {\"layer\":…,\"column\":…} in the filter for that of the layer", ErrAmbiguous, row.ID, row.Batch, name)
		}
	}
	clear(m.values)
	for _, l := range m.layers {
		l.read(notes[l.layer], m.values)
	}
	m.batch = nil
	for i, c := range m.refs {
		m.seen[i] = m.seen[i] || m.value(row, c) != nil
	}
	return m.filter.Match(func(c dataset.ColumnRef) []byte { return m.value(row, c) }, nil) == dataset.True, nil
}

func (m *matcher) value(row Row, c dataset.ColumnRef) []byte {
	switch {
	case c.Layer != "":
		return m.values[m.field[c]]
	case c.Column == dataset.BatchColumn:
		if m.batch == nil {
			m.batch = quote(row.Batch)
		}
		return m.batch
	}
	return m.base.Value(m.column[c])
}

// unknown are the columns of the filter that no row had so far.
func (m *matcher) unknown() []string {
	var names []string
	for i, c := range m.refs {
		if !m.seen[i] {
			names = append(names, c.String())
		}
	}
	return names
}

// read finds the fields in an annotation.
func (l *layerFields) read(note []byte, values [][]byte) {
	if note == nil {
		return
	}
	for name, value := range (dataset.Row{Raw: note}).Fields() {
		switch {
		case name == dataMember && value[0] == '{':
			for field, v := range (dataset.Row{Raw: value}).Fields() {
				if i, ok := l.names[field]; ok {
					values[i] = v
				}
			}
		case name == metadataMember && l.meta >= 0:
			values[l.meta] = value
		}
	}
}
