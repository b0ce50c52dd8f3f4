package dataset

import (
	"slices"
)

// Scanner reads stored lines, one after the other, each in one pass: what it
// checks, the row, and the values of the columns it was made for. It is for one
// goroutine. What it tells of a line is valid until the next Scan, and only
// after a Scan without error.
type Scanner struct {
	walk    walk
	found   rowScan
	columns []column // each name once
	order   []int    // the asked columns, as indexes into columns
	id      int      // of the column id in columns, or -1
	form    []byte
}

// NewScanner makes a scanner that hands out the values of these columns, and
// digests them in this order. There may be none.
func NewScanner(columns []string) *Scanner {
	s := &Scanner{}
	for _, c := range columns {
		i := slices.IndexFunc(s.columns, func(have column) bool { return have.name == c })
		if i < 0 {
			i = len(s.columns)
			s.columns = append(s.columns, column{name: c})
		}
		s.order = append(s.order, i)
	}
	s.id = slices.IndexFunc(s.columns, func(c column) bool { return c.name == IDColumn })
	return s
}

// Scan reads a line as ParseRow does.
func (s *Scanner) Scan(line []byte) (Row, error) {
	s.release(line)
	if s.walk.row(&s.found, s.columns) && !s.walk.lines {
		return s.found.row(line)
	}
	if err := checkLineBreak(line); err != nil {
		return Row{}, err
	}
	if err := s.decode(line); err != nil {
		return Row{}, err
	}
	return s.found.row(line)
}

// read is Scan of a line that is to be stored, and may still have line breaks
// between its parts.
func (s *Scanner) read(line []byte) error {
	s.release(line)
	if s.walk.row(&s.found, s.columns) {
		return nil
	}
	return s.decode(line)
}

// decode is read by the decoder: it says why a line is no row, and would have
// the last word if it found that it is one.
func (s *Scanner) decode(line []byte) error {
	p := getParser()
	defer p.free()
	var err error
	if s.found, err = p.scan(line); err != nil || len(s.columns) == 0 {
		return err
	}
	for i := range s.columns {
		s.columns[i].value = nil
	}
	return Row{Raw: line}.decodeFields(func(name, value []byte) bool {
		if c := find(s.columns, name); c != nil {
			c.value = value
		}
		return true
	})
}

// release begins with a line; it lets go of the one before, and of room that
// only a huge one needs.
func (s *Scanner) release(line []byte) {
	if cap(s.walk.names) > 1<<14 || cap(s.walk.text) > 1<<16 || cap(s.form) > 1<<20 {
		s.walk, s.form = walk{}, nil
	}
	s.walk.begin(line)
	for i := range s.columns {
		s.columns[i].value = nil
	}
}

// Reserved is the first name in the row that only siltstone may write, or
// empty. The rows of layers may have a _batch.
func (s *Scanner) Reserved(layer bool) string {
	name, _ := s.found.reserved(layer)
	return name
}

// Value is the raw value of the i-th column, or nil where the row has none. It
// aliases the line.
func (s *Scanner) Value(i int) []byte { return s.columns[s.order[i]].value }

// Digest is what DigestOf gives for the row and the scanner's columns.
func (s *Scanner) Digest() (Digest, error) {
	if len(s.order) == 0 {
		return Digest{}, ErrNoColumns
	}
	form := append(s.form[:0], '[')
	for _, i := range s.order {
		var err error
		if form, err = appendValid(form, s.columns[i].value); err != nil {
			return Digest{}, err
		}
	}
	s.form = append(form, ']')
	return digest(s.form), nil
}

// WithID gives the row that Scan gave an id, as Row.WithID does, and counts it
// as its value from now on.
func (s *Scanner) WithID(r Row, id string) Row {
	named := r.WithID(id)
	if r.ID == "" && s.id >= 0 {
		s.columns[s.id].value, _ = named.Column(IDColumn)
	}
	return named
}
