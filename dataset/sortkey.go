package dataset

import (
	"bytes"
	"encoding/binary"
)

// AppendSortKey appends a key for a column's value: two keys compare bytewise
// as CompareValues compares the values, or the other way round where desc is
// set, but for null and missing values, which come last both ways. No key is
// the beginning of another one's, so keys of several columns can follow each
// other.
func AppendSortKey(dst, raw []byte, desc bool) []byte {
	c := classOf(raw)
	if c == classNull {
		return append(dst, 0xFF)
	}
	from := len(dst)
	dst = append(dst, byte(c)+1)
	switch c {
	case classNumber:
		dst = appendNumberKey(dst, raw)
	case classString:
		dst = appendBytesKey(dst, unescape(raw))
	case classBool:
		dst = append(dst, raw[0])
	case classOther:
		form, _ := Canonical(nil, raw)
		dst = appendBytesKey(dst, form)
	}
	if desc {
		flip(dst[from:])
	}
	return dst
}

// appendNumberKey appends sign, power of ten and digits, each so that bytes
// order as values do.
func appendNumberKey(dst, raw []byte) []byte {
	var room [64]byte
	d := newDecimal(room[:0], raw)
	if d.sign == 0 {
		return append(dst, 1)
	}
	dst = append(dst, byte(d.sign+1))
	from := len(dst)
	dst = appendPowerKey(dst, &d)
	dst = append(dst, d.digits...)
	dst = append(dst, 0) // below any digit: what ends is less
	if d.sign < 0 {
		flip(dst[from:])
	}
	return dst
}

// appendPowerKey appends an integer of any length: its sign and the number of
// its digits, then the digits.
func appendPowerKey(dst []byte, d *decimal) []byte {
	text := d.powerText()
	negative := text[0] == '-'
	if negative {
		text = text[1:]
	}
	sign := byte(1)
	if negative {
		sign = 0
	}
	dst = append(dst, sign)
	from := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(text))) // a line has less than 4 GiB
	dst = append(dst, text...)
	if negative {
		flip(dst[from:])
	}
	return dst
}

// appendBytesKey appends text and an end that is below any byte: 0 is written
// as 0 1, the end as 0 0.
func appendBytesKey(dst, text []byte) []byte {
	for {
		i := bytes.IndexByte(text, 0)
		if i < 0 {
			return append(append(dst, text...), 0, 0)
		}
		dst = append(append(dst, text[:i]...), 0, 1)
		text = text[i+1:]
	}
}

func flip(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}
