package dataset

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
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
// An error is a *RowError. Raw aliases line.
func ParseRow(line []byte) (Row, error) {
	if i := bytes.IndexByte(line, '\n'); i >= 0 && len(bytes.Trim(line[i:], jsonSpace)) > 0 {
		return Row{}, rowErrorf(i, "a line break inside a row")
	}
	p := getParser()
	defer p.free()
	s, err := p.scan(line)
	if err != nil {
		return Row{}, err
	}
	r := Row{Raw: line[s.open : s.end+1 : s.end+1]}
	if s.id.found {
		if r.ID, err = parseID(line, s.id); err != nil {
			return Row{}, err
		}
	}
	if s.created.found {
		r.CreatedAt, _ = ParseTime(s.created.value(line))
	}
	return r, nil
}

const jsonSpace = " \t\r\n"

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
	reserved    string // the first name that only siltstone may write
	reservedAt  int
}

// parser is a decoder that is used again and again, since one per line would
// cost more than the line.
type parser struct {
	dec jsontext.Decoder
	buf bytes.Buffer
}

var parsers = sync.Pool{New: func() any { return new(parser) }}

var (
	// An escaped lone surrogate in a value is legal, which to the decoder is
	// invalid UTF-8; the raw bytes are checked beforehand.
	strictNames = jsontext.AllowInvalidUTF8(true)
	anyNames    = joinOptions(strictNames, jsontext.AllowDuplicateNames(true))
)

func getParser() *parser { return parsers.Get().(*parser) }

func (p *parser) reset(b []byte, opts jsontext.Options) {
	p.buf = *bytes.NewBuffer(b)
	p.dec.Reset(&p.buf, opts)
}

// free gives p back without the line, which may be large.
func (p *parser) free() {
	p.reset(nil, strictNames)
	parsers.Put(p)
}

// scan checks a whole line and finds the members that siltstone knows.
func (p *parser) scan(line []byte) (rowScan, error) {
	open, err := checkStart(line)
	if err != nil {
		return rowScan{}, err
	}
	if i := invalidUTF8(line); i >= 0 {
		return rowScan{}, rowErrorf(i, "invalid UTF-8: byte 0x%02X", line[i])
	}
	s, err := p.scanWith(line, open, strictNames)
	if isDuplicateName(err) && hasSurrogateEscape(line) {
		// The decoder takes all lone surrogates for one character. Canonical
		// tells them apart, and reports real duplicates.
		if _, dup := Canonical(nil, bytes.Trim(line, jsonSpace)); dup == nil {
			s, err = p.scanWith(line, open, anyNames)
		}
	}
	if err != nil {
		return rowScan{}, lineError(line, err)
	}
	return s, nil
}

func (p *parser) scanWith(line []byte, open int, opts jsontext.Options) (rowScan, error) {
	s := rowScan{open: open}
	p.reset(line, opts)
	if _, err := p.dec.ReadToken(); err != nil {
		return s, err
	}
	segment := open + 1
	for p.dec.PeekKind() == '"' {
		name, err := p.dec.ReadValue()
		if err != nil {
			return s, err
		}
		nameAt := int(p.dec.InputOffset()) - len(name)
		found := s.place(name, nameAt)
		kind := p.dec.PeekKind()
		from := 0
		if kind == '{' || kind == '[' {
			if from, err = p.skip(); err != nil {
				return s, err
			}
		} else {
			v, err := p.dec.ReadValue()
			if err != nil {
				return s, err
			}
			from = int(p.dec.InputOffset()) - len(v)
		}
		to := int(p.dec.InputOffset())
		after := to
		for after < len(line) && line[after] != ',' && line[after] != '}' {
			after++ // white space, or the next read reports it
		}
		if found != nil {
			*found = member{found: true, segment: segment, after: after, from: from, to: to}
		}
		segment = after + 1
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return s, err
	}
	s.end = int(p.dec.InputOffset()) - 1
	return s, checkRest(line, s.end+1)
}

// skip reads an object or array, counting depth without recursion, and gives
// the offset where it starts.
func (p *parser) skip() (from int, err error) {
	outer := p.dec.StackDepth()
	for first := true; first || p.dec.StackDepth() > outer; first = false {
		if _, err := p.dec.ReadToken(); err != nil {
			return 0, err
		}
		if first {
			from = int(p.dec.InputOffset()) - 1
		}
		if p.dec.StackDepth() > MaxDepth {
			return 0, rowErrorf(int(p.dec.InputOffset())-1, "nested deeper than %d levels", MaxDepth)
		}
	}
	return from, nil
}

// place tells where a member of that name is to be noted, if anywhere.
func (s *rowScan) place(quoted []byte, at int) *member {
	name := unescape(quoted)
	switch {
	case string(name) == IDColumn:
		return &s.id
	case len(name) == 0 || name[0] != '_':
	case string(name) == CreatedAtColumn:
		return &s.created
	case s.reserved == "" && (string(name) == BatchColumn || strings.HasPrefix(string(name), ReservedPrefix)):
		s.reserved, s.reservedAt = string(name), at
	}
	return nil
}

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
