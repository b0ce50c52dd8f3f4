package block

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// leafWriter appends a value that is not null as JSON.
type leafWriter func(dst []byte, v parquet.Value) ([]byte, error)

// leafWriterOf chooses by the logical type, else by the physical one.
func leafWriterOf(t parquet.Type, e format.SchemaElement) leafWriter {
	switch l := logicalOf(t, e).(type) {
	case *format.StringType, *format.EnumType:
		return appendString
	case *format.JsonType:
		return appendJSON
	case *format.UUIDType:
		return appendUUID
	case *format.DateType:
		return appendDate
	case *format.TimeType:
		return func(dst []byte, v parquet.Value) ([]byte, error) {
			return appendTime(dst, time.Unix(0, 0).UTC().Add(time.Duration(unitsOf(v))*unitOf(l.Unit)), "15:04:05", l.Unit, ""), nil
		}
	case *format.TimestampType:
		return timestampWriter(l)
	case *format.DecimalType:
		return func(dst []byte, v parquet.Value) ([]byte, error) { return appendDecimal(dst, v, int(l.Scale)) }
	case *format.IntType:
		if !l.IsSigned {
			return appendUnsigned
		}
	case *format.Float16Type:
		return appendFloat16
	}
	if e.ConvertedType.Valid && e.ConvertedType.V == deprecated.Interval {
		return appendInterval
	}
	return appendPhysical
}

func logicalOf(t parquet.Type, e format.SchemaElement) any {
	if e.LogicalType.Value != nil {
		return e.LogicalType.Value
	}
	if lt := t.LogicalType(); lt != nil { // made of an older file's converted type
		return lt.Value
	}
	return nil
}

func appendPhysical(dst []byte, v parquet.Value) ([]byte, error) {
	switch v.Kind() {
	case parquet.Boolean:
		return strconv.AppendBool(dst, v.Boolean()), nil
	case parquet.Int32:
		return strconv.AppendInt(dst, int64(v.Int32()), 10), nil
	case parquet.Int64:
		return strconv.AppendInt(dst, v.Int64(), 10), nil
	case parquet.Int96:
		return appendInt96(dst, v.Int96()), nil
	case parquet.Float:
		return appendFloat(dst, float64(v.Float()), 32), nil
	case parquet.Double:
		return appendFloat(dst, v.Double(), 64), nil
	case parquet.ByteArray, parquet.FixedLenByteArray:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, v.ByteArray())
		return append(dst, '"'), nil
	}
	return dst, fmt.Errorf("a value of kind %v", v.Kind())
}

func appendUnsigned(dst []byte, v parquet.Value) ([]byte, error) {
	if v.Kind() == parquet.Int32 {
		return strconv.AppendUint(dst, uint64(v.Uint32()), 10), nil
	}
	return strconv.AppendUint(dst, v.Uint64(), 10), nil
}

var errText = errors.New("a text that is not valid UTF-8")

func appendString(dst []byte, v parquet.Value) ([]byte, error) {
	out, err := jsontext.AppendQuote(dst, v.ByteArray())
	if err != nil {
		return dst, errText
	}
	return out, nil
}

// appendJSON embeds a JSON column's text; what is no JSON stays a string.
func appendJSON(dst []byte, v parquet.Value) ([]byte, error) {
	text := v.ByteArray()
	if !jsontext.Value(text).IsValid(jsontext.AllowInvalidUTF8(true)) {
		return appendString(dst, v)
	}
	from := len(dst)
	dst = append(dst, text...)
	for i := from; i < len(dst); i++ {
		if dst[i] == '\n' || dst[i] == '\r' { // white space: in strings they are escaped
			dst[i] = ' '
		}
	}
	return dst, nil
}

func appendUUID(dst []byte, v parquet.Value) ([]byte, error) {
	u, err := uuid.FromBytes(v.ByteArray())
	if err != nil {
		return dst, fmt.Errorf("a UUID of %d bytes", len(v.ByteArray()))
	}
	return append(append(append(dst, '"'), u.String()...), '"'), nil
}

// appendFloat writes the shortest text that reads back as the same number, and
// always one that looks like a fraction: 1 is written 1.0.
func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	if size := math.Abs(f); size != 0 && (size < 1e-6 || size >= 1e21) {
		return strconv.AppendFloat(dst, f, 'e', -1, bits)
	}
	from := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, bits)
	for _, c := range dst[from:] {
		if c == '.' {
			return dst
		}
	}
	return append(dst, ".0"...)
}

func appendFloat16(dst []byte, v parquet.Value) ([]byte, error) {
	b := v.ByteArray()
	if len(b) != 2 {
		return dst, fmt.Errorf("a half float of %d bytes", len(b))
	}
	bits := binary.LittleEndian.Uint16(b)
	exponent, fraction := int(bits>>10&0x1F), float64(bits&0x3FF)
	var f float64
	switch exponent {
	case 0x1F:
		f = math.Inf(1)
		if fraction != 0 {
			f = math.NaN()
		}
	case 0:
		f = math.Ldexp(fraction, -24)
	default:
		f = math.Ldexp(1024+fraction, exponent-25)
	}
	if bits&0x8000 != 0 {
		f = math.Copysign(f, -1)
	}
	return appendFloat(dst, f, 32), nil
}

// maxDecimalBytes is far past the 38 digits that any engine writes.
const maxDecimalBytes = 1 << 10

func appendDecimal(dst []byte, v parquet.Value, scale int) ([]byte, error) {
	var n big.Int
	switch v.Kind() {
	case parquet.Int32:
		n.SetInt64(int64(v.Int32()))
	case parquet.Int64:
		n.SetInt64(v.Int64())
	default: // two's complement, big end first
		b := v.ByteArray()
		if len(b) > maxDecimalBytes {
			return dst, fmt.Errorf("a decimal of %d bytes", len(b))
		}
		n.SetBytes(b)
		if len(b) > 0 && b[0]&0x80 != 0 {
			n.Sub(&n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
	}
	if scale < 0 || scale > 4*maxDecimalBytes {
		return dst, fmt.Errorf("a decimal of scale %d", scale)
	}
	if n.Sign() < 0 {
		dst = append(dst, '-')
	}
	digits := n.Abs(&n).String()
	for len(digits) <= scale {
		digits = "0" + digits
	}
	dst = append(dst, digits[:len(digits)-scale]...)
	if scale > 0 {
		dst = append(append(dst, '.'), digits[len(digits)-scale:]...)
	}
	return dst, nil
}

func appendInterval(dst []byte, v parquet.Value) ([]byte, error) {
	b := v.ByteArray()
	if len(b) != 12 {
		return dst, fmt.Errorf("an interval of %s", hex.EncodeToString(b))
	}
	return fmt.Appendf(dst, `{"months":%d,"days":%d,"millis":%d}`, binary.LittleEndian.Uint32(b),
		binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])), nil
}

// appendAsIs writes a value that has no JSON text: the bytes of a text in quotes
// although they are no UTF-8, and those of anything else as base64.
func appendAsIs(dst []byte, v parquet.Value, why error) []byte {
	b := v.ByteArray()
	dst = append(dst, '"')
	if why != errText {
		return append(base64.StdEncoding.AppendEncode(dst, b), '"')
	}
	for _, c := range b {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = fmt.Appendf(dst, `\u%04x`, c)
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
