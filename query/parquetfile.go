package query

import (
	"fmt"
	"io"
	"strings"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/dataset"
)

// Parquet writes rows as a parquet file with a typed column for each name; see
// block.TypedWriter for the types and for what is lost. Rows wait, in a file in
// the work folder when they are many, until Close.
type Parquet struct {
	w       *block.TypedWriter
	cut     *Projection // nil: rows come whole
	line    []byte
	columns []block.TypedColumn
}

var _ Writer = (*Parquet)(nil)

// NewParquet writes rows to w with id, _created_at and the given columns, and all
// fields of annotators of which columns has none; without columns (nil), with all
// that any row has.
func NewParquet(w io.Writer, columns []string, workDir string, annotators ...string) (*Parquet, error) {
	p := &Parquet{}
	if columns != nil {
		var err error
		if p.cut, err = NewProjection(columns, annotators...); err != nil {
			return nil, err
		}
	}
	p.w = block.NewTypedWriter(w, workDir, columns...)
	return p, nil
}

// Write takes a row.
func (p *Parquet) Write(r Row) error {
	if p.cut != nil {
		p.line = p.cut.Append(p.line[:0], r)
		r.Raw = p.line
	}
	return p.w.Add(dataset.Row{ID: r.ID, Raw: r.Raw})
}

// Close writes the file.
func (p *Parquet) Close() (err error) {
	p.columns, err = p.w.Close()
	if err != nil {
		return fmt.Errorf("write parquet: %w", err)
	}
	return nil
}

// Discard gives up what waits.
func (p *Parquet) Discard() { p.w.Discard() }

// Missing are the columns asked for that no row had.
func (p *Parquet) Missing() []string {
	if p.cut == nil {
		return nil
	}
	return p.cut.Missing()
}

// FileColumns are those of the file and their types, after Close.
func (p *Parquet) FileColumns() []FileColumn {
	var out []FileColumn
	for _, c := range p.columns {
		out = append(out, FileColumn{Name: strings.ToValidUTF8(c.Name, "\uFFFD"), Type: c.Type})
	}
	return out
}
