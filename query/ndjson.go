package query

import (
	"bufio"
	"io"
)

// Writer writes rows in some format. What it has written is whole only after
// Close; Discard gives up whatever it holds, and does nothing after Close.
type Writer interface {
	Write(Row) error
	Close() error
	Discard()
	// Missing are the columns asked for that no row had.
	Missing() []string
	// FileColumns are the columns of what was written; nil where rows have their
	// own, or where they are not known before Close.
	FileColumns() []FileColumn
}

// FileColumn is a column of a file that was written.
type FileColumn struct {
	Name string `json:"name"`
	Type string `json:"type,omitempty"` // where the format has types
}

// NDJSON writes one JSON object per line.
type NDJSON struct {
	w    *bufio.Writer
	cut  *Projection
	line []byte
}

var _ Writer = (*NDJSON)(nil)

// NewNDJSON writes rows to w: with columns, cut down to these, and to all fields
// of annotators of which columns has none; without (nil), each as it is stored,
// byte for byte.
func NewNDJSON(w io.Writer, columns []string, annotators ...string) (*NDJSON, error) {
	n := &NDJSON{w: bufio.NewWriterSize(w, 256<<10)}
	if columns == nil {
		return n, nil
	}
	var err error
	n.cut, err = NewProjection(columns, annotators...)
	return n, err
}

// Write writes a row.
func (n *NDJSON) Write(r Row) error {
	line := r.Raw
	if n.cut != nil {
		n.line = n.cut.Append(n.line[:0], r)
		line = n.line
	}
	if _, err := n.w.Write(line); err != nil {
		return err
	}
	return n.w.WriteByte('\n')
}

// Flush writes what is buffered.
func (n *NDJSON) Flush() error { return n.w.Flush() }

// Close writes what is buffered.
func (n *NDJSON) Close() error { return n.Flush() }

// FileColumns are those that rows are cut down to; none where each row brings its
// own.
func (n *NDJSON) FileColumns() []FileColumn {
	if n.cut == nil || n.cut.open != nil {
		return nil
	}
	return n.cut.fileColumns()
}

// Discard drops what is buffered.
func (n *NDJSON) Discard() {}

// Missing are the columns asked for that no row had.
func (n *NDJSON) Missing() []string {
	if n.cut == nil {
		return nil
	}
	return n.cut.Missing()
}
