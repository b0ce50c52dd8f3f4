package query

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/siltstone-data/siltstone/dataset"
)

// maxCSVColumns is the most columns that a CSV file gets of itself: with more,
// the commas of absent columns outweigh the data.
const maxCSVColumns = 10_000

// CSV writes rows as RFC 4180 has it, with a header, and with \n as the line
// end, as encoding/csv does: its other choice changes line ends within cells.
//
// A string is its text, null and a missing column are empty, everything else is
// its JSON. A cell that a spreadsheet would take for a formula gets a leading
// apostrophe. CSV does not give back what went in; NDJSON does.
type CSV struct {
	w     *csv.Writer
	cut   *Projection // of cells; nil while the columns are not known
	asked *Projection // what rows are cut down to until then; nil: not at all
	of    []string    // annotators, each with its dot
	spool *spool
	cells []string
	line  []byte
}

var _ Writer = (*CSV)(nil)

// NewCSV writes rows to w with id, _created_at and the given columns. Without
// columns (nil) the header is the union over all rows, in order of appearance.
// It must be written before the first row and is known after the last, so rows
// wait in a file in workDir until Close; reading the dataset twice instead could
// give other rows the second time. So it is with annotators of which columns has
// no field: all of them come, each layer's behind those of the rows.
func NewCSV(w io.Writer, columns []string, workDir string, annotators ...string) (*CSV, error) {
	c := &CSV{w: csv.NewWriter(w)}
	for _, a := range annotators {
		c.of = append(c.of, a+".")
	}
	if columns != nil {
		cut, err := NewProjection(columns, annotators...)
		if err != nil {
			return nil, err
		}
		if cut.open == nil {
			return c, c.start(cut)
		}
		c.asked = cut
	}
	var err error
	c.spool, err = newSpool(workDir)
	return c, err
}

// start writes the header.
func (c *CSV) start(cut *Projection) error {
	c.cut = cut
	header := make([]string, len(c.cut.Columns()))
	for i, name := range c.cut.Columns() {
		header[i] = defuse(strings.ToValidUTF8(name, "\uFFFD"))
	}
	c.cells = make([]string, len(header))
	return c.w.Write(header)
}

// Write writes a row, or keeps it until the columns are known.
func (c *CSV) Write(r Row) error {
	if c.spool != nil {
		if c.asked != nil {
			c.line = c.asked.Append(c.line[:0], r)
			r.Raw = c.line
		}
		return c.spool.add(r)
	}
	for i, v := range c.cut.pick(r) {
		c.cells[i] = cell(v)
	}
	return c.w.Write(c.cells)
}

// Flush writes what is buffered; rows that wait for the header stay.
func (c *CSV) Flush() error {
	c.w.Flush()
	return c.w.Error()
}

// FileColumns are those of the header; none while it is not known.
func (c *CSV) FileColumns() []FileColumn {
	if c.cut == nil {
		return nil
	}
	return c.cut.fileColumns()
}

// Close writes what waits.
func (c *CSV) Close() error {
	if s := c.spool; s != nil {
		defer s.close()
		c.spool = nil
		if err := c.start(project(c.header(s.columns))); err != nil {
			return err
		}
		for r, err := range s.rows() {
			if err == nil {
				err = c.Write(r)
			}
			if err != nil {
				return err
			}
		}
	}
	return c.Flush()
}

// header orders the columns that rows had: those asked for first, then those of
// rows, then each layer's.
func (c *CSV) header(columns []string) []string {
	slices.SortStableFunc(columns, func(a, b string) int { return cmp.Compare(layerOf(c.of, a), layerOf(c.of, b)) })
	if c.asked != nil {
		columns = slices.Concat(c.asked.Columns(), columns)
	}
	return columns
}

// Discard gives up what waits.
func (c *CSV) Discard() {
	if c.spool != nil {
		c.spool.close()
		c.spool = nil
	}
}

// Missing are the columns asked for that no row had.
func (c *CSV) Missing() []string {
	if c.cut == nil {
		return nil
	}
	return c.cut.Missing()
}

// cell is the text of a JSON value, nil being no value.
func cell(v []byte) string {
	switch {
	case v == nil || v[0] == 'n':
		return ""
	case v[0] != '"':
		return defuse(string(v))
	}
	return defuse(text(v))
}

// text unescapes a JSON string. Half of a surrogate pair, which no UTF-8 file
// can hold, becomes U+FFFD.
func text(v []byte) string {
	inner := string(v[1 : len(v)-1])
	if strings.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		return inner // of a stored row every value is valid
	}
	return s
}

var numeric = regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$`)

// defuse keeps a spreadsheet from running a cell: data from elsewhere must not
// become a formula on the machine of whoever opens the file.
func defuse(s string) string {
	if s == "" || !strings.ContainsRune("=+-@\t\r", rune(s[0])) || numeric.MatchString(s) {
		return s
	}
	return "'" + s
}

// columnSet collects the names of columns in order of appearance.
type columnSet struct {
	columns []string
	known   map[string]bool
}

func (c *columnSet) add(r dataset.Row) error {
	for name := range r.Fields() {
		if c.known[name] {
			continue
		}
		if len(c.columns) == maxCSVColumns {
			return fmt.Errorf("the rows have more than %d columns, too many for CSV: name those you want, or write NDJSON", maxCSVColumns)
		}
		c.known[name] = true
		c.columns = append(c.columns, name)
	}
	return nil
}
