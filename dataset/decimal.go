package dataset

import (
	"bytes"
	"cmp"
	"strconv"
)

// decimal is the exact value of a JSON number: 0.DIGITS times ten to the power,
// with digits that neither begin nor end with zero. Its power is decimal text,
// as a literal may have an exponent of any length.
type decimal struct {
	sign   int8 // -1, 0, 1
	digits []byte
	power  []byte
	near   int64 // power, where it fits; see small
	small  bool
}

// newDecimal reads a valid number. What it gives lies in dst's room.
func newDecimal(dst, lit []byte) decimal {
	form := appendNumber(dst, lit)
	if form[0] == '0' {
		return decimal{small: true}
	}
	d := decimal{sign: 1}
	if form[0] == '-' {
		d.sign, form = -1, form[1:]
	}
	e := bytes.IndexByte(form, 'e')
	d.digits = form[:e:e]
	exponent := form[e+1:]
	if len(exponent) <= 17 {
		n, _ := strconv.ParseInt(string(exponent), 10, 64)
		d.near, d.small = n+int64(len(d.digits)), true
		return d
	}
	d.power = appendSum(nil, exponent, int64(len(d.digits)))
	return d
}

// compare orders by value.
func (d *decimal) compare(e *decimal) int {
	if d.sign != e.sign || d.sign == 0 {
		return cmp.Compare(d.sign, e.sign)
	}
	order := comparePowers(d, e)
	if order == 0 {
		order = bytes.Compare(d.digits, e.digits)
	}
	return order * int(d.sign)
}

func comparePowers(d, e *decimal) int {
	if d.small && e.small {
		return cmp.Compare(d.near, e.near)
	}
	a, b := d.powerText(), e.powerText()
	negA, negB := a[0] == '-', b[0] == '-'
	switch {
	case negA && !negB:
		return -1
	case negB && !negA:
		return 1
	case negA:
		a, b = b[1:], a[1:]
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), bytes.Compare(a, b))
}

func (d *decimal) powerText() []byte {
	if d.small {
		return strconv.AppendInt(nil, d.near, 10)
	}
	return d.power
}
