package dataset

import (
	"bytes"
	"strings"
)

// member is where a top-level member stands in a line. A segment is all
// between two commas, white space included.
type member struct {
	found          bool
	segment, after int // the segment is line[segment:after]
	from, to       int // the value is line[from:to]
}

func (m member) value(line []byte) []byte { return line[m.from:m.to] }

// rowScan is what one pass over a line finds.
type rowScan struct {
	open, end   int // of the braces
	id, created member
	batchAt     int    // of the name _batch; 0 is nowhere, as a brace comes first
	siltAt      int    // of the first name that starts with ReservedPrefix
	silt        string // that name
}

// column is one whose value is asked for.
type column struct {
	name  string
	value []byte // nil: the row has none
}

// row passes a whole line.
func (w *walk) row(s *rowScan, columns []column) bool {
	line := w.line
	*s = rowScan{open: w.space(0)}
	if len(line) > MaxLineBytes || byteAt(line, s.open) != '{' {
		return false
	}
	segment := s.open + 1
	i := w.space(segment)
	if byteAt(line, i) == '}' {
		s.end = i
		return skipSpace(line, i+1) == len(line)
	}
	for {
		from, text := w.name(i)
		if from < 0 {
			return false
		}
		known := s.place(text, i)
		wanted := find(columns, text)
		to := w.value(from, 1)
		if to < 0 {
			return false
		}
		i = w.space(to)
		if known != nil {
			*known = member{found: true, segment: segment, after: i, from: from, to: to}
		}
		if wanted != nil {
			wanted.value = line[from:to:to]
		}
		switch byteAt(line, i) {
		case ',':
			segment = i + 1
			i = w.space(segment)
		case '}':
			s.end = i
			return w.names.distinct(line, 0) && skipSpace(line, i+1) == len(line)
		default:
			return false
		}
	}
}

// place tells where a member of that name is to be noted, if anywhere.
func (s *rowScan) place(name []byte, at int) *member {
	switch {
	case string(name) == IDColumn:
		return &s.id
	case len(name) == 0 || name[0] != '_':
	case string(name) == CreatedAtColumn:
		return &s.created
	case string(name) == BatchColumn:
		s.batchAt = at
	case s.siltAt == 0 && bytes.HasPrefix(name, []byte(ReservedPrefix)):
		s.silt, s.siltAt = string(name), at
	}
	return nil
}

// reserved is the first name that only siltstone may write, and where it is.
// The rows of layers have a _batch.
func (s *rowScan) reserved(layer bool) (name string, at int) {
	if s.batchAt > 0 && !layer && (s.siltAt == 0 || s.batchAt < s.siltAt) {
		return BatchColumn, s.batchAt
	}
	return s.silt, s.siltAt
}

func find(columns []column, name []byte) *column {
	for i := range columns {
		if string(name) == columns[i].name {
			return &columns[i]
		}
	}
	return nil
}

// row makes a row of what was found.
func (s *rowScan) row(line []byte) (Row, error) {
	r := Row{Raw: line[s.open : s.end+1 : s.end+1]}
	if s.id.found {
		var err error
		if r.ID, err = parseID(line, s.id); err != nil {
			return Row{}, err
		}
	}
	if s.created.found {
		r.CreatedAt, _ = ParseTime(s.created.value(line))
	}
	return r, nil
}

// reservedReason says what to do about a reserved name.
func reservedError(name string, at int) *RowError {
	return rowErrorf(at, "the name %q is reserved; rename that column (for example %q)", name, strings.TrimLeft(name, "_"))
}
