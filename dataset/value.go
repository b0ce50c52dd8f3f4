package dataset

import (
	"bytes"
	"cmp"
	"fmt"
)

// class is the type of a JSON value, in the order in which values sort.
type class uint8

const (
	classNumber class = iota
	classString
	classBool
	classOther // objects and arrays
	classNull  // and what is missing
)

// classOf tells a valid value's type by its first byte.
func classOf(raw []byte) class {
	if len(raw) == 0 {
		return classNull
	}
	switch raw[0] {
	case '"':
		return classString
	case 't', 'f':
		return classBool
	case 'n':
		return classNull
	case '{', '[':
		return classOther
	}
	return classNumber
}

// operand is the value of a condition, ready to be compared with.
type operand struct {
	class  class
	number decimal
	text   []byte // of a string without escapes; else the canonical form
}

func newOperand(raw []byte) (operand, error) {
	o := operand{class: classOf(raw)}
	switch o.class {
	case classString:
		o.text = bytes.Clone(unescape(raw))
		return o, nil
	case classNumber:
		o.number = newDecimal(nil, raw)
	}
	var err error
	if o.text, err = Canonical(nil, raw); err != nil {
		return o, fmt.Errorf("the value is no JSON: %w", err)
	}
	return o, nil
}

// equal compares with a value of class c; values of two types do not compare.
func (o *operand) equal(c class, raw []byte) Truth {
	if c != o.class {
		return Null
	}
	switch c {
	case classString:
		return truth(bytes.Equal(unescape(raw), o.text))
	case classBool:
		return truth((raw[0] == 't') == (o.text[0] == tagTrue))
	case classNumber:
		return truth(o.order(raw) == 0)
	}
	form, err := Canonical(nil, raw)
	return truth(err == nil && bytes.Equal(form, o.text))
}

// order compares a number or string with the operand, which is of its class.
func (o *operand) order(raw []byte) int {
	if o.class == classString {
		return bytes.Compare(unescape(raw), o.text)
	}
	var small [64]byte
	d := newDecimal(small[:0], raw)
	return d.compare(&o.number)
}

// CompareValues is the order of values in a sorted view: numbers by exact value
// before strings, bytewise, before false, true, before objects and arrays by
// their canonical form. Null, and nil for what is missing, comes last; a
// descending view leaves it there.
func CompareValues(a, b []byte) int {
	ca, cb := classOf(a), classOf(b)
	if ca != cb {
		return cmp.Compare(ca, cb)
	}
	switch ca {
	case classNull:
		return 0
	case classString:
		return bytes.Compare(unescape(a), unescape(b))
	case classBool:
		return cmp.Compare(a[0], b[0]) // 'f' < 't'
	case classNumber:
		var sa, sb [64]byte
		da, db := newDecimal(sa[:0], a), newDecimal(sb[:0], b)
		return da.compare(&db)
	}
	fa, _ := Canonical(nil, a)
	fb, _ := Canonical(nil, b)
	return bytes.Compare(fa, fb)
}
