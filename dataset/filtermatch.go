package dataset

import "bytes"

// Truth is what a filter says of a row, in the logic of three values: null is
// neither true nor false, and not(null) is null.
type Truth int8

// The values, in the order of "and", which gives the least of its parts.
const (
	False Truth = iota
	Null
	True
)

func truth(b bool) Truth {
	if b {
		return True
	}
	return False
}

// Match says whether a row passes. value gives the raw JSON value of a column,
// and nil where the row has none; sql gives what the i-th of the sql leaves (see
// SQL) says of the row. A row passes a filter that is True of it.
//
// Values of different JSON types do not compare: that is null. Numbers compare
// by exact value, strings bytewise as they are without escapes.
func (f *Filter) Match(value func(ColumnRef) []byte, sql func(leaf int) Truth) Truth {
	return f.match(value, sql, 0)
}

// match is Match of a part, the first sql leaf of which is number leaf.
func (f *Filter) match(value func(ColumnRef) []byte, sql func(int) Truth, leaf int) Truth {
	switch f.kind {
	case kindColumn:
		return f.holds(value(f.column))
	case kindSQL:
		return sql(leaf)
	case kindNot:
		return True - f.parts[0].match(value, sql, leaf)
	}
	end, t := False, True
	if f.kind == kindAny {
		end, t = True, False
	}
	for _, p := range f.parts {
		switch got := p.match(value, sql, leaf); got {
		case end:
			return end
		case Null:
			t = Null
		}
		leaf += p.leaves
	}
	return t
}

// Bounds is Match where the answers of sql leaves are not all known: sql gives the
// least and the most that the leaf may say, and the filter says something from lo
// to hi. A leaf that cannot change that is not asked for.
func (f *Filter) Bounds(value func(ColumnRef) []byte, sql func(leaf int) (lo, hi Truth)) (lo, hi Truth) {
	return f.bounds(value, sql, 0)
}

func (f *Filter) bounds(value func(ColumnRef) []byte, sql func(int) (Truth, Truth), leaf int) (lo, hi Truth) {
	switch f.kind {
	case kindColumn:
		t := f.holds(value(f.column))
		return t, t
	case kindSQL:
		return sql(leaf)
	case kindNot:
		lo, hi = f.parts[0].bounds(value, sql, leaf)
		return True - hi, True - lo
	case kindAny:
		for _, p := range f.parts {
			if lo == True {
				break
			}
			l, h := p.bounds(value, sql, leaf)
			lo, hi = max(lo, l), max(hi, h)
			leaf += p.leaves
		}
		return lo, hi
	}
	lo, hi = True, True
	for _, p := range f.parts {
		if hi == False {
			break
		}
		l, h := p.bounds(value, sql, leaf)
		lo, hi = min(lo, l), min(hi, h)
		leaf += p.leaves
	}
	return lo, hi
}

// holds is what a condition says of a value.
func (f *Filter) holds(raw []byte) Truth {
	c := classOf(raw)
	switch f.op {
	case IsNull:
		return truth(c == classNull)
	case IsNotNull:
		return truth(c != classNull)
	}
	if c == classNull {
		return Null
	}
	if f.op == In {
		t := False
		for i := range f.want {
			switch f.want[i].equal(c, raw) {
			case True:
				return True
			case Null:
				t = Null
			}
		}
		return t
	}
	want := &f.want[0]
	if c != want.class {
		return Null
	}
	switch f.op {
	case Eq, is:
		return want.equal(c, raw)
	case Ne:
		return True - want.equal(c, raw)
	case Contains:
		return truth(bytes.Contains(unescape(raw), want.text))
	case StartsWith:
		return truth(bytes.HasPrefix(unescape(raw), want.text))
	case Search:
		return truth(contains(unescape(raw), want.text))
	}
	order := want.order(raw)
	switch f.op {
	case Lt:
		return truth(order < 0)
	case Lte:
		return truth(order <= 0)
	case Gt:
		return truth(order > 0)
	}
	return truth(order >= 0)
}
