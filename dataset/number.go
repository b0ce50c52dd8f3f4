package dataset

import (
	"bytes"
	"strconv"
)

// appendNumber appends the exact decimal value of a JSON number as
// sign, digits without zeros at either end, and exponent of ten ("15e-1" for
// 1.50). Equal values give equal bytes. The exponent is never expanded, and
// may itself have any number of digits.
func appendNumber(dst, lit []byte) []byte {
	negative := lit[0] == '-'
	if negative {
		lit = lit[1:]
	}
	exponent := []byte(nil)
	if i := bytes.IndexAny(lit, "eE"); i >= 0 {
		lit, exponent = lit[:i], lit[i+1:]
	}
	whole, fraction, _ := bytes.Cut(lit, []byte("."))
	shift := int64(0)
	if trimmed := bytes.TrimRight(fraction, "0"); len(trimmed) > 0 {
		fraction = trimmed
		shift = -int64(len(trimmed))
	} else {
		fraction = nil
		trimmed := bytes.TrimRight(whole, "0")
		shift = int64(len(whole) - len(trimmed))
		whole = trimmed
	}
	whole = bytes.TrimLeft(whole, "0")
	if len(whole) == 0 {
		fraction = bytes.TrimLeft(fraction, "0")
	}
	if len(whole)+len(fraction) == 0 {
		return append(dst, '0')
	}
	if negative {
		dst = append(dst, '-')
	}
	dst = append(dst, whole...)
	dst = append(dst, fraction...)
	dst = append(dst, 'e')
	return appendSum(dst, exponent, shift)
}

// appendSum appends exponent + shift in decimal. The exponent is the text of a
// JSON exponent, perhaps empty; its length is only bounded by the line's, so it
// is added digit by digit, not as a number.
func appendSum(dst, exponent []byte, shift int64) []byte {
	negative := false
	if len(exponent) > 0 && (exponent[0] == '-' || exponent[0] == '+') {
		negative = exponent[0] == '-'
		exponent = exponent[1:]
	}
	exponent = bytes.TrimLeft(exponent, "0")
	if len(exponent) <= 17 {
		n, _ := strconv.ParseInt(string(exponent), 10, 64) // empty is 0
		if negative {
			n = -n
		}
		return strconv.AppendInt(dst, n+shift, 10)
	}
	// Now |exponent| >= 1e17 > |shift|: the sign stays.
	if negative {
		dst = append(dst, '-')
		shift = -shift
	}
	from := len(dst)
	dst = append(dst, exponent...)
	carry := shift
	for i := len(dst) - 1; i >= from && carry != 0; i-- {
		carry += int64(dst[i] - '0')
		digit := (carry%10 + 10) % 10
		dst[i] = '0' + byte(digit)
		carry = (carry - digit) / 10
	}
	if carry > 0 {
		tail := string(dst[from:])
		dst = append(strconv.AppendInt(dst[:from], carry, 10), tail...)
	}
	digits := bytes.TrimLeft(dst[from:], "0")
	return append(dst[:from], digits...)
}
