package dataset

// Walks reports whether a scanner takes the line without asking the decoder.
func Walks(line []byte) bool {
	w := newWalk(line)
	defer w.free()
	return w.row(new(rowScan), nil)
}

// WalksCanonical reports whether a value gets its form without the decoder.
func WalksCanonical(value []byte) bool {
	w := newWalk(value)
	defer w.free()
	_, end := w.form(nil, skipSpace(value, 0), 0)
	return end >= 0 && skipSpace(value, end) == len(value)
}

// Decode is Scan by the decoder alone.
func (s *Scanner) Decode(line []byte) (Row, error) {
	if err := checkLineBreak(line); err != nil {
		return Row{}, err
	}
	s.release(line)
	if err := s.decode(line); err != nil {
		return Row{}, err
	}
	return s.found.row(line)
}

// Segments is where a stamp cuts out the id and the time.
func (s *Scanner) Segments() [4]int {
	return [4]int{s.found.id.segment, s.found.id.after, s.found.created.segment, s.found.created.after}
}

// DecodeCanonical is Canonical by the decoder alone.
func DecodeCanonical(value []byte) ([]byte, error) { return decodeCanonical(nil, value) }

// DecodeFields is Fields by the decoder alone.
func (r Row) DecodeFields(fn func(name, value []byte) bool) error { return r.decodeFields(fn) }

// FieldsOf is Fields with the error.
func (r Row) FieldsOf(fn func(name, value []byte) bool) error { return r.fields(fn) }

// AppendUnquoted is the one unquoting there is.
func AppendUnquoted(dst, quoted []byte) []byte { return appendUnquoted(dst, quoted) }
