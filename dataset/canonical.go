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
	w := newWalk(value)
	defer w.free()
	if out, end := w.form(dst, skipSpace(value, 0), 0); end >= 0 && skipSpace(value, end) == len(value) && !w.tooLong() {
		return out, nil
	}
	return decodeCanonical(dst, value)
}

// form appends the form of the value at i, which stands in depth objects and
// arrays. It calls itself, to a depth of MaxDepth at most.
func (w *walk) form(dst []byte, i, depth int) (form []byte, end int) {
	switch byteAt(w.line, i) {
	case '[':
		return w.formArray(dst, i, depth+1)
	case '{':
		return w.formObject(dst, i, depth+1)
	}
	if end = skipScalar(w.line, i); end < 0 {
		return dst, refused
	}
	return appendScalar(dst, w.line[i:end]), end
}

func (w *walk) formArray(dst []byte, i, depth int) (form []byte, end int) {
	if depth > MaxDepth {
		return dst, refused
	}
	dst = append(dst, '[')
	i = w.space(i + 1)
	if byteAt(w.line, i) == ']' {
		return append(dst, ']'), i + 1
	}
	for {
		if dst, i = w.form(dst, i, depth); i < 0 {
			return dst, refused
		}
		i = w.space(i)
		switch byteAt(w.line, i) {
		case ',':
			i = w.space(i + 1)
		case ']':
			return append(dst, ']'), i + 1
		default:
			return dst, refused
		}
	}
}

func (w *walk) formObject(dst []byte, i, depth int) (form []byte, end int) {
	if depth > MaxDepth {
		return dst, refused
	}
	dst = append(dst, '{')
	i = w.space(i + 1)
	if byteAt(w.line, i) == '}' {
		return append(dst, '}'), i + 1
	}
	var few [8]field
	fields := few[:0]
	for {
		f := field{from: len(dst)}
		if f.key, i = w.key(i); i < 0 {
			return dst, refused
		}
		dst = appendText(dst, f.key)
		if dst, i = w.form(dst, i, depth); i < 0 {
			return dst, refused
		}
		f.to = len(dst)
		fields = append(fields, f)
		i = w.space(i)
		switch byteAt(w.line, i) {
		case ',':
			i = w.space(i + 1)
		case '}':
			if sortFields(dst, fields) != nil {
				return dst, refused
			}
			return append(dst, '}'), i + 1
		default:
			return dst, refused
		}
	}
}

// key passes a member's name and the colon behind it.
func (w *walk) key(i int) (text []byte, value int) {
	if byteAt(w.line, i) != '"' {
		return nil, refused
	}
	end := skipString(w.line, i+1)
	if end < 0 {
		return nil, refused
	}
	colon := w.space(end)
	if byteAt(w.line, colon) != ':' {
		return nil, refused
	}
	return unescape(w.line[i:end]), w.space(colon + 1)
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

// field is where the form of an object's member stands in dst.
type field struct {
	key      []byte
	from, to int
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
