package dataset

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// The canonical form of a JSON value: a tag, then
//
//	null 'n' · false 'f' · true 't'
//	number  '#' length text      exact decimal value, see appendNumber
//	string  '"' length bytes     unescaped, lone surrogates kept (WTF-8)
//	array   '[' elements ']'
//	object  '{' (string value)… '}'   members sorted by key, bytewise
//
// where length is an unsigned varint. Every form says where it ends, so no two
// different values or lists of values have one form.
const (
	tagNull, tagFalse, tagTrue = 'n', 'f', 't'
	tagNumber, tagString       = '#', '"'
)

// Canonical appends the canonical form of one JSON value: two values have the
// same form if and only if they are equal as JSON values. Numbers compare by
// exact value, strings by code points, objects without regard to order.
func Canonical(dst, value []byte) ([]byte, error) {
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

// appendScalar appends the form of a valid value that is no array or object.
func appendScalar(dst, v []byte) []byte {
	switch v[0] {
	case 'n':
		return append(dst, tagNull)
	case 'f':
		return append(dst, tagFalse)
	case 't':
		return append(dst, tagTrue)
	case '"':
		return appendQuotedText(dst, v)
	}
	var small [64]byte
	text := appendNumber(small[:0], v)
	dst = binary.AppendUvarint(append(dst, tagNumber), uint64(len(text)))
	return append(dst, text...)
}

func appendText(dst, unescaped []byte) []byte {
	dst = binary.AppendUvarint(append(dst, tagString), uint64(len(unescaped)))
	return append(dst, unescaped...)
}

// appendQuotedText is appendText of a JSON string, without a buffer between.
func appendQuotedText(dst, quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return appendText(dst, quoted[1:len(quoted)-1])
	}
	dst = append(dst, tagString)
	at := len(dst)
	dst = slices.Grow(dst, binary.MaxVarintLen64+len(quoted))
	dst = binary.AppendUvarint(dst, uint64(len(quoted))) // room for the length, which is less
	text := len(dst)
	dst = appendUnquoted(dst, quoted)
	n := len(dst) - text
	moved := len(binary.AppendUvarint(dst[:at], uint64(n)))
	return dst[:moved+copy(dst[moved:], dst[text:])]
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

// field is where the form of an object's member stands in dst.
type field struct {
	key      []byte
	from, to int
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

// unescape is what a JSON string means. Most have no escapes and are not copied.
func unescape(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		return appendUnquoted(nil, quoted)
	}
	return quoted[1 : len(quoted)-1]
}

// sortFields puts the members, which fill the end of dst, in the order of keys.
func sortFields(dst []byte, fields []field) *RowError {
	byKey := func(a, b field) int { return bytes.Compare(a.key, b.key) }
	if slices.IsSortedFunc(fields, byKey) {
		return equalNeighbours(fields)
	}
	from := fields[0].from
	slices.SortFunc(fields, byKey)
	if err := equalNeighbours(fields); err != nil {
		return err
	}
	unsorted := slices.Clone(dst[from:])
	at := dst[from:from]
	for _, f := range fields {
		at = append(at, unsorted[f.from-from:f.to-from]...)
	}
	return nil
}

func equalNeighbours(sorted []field) *RowError {
	for i := 1; i < len(sorted); i++ {
		if bytes.Equal(sorted[i-1].key, sorted[i].key) {
			return rowErrorf(0, "the key %q occurs twice in one object", sorted[i].key)
		}
	}
	return nil
}
