package block_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"

	"github.com/siltstone-data/siltstone/block"
)

// column is a file of one column, required and of some type, with some values.
func column(t *testing.T, name string, node parquet.Node, values ...parquet.Value) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewWriter(&b, parquet.NewSchema("rows", parquet.Group{name: node}))
	for _, v := range values {
		def := 0
		if node.Optional() && !v.IsNull() {
			def = 1
		}
		if _, err := w.WriteRows([]parquet.Row{{v.Level(0, def, 0)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func half(bits uint16) parquet.Value {
	return parquet.FixedLenByteArrayValue([]byte{byte(bits), byte(bits >> 8)})
}

// What docs/formats.md says of each type (B001, B002, B003, B004).
func TestAParquetValueBecomesExactlyOneJSONText(t *testing.T) {
	text := func(s string) parquet.Value { return parquet.ByteArrayValue([]byte(s)) }
	fixed := parquet.FixedLenByteArrayValue
	// 12345678901234567890123456789012345678 and its negative, as 16 bytes
	big := []byte{0x09, 0x49, 0xb0, 0xf6, 0xf0, 0x02, 0x33, 0x13, 0xc4, 0x49, 0x90, 0x50, 0xde, 0x38, 0xf3, 0x4e}
	negative := bytes.Clone(big)
	for i := range negative {
		negative[i] = ^negative[i]
	}
	negative[15]++
	for name, c := range map[string]struct {
		node   parquet.Node
		values []parquet.Value
		want   []string
	}{
		"boolean": {parquet.Leaf(parquet.BooleanType), []parquet.Value{parquet.BooleanValue(true), parquet.BooleanValue(false)}, []string{"true", "false"}},
		"int32":   {parquet.Leaf(parquet.Int32Type), []parquet.Value{parquet.Int32Value(math.MinInt32), parquet.Int32Value(math.MaxInt32)}, []string{"-2147483648", "2147483647"}},
		"int64": {parquet.Leaf(parquet.Int64Type),
			[]parquet.Value{parquet.Int64Value(math.MinInt64), parquet.Int64Value(9007199254740993), parquet.Int64Value(math.MaxInt64)},
			[]string{"-9223372036854775808", "9007199254740993", "9223372036854775807"}},
		"uint32": {parquet.Uint(32), []parquet.Value{parquet.Int32Value(-1)}, []string{"4294967295"}},
		"uint64": {parquet.Uint(64), []parquet.Value{parquet.Int64Value(-1), parquet.Int64Value(math.MinInt64)}, []string{"18446744073709551615", "9223372036854775808"}},
		"int8":   {parquet.Int(8), []parquet.Value{parquet.Int32Value(-128)}, []string{"-128"}},
		"double": {parquet.Leaf(parquet.DoubleType),
			[]parquet.Value{parquet.DoubleValue(1), parquet.DoubleValue(0.1), parquet.DoubleValue(math.Copysign(0, -1)), parquet.DoubleValue(5e-324), parquet.DoubleValue(math.MaxFloat64), parquet.DoubleValue(1e21), parquet.DoubleValue(9007199254740993)},
			[]string{"1.0", "0.1", "-0.0", "5e-324", "1.7976931348623157e+308", "1e+21", "9007199254740992.0"}},
		"float": {parquet.Leaf(parquet.FloatType), []parquet.Value{parquet.FloatValue(0.1), parquet.FloatValue(16777216)}, []string{"0.1", "16777216.0"}},
		"no number": {parquet.Leaf(parquet.DoubleType),
			[]parquet.Value{parquet.DoubleValue(math.NaN()), parquet.DoubleValue(math.Inf(1)), parquet.DoubleValue(math.Inf(-1))},
			[]string{`"NaN"`, `"Infinity"`, `"-Infinity"`}},
		"no number, or none": {parquet.Optional(parquet.Leaf(parquet.DoubleType)), []parquet.Value{parquet.DoubleValue(math.NaN()), parquet.NullValue()}, []string{`"NaN"`, "null"}},
		"text":               {parquet.String(), []parquet.Value{text("é\"\\\n\x00<&>\u2028"), text("")}, []string{`"é\"\\\n\u0000<&>` + "\u2028" + `"`, `""`}},
		"enum":               {parquet.Enum(), []parquet.Value{text("A")}, []string{`"A"`}},
		"bytes":              {parquet.Leaf(parquet.ByteArrayType), []parquet.Value{text("\xff\x00"), text("")}, []string{`"/wA="`, `""`}},
		"fixed bytes":        {parquet.Leaf(parquet.FixedLenByteArrayType(3)), []parquet.Value{fixed([]byte("abc"))}, []string{`"YWJj"`}},
		"json":               {parquet.JSON(), []parquet.Value{text("{\"a\": 1.50,\n\"b\":[9007199254740993]}"), text("{oops")}, []string{`{"a": 1.50, "b":[9007199254740993]}`, `"{oops"`}},
		"uuid":               {parquet.UUID(), []parquet.Value{fixed([]byte("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10"))}, []string{`"01020304-0506-0708-090a-0b0c0d0e0f10"`}},
		"date":               {parquet.Date(), []parquet.Value{parquet.Int32Value(0), parquet.Int32Value(-1), parquet.Int32Value(2932897)}, []string{`"1970-01-01"`, `"1969-12-31"`, `"+10000-01-01"`}},
		"time":               {parquet.Time(parquet.Microsecond), []parquet.Value{parquet.Int64Value(3723000001)}, []string{`"01:02:03.000001"`}},
		"timestamp, ms":      {parquet.Timestamp(parquet.Millisecond), []parquet.Value{parquet.Int64Value(-1), parquet.Int64Value(1)}, []string{`"1969-12-31T23:59:59.999Z"`, `"1970-01-01T00:00:00.001Z"`}},
		"timestamp, us":      {parquet.Timestamp(parquet.Microsecond), []parquet.Value{parquet.Int64Value(1732924329482113)}, []string{`"2024-11-29T23:52:09.482113Z"`}},
		"timestamp, ns":      {parquet.Timestamp(parquet.Nanosecond), []parquet.Value{parquet.Int64Value(1732924329482113789)}, []string{`"2024-11-29T23:52:09.482113789Z"`}},
		"timestamp, local":   {parquet.TimestampAdjusted(parquet.Microsecond, false), []parquet.Value{parquet.Int64Value(1)}, []string{`"1970-01-01T00:00:00.000001"`}},
		"int96":              {parquet.Leaf(parquet.Int96Type), []parquet.Value{parquet.Int96Value(deprecated.Int96{1, 0, 2440588})}, []string{`"1970-01-01T00:00:00.000000001Z"`}},
		"decimal, int32":     {parquet.Decimal(2, 9, parquet.Int32Type), []parquet.Value{parquet.Int32Value(-5), parquet.Int32Value(12345)}, []string{"-0.05", "123.45"}},
		"decimal, int64":     {parquet.Decimal(0, 18, parquet.Int64Type), []parquet.Value{parquet.Int64Value(999999999999999999)}, []string{"999999999999999999"}},
		"decimal, 38 digits": {parquet.Decimal(10, 38, parquet.FixedLenByteArrayType(16)), []parquet.Value{fixed(big), fixed(negative)},
			[]string{"1234567890123456789012345678.9012345678", "-1234567890123456789012345678.9012345678"}},
		"half float": {parquet.Leaf(parquet.FixedLenByteArrayType(2)), []parquet.Value{half(0x3c00)}, []string{`"ADw="`}},
	} {
		t.Run(name, func(t *testing.T) {
			var want []string
			for _, w := range c.want {
				want = append(want, `{"v":`+w+`}`)
			}
			if diff := cmp.Diff(want, parquetRows(column(t, "v", c.node, c.values...))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestARowHasNoIDWhereTheColumnIsNull(t *testing.T) {
	data := column(t, "id", parquet.Optional(parquet.String()), parquet.ByteArrayValue([]byte("a")), parquet.NullValue())
	if diff := cmp.Diff([]string{`{"id":"a"}`, `{}`}, parquetRows(data)); diff != "" {
		t.Error(diff)
	}
}

// A _created_at is in UTC by its meaning, and a reader that is told no offset
// would not know when the row was made.
func TestACreatedAtIsInUTC(t *testing.T) {
	data := column(t, "_created_at", parquet.TimestampAdjusted(parquet.Microsecond, false), parquet.Int64Value(1732924329482113))
	if diff := cmp.Diff([]string{`{"_created_at":"2024-11-29T23:52:09.482113Z"}`}, parquetRows(data)); diff != "" {
		t.Error(diff)
	}
}

func TestAFileWithoutColumnsHasItsRows(t *testing.T) {
	var b bytes.Buffer
	w := parquet.NewWriter(&b, parquet.NewSchema("rows", parquet.Group{}))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if rows := parquetRows(b.Bytes()); len(rows) > 0 {
		t.Error(rows)
	}
}

func TestARowThatIsNoneIsToldWithItsBytes(t *testing.T) {
	data := column(t, "v", parquet.String(), parquet.ByteArrayValue([]byte("a\xff\"\n")), parquet.ByteArrayValue([]byte("b")))
	p, err := block.OpenParquetFile(bytes.NewReader(data), int64(len(data)))
	if err != nil || p.Rows() != 2 {
		t.Fatal(p, err)
	}
	defer p.Close()
	line, err := p.Next()
	var bad *block.LineError
	if !errors.As(err, &bad) || bad.Line != 1 || string(line) != "{\"v\":\"a\xff\\\"\\u000a\"}" {
		t.Errorf("%q %v", line, err)
	}
	if line, err := p.Next(); err != nil || string(line) != `{"v":"b"}` {
		t.Errorf("%q %v", line, err)
	}
	if _, err := p.Next(); err != io.EOF {
		t.Error(err)
	}
}

// windows is a file that gives only the end and the window that it was told of.
type windows struct {
	data     []byte
	from, to int64
	seen     []string
}

func (w *windows) Window(from, to int64) error {
	w.from, w.to = from, to
	w.seen = append(w.seen, fmt.Sprint(from, "-", to))
	return nil
}

func (w *windows) ReadAt(p []byte, off int64) (int, error) {
	end := off + int64(len(p))
	footer := int64(len(w.data)) - 64<<10
	if off >= 4 && (off < w.from || end > w.to) && off < footer {
		return 0, fmt.Errorf("bytes %d to %d lie in no window", off, end)
	}
	return bytes.NewReader(w.data).ReadAt(p, off)
}

func TestTheReaderIsToldOfEachRowGroup(t *testing.T) {
	type record struct {
		A string `parquet:"a"`
		B int64  `parquet:"b"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[record](&b, parquet.Compression(&parquet.Uncompressed))
	for g := range 3 {
		for i := range 2000 {
			if _, err := w.Write([]record{{strings.Repeat("x", i%200) + fmt.Sprint(g, i), int64(i)}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	in := &windows{data: b.Bytes()}
	n := 0
	for _, err := range block.ParquetLines(in, int64(len(in.data))) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 6000 || len(in.seen) != 3 {
		t.Error(n, in.seen)
	}
}
