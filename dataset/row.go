package dataset

import (
	"bytes"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"
)

// The limits of a row.
const (
	MaxLineBytes = 64 << 20 // a stored line, without its newline
	MaxDepth     = 512      // nested objects and arrays, the row itself being the first
	MaxIDBytes   = 256      // an id, after unescaping
)

// The names with a meaning of their own in every row.
const (
	IDColumn        = "id"
	CreatedAtColumn = "_created_at"
	BatchColumn     = "_batch"
	ReservedPrefix  = "_silt_"
)

// Row is one JSON object with an id. Raw holds its bytes as they were written:
// a row is never decoded and encoded again, because key order, number literals
// and escapes belong to the user.
type Row struct {
	ID        string    // empty: the line has none
	CreatedAt time.Time // zero: unknown
	Raw       []byte    // the object, without white space around it and without newline
}

// RowError says why a line is no row, and where in the line.
type RowError struct {
	Offset int64 // byte in the line, from 0
	Reason string
}

func (e *RowError) Error() string { return fmt.Sprintf("%s (at byte %d)", e.Reason, e.Offset) }

func rowErrorf(offset int, format string, args ...any) *RowError {
	return &RowError{Offset: int64(offset), Reason: fmt.Sprintf(format, args...)}
}

// ParseRow reads a stored line. It is strict: one complete JSON object (RFC
// 8259), valid UTF-8, no two equal keys in one object, bounded depth and size.
// An error is a *RowError. Raw aliases line. Who reads many lines, or needs
// values of them, does so in one pass with a Scanner.
func ParseRow(line []byte) (Row, error) {
	s := scanners.Get().(*Scanner)
	defer s.free()
	return s.Scan(line)
}

// scanners are those of lines that are read one at a time; they ask for no
// column.
var scanners = sync.Pool{New: func() any { return NewScanner(nil) }}

// free gives s back without the line, which may be large.
func (s *Scanner) free() {
	s.release(nil)
	scanners.Put(s)
}

const jsonSpace = " \t\r\n"

func parseID(line []byte, m member) (string, error) {
	v := m.value(line)
	switch {
	case v[0] == '"':
		id := unescape(v)
		switch {
		case len(id) == 0:
			return "", rowErrorf(m.from, "the id is empty; leave it out to get one")
		case len(id) > MaxIDBytes:
			return "", rowErrorf(m.from, "the id is %d bytes long, %d are allowed", len(id), MaxIDBytes)
		case !utf8.Valid(id):
			return "", rowErrorf(m.from, "the id has half of a surrogate pair")
		}
		return string(id), nil
	case v[0] == '-' || v[0] >= '0' && v[0] <= '9':
		switch {
		case bytes.ContainsAny(v, ".eE"):
			return "", rowErrorf(m.from, "the id is a number with a fraction or exponent; use an integer or a string")
		case len(v) > MaxIDBytes:
			return "", rowErrorf(m.from, "the id is %d digits long, %d are allowed", len(v), MaxIDBytes)
		case string(v) == "-0":
			return "0", nil
		}
		return string(v), nil
	case v[0] == 'n':
		return "", rowErrorf(m.from, "the id is null; leave it out to get one")
	}
	return "", rowErrorf(m.from, "the id is neither a string nor an integer")
}
