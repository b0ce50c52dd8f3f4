package duck

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"unicode/utf8"

	"github.com/duckdb/duckdb-go/v2"

	"github.com/siltstone-data/siltstone/dataset"
)

// kind is what a value of a row is in SQL.
type kind uint8

const (
	kindNull    kind = iota // null or missing
	kindBoolean             // BOOLEAN
	kindBigint              // BIGINT: a number written as an integer, of 64 bits
	kindHugeint             // HUGEINT: as before, of 128 bits
	kindDouble              // DOUBLE: a number that the nearest double spells again
	kindDecimal             // DECIMAL(38,scale): any other number that has room there
	kindText                // VARCHAR: a string, or the JSON text of an object or array
)

// valueType is a kind, and the scale of a decimal.
type valueType struct {
	kind  kind
	scale uint8
}

const decimalDigits = 38

func (t valueType) String() string {
	switch t.kind {
	case kindBoolean:
		return "BOOLEAN"
	case kindBigint:
		return "BIGINT"
	case kindHugeint:
		return "HUGEINT"
	case kindDouble:
		return "DOUBLE"
	case kindDecimal:
		return fmt.Sprintf("DECIMAL(%d,%d)", decimalDigits, t.scale)
	case kindText:
		return "VARCHAR"
	}
	return "NULL"
}

// info is the type as the driver knows it.
func (t valueType) info() (duckdb.TypeInfo, error) {
	switch t.kind {
	case kindBoolean:
		return duckdb.NewTypeInfo(duckdb.TYPE_BOOLEAN)
	case kindBigint:
		return duckdb.NewTypeInfo(duckdb.TYPE_BIGINT)
	case kindHugeint:
		return duckdb.NewTypeInfo(duckdb.TYPE_HUGEINT)
	case kindDouble:
		return duckdb.NewTypeInfo(duckdb.TYPE_DOUBLE)
	case kindDecimal:
		return duckdb.NewDecimalInfo(decimalDigits, t.scale)
	}
	return duckdb.NewTypeInfo(duckdb.TYPE_VARCHAR)
}

// appendSignature spells types as a key.
func appendSignature(dst []byte, types []valueType) []byte {
	for _, t := range types {
		dst = append(dst, byte(t.kind), t.scale)
	}
	return dst
}

// value is a value of a row, in the field of its kind.
type value struct {
	valueType
	yes    bool
	whole  int64
	double float64
	big    *big.Int
	text   []byte
}

// newValue reads a JSON value; nil is one that is missing.
func newValue(raw []byte) (value, error) {
	if len(raw) == 0 {
		return value{}, nil
	}
	switch raw[0] {
	case 'n':
		return value{}, nil
	case 't', 'f':
		return value{valueType: valueType{kind: kindBoolean}, yes: raw[0] == 't'}, nil
	case '{', '[':
		return value{valueType: valueType{kind: kindText}, text: bytes.Clone(raw)}, nil
	case '"':
		text := dataset.Text(make([]byte, 0, len(raw)), raw)
		if !utf8.Valid(text) {
			return value{}, errors.New("it has half of a surrogate pair, and SQL has no such text")
		}
		return value{valueType: valueType{kind: kindText}, text: text}, nil
	}
	return newNumber(raw)
}

// maxExact is how many digits a double surely gives back.
const maxExact = 15

// newNumber reads a JSON number into the first type that holds it exactly.
func newNumber(lit []byte) (value, error) {
	if !bytes.ContainsAny(lit, ".eE") {
		if n, err := strconv.ParseInt(string(lit), 10, 64); err == nil {
			return value{valueType: valueType{kind: kindBigint}, whole: n}, nil
		}
		if len(lit) <= decimalDigits+2 {
			if n, ok := new(big.Int).SetString(string(lit), 10); ok && n.BitLen() <= 127 {
				return value{valueType: valueType{kind: kindHugeint}, big: n}, nil
			}
		}
	}
	f, err := strconv.ParseFloat(string(lit), 64)
	if err == nil && !math.IsInf(f, 0) {
		plain := len(lit) <= maxExact && !bytes.ContainsAny(lit, "eE")
		if plain || dataset.CompareValues(lit, strconv.AppendFloat(nil, f, 'g', -1, 64)) == 0 {
			return value{valueType: valueType{kind: kindDouble}, double: f}, nil
		}
	}
	if n, scale, ok := decimalOf(lit); ok {
		return value{valueType: valueType{kind: kindDecimal, scale: scale}, big: n}, nil
	}
	return value{}, fmt.Errorf("no type of SQL holds the number %s exactly", shorten(string(lit), 60))
}

// decimalOf gives a number as an integer and how many of its digits stand behind
// the point.
func decimalOf(lit []byte) (n *big.Int, scale uint8, ok bool) {
	negative := lit[0] == '-'
	digits, exponent := bytes.TrimPrefix(lit, []byte("-")), 0
	if e := bytes.IndexAny(digits, "eE"); e >= 0 {
		var err error
		if exponent, err = strconv.Atoi(string(digits[e+1:])); err != nil || exponent < -1000 || exponent > 1000 {
			return nil, 0, false
		}
		digits = digits[:e]
	}
	before, after, _ := bytes.Cut(digits, []byte("."))
	all := bytes.TrimLeft(append(bytes.Clone(before), after...), "0")
	behind := len(after) - exponent
	for len(all) > 0 && behind > 0 && all[len(all)-1] == '0' {
		all, behind = all[:len(all)-1], behind-1
	}
	if behind < 0 {
		all, behind = append(all, bytes.Repeat([]byte("0"), -behind)...), 0
	}
	if len(all) == 0 || len(all) > decimalDigits || behind > decimalDigits {
		return nil, 0, false
	}
	n, ok = new(big.Int).SetString(string(all), 10)
	if ok && negative {
		n.Neg(n)
	}
	return n, uint8(behind), ok
}

// shorten cuts text for a message.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
