package block

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/parquet-go/parquet-go"
)

// cell makes a column's value of a member's. Bytes that are not those of v go
// to arena. What the value does not say of v (its style, half a surrogate pair)
// shows when the line is written again and compared.
func (c *parquetColumn) cell(v []byte, arena *[]byte) parquet.Value {
	if v[0] == 'n' {
		return parquet.NullValue()
	}
	switch c.Type {
	case typeBool:
		return parquet.BooleanValue(v[0] == 't')
	case typeInt64:
		n, _ := isInt64(v)
		return parquet.Int64Value(n)
	case typeDouble:
		return parquet.DoubleValue(double(v))
	case typeString:
		if v[0] != '"' {
			break // an integer as id
		}
		if bytes.IndexByte(v, '\\') < 0 {
			return parquet.ByteArrayValue(v[1 : len(v)-1])
		}
		from := len(*arena)
		*arena, _ = jsontext.AppendUnquote(*arena, v) // halves of surrogate pairs become U+FFFD
		return parquet.ByteArrayValue((*arena)[from:len(*arena):len(*arena)])
	case typeJSON:
		return parquet.ByteArrayValue(wholeSurrogates(v, arena))
	}
	return parquet.ByteArrayValue(v)
}

// appendCell writes a value that is not null as JSON.
func (c *parquetColumn) appendCell(dst []byte, v parquet.Value) ([]byte, error) {
	switch {
	case c.Type == typeBool && v.Kind() == parquet.Boolean:
		if v.Boolean() {
			return append(dst, "true"...), nil
		}
		return append(dst, "false"...), nil
	case c.Type == typeInt64 && v.Kind() == parquet.Int64:
		return appendPhysical(dst, v)
	case c.Type == typeDouble && v.Kind() == parquet.Double:
		return appendDouble(dst, v.Double(), c.Style), nil
	case c.Type == typeString && v.Kind() == parquet.ByteArray:
		return appendQuoted(dst, v.ByteArray(), c.Style), nil
	case c.Type == typeJSON && v.Kind() == parquet.ByteArray:
		return append(dst, v.ByteArray()...), nil
	}
	return dst, fmt.Errorf("column %q is of type %s and has a value of kind %v", c.Name, c.Type, v.Kind())
}

// wholeSurrogates gives JSON text with \ufffd in place of each escaped half of
// a surrogate pair, which engines refuse.
func wholeSurrogates(v []byte, arena *[]byte) []byte {
	from, copied := 0, -1
	for i := bytes.IndexByte(v, '\\'); i >= 0 && i+1 < len(v); {
		n, whole := escapeLen(v[i:])
		if !whole {
			if copied < 0 {
				copied = len(*arena)
			}
			*arena = append(append(*arena, v[from:i]...), `\ufffd`...)
			from = i + n
		}
		next := bytes.IndexByte(v[i+n:], '\\')
		if next < 0 {
			break
		}
		i += n + next
	}
	if copied < 0 {
		return v
	}
	*arena = append(*arena, v[from:]...)
	return (*arena)[copied:len(*arena):len(*arena)]
}

// escapeLen is the length of the escape that s begins with, a pair of
// surrogates being one; whole is false for half a pair.
func escapeLen(s []byte) (n int, whole bool) {
	if s[1] != 'u' || len(s) < 6 {
		return 2, true
	}
	if hi := s[2] | 0x20; hi != 'd' {
		return 6, true
	}
	switch s[3] | 0x20 {
	case '8', '9', 'a', 'b':
		if len(s) >= 12 && s[6] == '\\' && s[7] == 'u' && s[8]|0x20 == 'd' && bytes.IndexByte([]byte("cdef"), s[9]|0x20) >= 0 {
			return 12, true
		}
		return 6, false
	case 'c', 'd', 'e', 'f':
		return 6, false
	}
	return 6, true
}
