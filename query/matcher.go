package query

import (
	"fmt"
	"slices"

	"github.com/siltstone-data/siltstone/dataset"
)

// matcher runs a filter over rows and their annotations. It looks at each line
// once, and only for the columns that the filter asks for.
type matcher struct {
	q      *question // resolved
	filter *dataset.Filter
	base   *dataset.Scanner
	bare   bool                      // base has no column
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

// newMatcher makes a matcher for a resolved question over these layers. dotted
// are names that it resolved to fields of layers.
func newMatcher(q *question, layers []string, dotted map[string]bool) *matcher {
	m := &matcher{q: q, filter: q.where, column: map[dataset.ColumnRef]int{}, field: map[dataset.ColumnRef]int{}, unclear: map[int]string{}}
	var base []string
	m.refs = q.columns()
	for _, c := range m.refs {
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
	m.base, m.bare = dataset.NewScanner(base), len(base) == 0
	m.seen = make([]bool, len(m.refs))
	return m
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

// takes reports whether the filter, which has no expressions, is true of a row.
func (m *matcher) takes(row Row, notes [][]byte) (bool, error) {
	if err := m.look(row, notes); err != nil {
		return false, err
	}
	return m.filter.Match(func(c dataset.ColumnRef) []byte { return m.value(row, c) }, nil) == dataset.True, nil
}

// look reads what the filter asks of a row.
func (m *matcher) look(row Row, notes [][]byte) error {
	if !m.bare {
		if _, err := m.base.Scan(row.Raw); err != nil {
			return fmt.Errorf("%w: row %q of batch %s: %w", ErrDamaged, row.ID, row.Batch, err)
		}
	}
	for i, name := range m.unclear {
		if m.base.Value(i) != nil {
			return fmt.Errorf("%w: row %q of batch %s has a column %q, and so has a layer: write {\"layer\":…,\"column\":…} in the filter for that of the layer", ErrAmbiguous, row.ID, row.Batch, name)
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
	return nil
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
