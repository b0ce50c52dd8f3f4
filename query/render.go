package query

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/siltstone-data/siltstone/dataset"
)

// maxPageColumns bounds the columns that a page names.
const maxPageColumns = 10_000

// renderer turns rows into the lines of a page.
type renderer struct {
	cut   *Projection // nil: all columns
	of    []string    // annotators, each with its dot
	asked bool        // for _batch
	clip  int
	buf   []byte
	seen  columnSet
}

func newRenderer(columns, annotators []string, clip int) (*renderer, error) {
	r := &renderer{clip: clip, seen: columnSet{known: map[string]bool{}}}
	for _, a := range annotators {
		r.of = append(r.of, a+".")
	}
	if columns == nil {
		return r, nil
	}
	for _, name := range columns {
		r.asked = r.asked || name == dataset.BatchColumn
	}
	var err error
	r.cut, err = NewProjection(append(columns[:len(columns):len(columns)], dataset.BatchColumn), annotators...)
	return r, err
}

// row gives the line of a row, which the caller may keep.
func (r *renderer) row(row Row) json.RawMessage {
	r.buf = Shown(r.buf[:0], row, r.cut)
	if r.cut == nil || r.cut.open != nil {
		r.note(row)
	}
	if r.clip > 0 {
		return clip(make([]byte, 0, min(len(r.buf), 64<<10)), r.buf, r.clip)
	}
	return bytes.Clone(r.buf)
}

// note collects the columns of rows that are given whole, or the fields of layers
// that are.
func (r *renderer) note(row Row) {
	for name := range row.Fields() {
		if !r.seen.known[name] && (r.cut == nil || r.cut.ofOpen(name)) && len(r.seen.columns) < maxPageColumns && !told(name) {
			r.seen.known[name] = true
			r.seen.columns = append(r.seen.columns, name)
		}
	}
}

// layerOf is the place of the annotator, of some with their dot, that a column
// belongs to; -1 for one of the rows themselves.
func layerOf(annotators []string, column string) int {
	return slices.IndexFunc(annotators, func(prefix string) bool { return strings.HasPrefix(column, prefix) })
}

// columns are the names of a page's columns: those asked for, or, where none
// were, those that its rows have, in order of appearance, each layer's after
// those of the rows.
func (r *renderer) columns() []string {
	out := []string{dataset.IDColumn, dataset.CreatedAtColumn}
	names := slices.Clone(r.seen.columns)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(layerOf(r.of, a), layerOf(r.of, b)) })
	if r.cut != nil {
		names = slices.Concat(r.cut.Columns(), names)
	}
	for _, name := range names {
		if name != dataset.IDColumn && name != dataset.CreatedAtColumn && (name != dataset.BatchColumn || r.asked) {
			out = append(out, name)
		}
	}
	return out
}

// Shown appends a row as it is shown: cut down to cut, which has to ask for
// _batch, or whole where cut is nil. A row that is not merged yet says so, in
// _silt_live.
func Shown(dst []byte, row Row, cut *Projection) []byte {
	if cut != nil {
		dst = cut.Append(dst, row)
	} else {
		dst = appendWithBatch(dst, row)
	}
	if row.Live {
		dst = append(dst[:len(dst)-1], `,"`+liveColumn+`":true}`...) // it is never empty: it has an id
	}
	return dst
}

// told reports whether a column is one that rows are told when they are shown.
func told(name string) bool {
	return name == dataset.BatchColumn || name == clippedColumn || name == liveColumn
}

// appendWithBatch appends a whole row with _batch as its last member. A row of
// another tool may have a member of that name, or of another that it is told here,
// which would make two of them; it goes.
func appendWithBatch(dst []byte, row Row) []byte {
	if reserved(row.Row, false) != "" {
		dst = append(dst, '{')
		for name, value := range row.Fields() {
			if !told(name) {
				dst = append(append(append(append(dst, quote(name)...), ':'), value...), ',')
			}
		}
	} else {
		end := len(row.Raw) - 1
		for end > 0 && row.Raw[end] != '}' {
			end--
		}
		dst = append(append(dst, row.Raw[:end]...), ',')
	}
	dst = append(append(dst, `"`+dataset.BatchColumn+`":`...), quote(row.Batch)...)
	return append(dst, '}')
}
