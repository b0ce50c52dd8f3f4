package block

import (
	"bytes"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/parquet-go/parquet-go"

	"github.com/siltstone-data/siltstone/dataset"
)

// typeText is JSON text that engines which read JSON columns refuse, because a
// string in it has half of a surrogate pair; they take it as a string.
const typeText = "text"

// TypedColumn is a column of a typed file.
type TypedColumn struct {
	Name string
	// Type is bool, int64, double or string where all values are that and none
	// would change, otherwise json: the text of each value as JSON, strings in
	// their quotes. text is the same as a parquet string.
	Type string
}

// typedFacts are what the rows say of a column.
type typedFacts struct {
	name    string
	asked   bool
	present int64 // rows that have it, and not as null
	bools   int64
	strings int64
	ints    int64
	floats  int64 // numbers that are no int64
	wide    bool  // an int64 that a double has not
	lossy   bool  // a number that is neither an int64 nor what a double stands for
	half    bool  // half of a surrogate pair somewhere
	longest int   // bytes of a string

	at  int // column of the file
	typ string
}

func (f *typedFacts) add(v []byte) {
	if v[0] == 'n' {
		return
	}
	f.present++
	switch v[0] {
	case 't', 'f':
		f.bools++
	case '"':
		f.strings++
		f.longest = max(f.longest, len(v)-2)
		f.half = f.half || hasHalf(v)
	case '{', '[':
		f.half = f.half || hasHalf(v)
	default:
		f.number(v)
	}
}

func (f *typedFacts) number(v []byte) {
	if n, ok := isInt64(v); ok {
		f.ints++
		f.wide = f.wide || n > 1<<53 || n < -1<<53
		return
	}
	f.floats++
	f.lossy = f.lossy || !isDouble(v)
}

// isDouble reports whether a number is just the one that its nearest double
// stands for: 0.1 is, 0.10000000000000000001 is not, nor is 1e400.
func isDouble(v []byte) bool {
	n, err := strconv.ParseFloat(string(v), 64)
	if err != nil || math.IsInf(n, 0) {
		return false
	}
	var buf [32]byte
	short := strconv.AppendFloat(buf[:0], n, 'g', -1, 64)
	if bytes.Equal(short, v) {
		return true
	}
	is, err := dataset.Canonical(nil, short)
	if err != nil {
		return false
	}
	was, err := dataset.Canonical(nil, v)
	return err == nil && bytes.Equal(is, was)
}

// hasHalf reports whether a JSON text has the escape of half a surrogate pair.
func hasHalf(v []byte) bool {
	for i := bytes.IndexByte(v, '\\'); i >= 0 && i+1 < len(v); {
		n, whole := escapeLen(v[i:])
		if !whole {
			return true
		}
		next := bytes.IndexByte(v[i+n:], '\\')
		if next < 0 {
			return false
		}
		i += n + next
	}
	return false
}

// decide picks the type in which no value changes.
func (f *typedFacts) decide() {
	switch {
	case f.name == idColumn || f.present == 0:
		f.typ = typeString
	case f.bools == f.present:
		f.typ = typeBool
	case f.strings == f.present && !f.half:
		f.typ = typeString
	case f.ints == f.present:
		f.typ = typeInt64
	case f.ints+f.floats == f.present && !f.wide && !f.lossy:
		f.typ = typeDouble
	case f.half:
		f.typ = typeText
	default:
		f.typ = typeJSON
	}
}

func (f *typedFacts) node() parquet.Node {
	if f.name == idColumn {
		return parquet.String() // every row has one
	}
	return (&parquetColumn{Name: f.name, Type: f.typ}).node()
}

// bounds reports whether it is worth it to keep the bounds of its pages.
func (f *typedFacts) bounds() bool {
	return f.name == idColumn || f.typ == typeInt64 || f.typ == typeDouble || f.typ == typeString && f.longest <= boundedText
}

// cell makes a value of a member's. Bytes that are not those of v go to arena.
func (f *typedFacts) cell(v []byte, arena *[]byte) parquet.Value {
	switch {
	case v[0] == 'n':
		return parquet.NullValue()
	case f.typ == typeBool:
		return parquet.BooleanValue(v[0] == 't')
	case f.typ == typeInt64:
		n, _ := isInt64(v)
		return parquet.Int64Value(n)
	case f.typ == typeDouble:
		n, _ := strconv.ParseFloat(string(v), 64) // decide has seen that it is one
		return parquet.DoubleValue(n)
	case f.typ == typeString && v[0] == '"':
		if bytes.IndexByte(v, '\\') < 0 {
			return parquet.ByteArrayValue(v[1 : len(v)-1])
		}
		from := len(*arena)
		*arena, _ = jsontext.AppendUnquote(*arena, v) // decide has seen that it is whole
		return parquet.ByteArrayValue((*arena)[from:len(*arena):len(*arena)])
	}
	return parquet.ByteArrayValue(v) // JSON, or an integer as id
}
