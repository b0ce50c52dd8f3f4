package dataset

import (
	"bytes"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// What a walk refuses is read again with a decoder of general use. It knows
// what is wrong and where, and its verdict is the one that counts: a walk can
// never refuse what is valid. Tests hold every walk to the decoder.

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
		// The decoder takes all lone surrogates for one character. A canonical
		// form tells them apart, and reports real duplicates.
		if _, dup := decodeCanonical(nil, bytes.Trim(line, jsonSpace)); dup == nil {
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
		found := s.place(unescape(name), nameAt)
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

// decodeCanonical is Canonical by the decoder.
func decodeCanonical(dst, value []byte) ([]byte, error) {
	if i := invalidUTF8(value); i >= 0 {
		return dst, rowErrorf(i, "invalid UTF-8: byte 0x%02X", value[i])
	}
	p := getParser()
	defer p.free()
	p.reset(value, anyNames)
	out, err := p.canonical(dst)
	if err != nil {
		return dst, lineError(value, err)
	}
	if err := checkRest(value, int(p.dec.InputOffset())); err != nil {
		return dst, err
	}
	return out, nil
}

// canonical appends the form of the decoder's next value. It calls itself, to
// a depth of MaxDepth at most.
func (p *parser) canonical(dst []byte) ([]byte, error) {
	switch p.dec.PeekKind() {
	case '[':
		return p.canonicalArray(dst)
	case '{':
		return p.canonicalObject(dst)
	}
	v, err := p.dec.ReadValue()
	if err != nil {
		return dst, err
	}
	return appendScalar(dst, v), nil
}

func (p *parser) open() error {
	if _, err := p.dec.ReadToken(); err != nil {
		return err
	}
	if p.dec.StackDepth() > MaxDepth {
		return rowErrorf(int(p.dec.InputOffset())-1, "nested deeper than %d levels", MaxDepth)
	}
	return nil
}

func (p *parser) canonicalArray(dst []byte) ([]byte, error) {
	if err := p.open(); err != nil {
		return dst, err
	}
	dst = append(dst, '[')
	for k := p.dec.PeekKind(); k != ']'; k = p.dec.PeekKind() {
		var err error
		if dst, err = p.canonical(dst); err != nil {
			return dst, err
		}
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return dst, err
	}
	return append(dst, ']'), nil
}

func (p *parser) canonicalObject(dst []byte) ([]byte, error) {
	if err := p.open(); err != nil {
		return dst, err
	}
	dst = append(dst, '{')
	var fields []field
	for k := p.dec.PeekKind(); k != '}'; k = p.dec.PeekKind() {
		name, err := p.dec.ReadValue()
		if err != nil {
			return dst, err
		}
		f := field{key: unescape(name), from: len(dst)}
		dst = appendText(dst, f.key)
		if dst, err = p.canonical(dst); err != nil {
			return dst, err
		}
		f.to = len(dst)
		fields = append(fields, f)
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return dst, err
	}
	if err := sortFields(dst, fields); err != nil {
		err.Offset = p.dec.InputOffset() - 1
		return dst, err
	}
	return append(dst, '}'), nil
}

// decodeFields is Row.fields by the decoder.
func (r Row) decodeFields(fn func(name, value []byte) bool) error {
	p := getParser()
	defer p.free()
	p.reset(r.Raw, anyNames)
	if p.dec.PeekKind() != '{' {
		return rowErrorf(0, "not a JSON object")
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return lineError(r.Raw, err)
	}
	var unescaped []byte
	for p.dec.PeekKind() == '"' {
		quoted, err := p.dec.ReadValue()
		if err != nil {
			return lineError(r.Raw, err)
		}
		name := []byte(quoted[1 : len(quoted)-1])
		if bytes.IndexByte(name, '\\') >= 0 {
			unescaped = appendUnquoted(unescaped[:0], quoted)
			name = unescaped
		}
		value, err := p.dec.ReadValue()
		if err != nil {
			return lineError(r.Raw, err)
		}
		if !fn(name, value) {
			return nil
		}
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return lineError(r.Raw, err)
	}
	return nil
}
