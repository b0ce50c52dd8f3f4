package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Ranges is a set of chunk numbers, kept as sorted, disjoint, non-adjacent
// inclusive ranges. In JSON it is a string such as "0-11,14".
type Ranges struct {
	spans []span
}

type span struct{ lo, hi int }

// ParseRanges reads what String gives.
func ParseRanges(s string) (Ranges, error) {
	var r Ranges
	if s == "" {
		return r, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		lo, hi, ranged := strings.Cut(part, "-")
		if !ranged {
			hi = lo
		}
		a, err1 := strconv.ParseUint(lo, 10, 31)
		b, err2 := strconv.ParseUint(hi, 10, 31)
		last := len(r.spans) - 1
		if err1 != nil || err2 != nil || a > b || last >= 0 && int(a) <= r.spans[last].hi+1 {
			return Ranges{}, fmt.Errorf("ranges %q: bad part %q", s, part)
		}
		r.spans = append(r.spans, span{int(a), int(b)})
	}
	return r, nil
}

// String is the canonical text of the set.
func (r Ranges) String() string {
	var b strings.Builder
	for i, s := range r.spans {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(s.lo))
		if s.hi > s.lo {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(s.hi))
		}
	}
	return b.String()
}

// Has reports whether n is in the set.
func (r Ranges) Has(n int) bool {
	_, ok := r.find(n)
	return ok
}

// End is past the largest number of the set, and 0 where there is none.
func (r Ranges) End() int {
	if len(r.spans) == 0 {
		return 0
	}
	return r.spans[len(r.spans)-1].hi + 1
}

// find gives the span that holds n, or the place where one would go.
func (r Ranges) find(n int) (int, bool) {
	return slices.BinarySearchFunc(r.spans, n, func(s span, n int) int {
		switch {
		case s.hi < n:
			return -1
		case s.lo > n:
			return 1
		}
		return 0
	})
}

// Add is the set with n in it; the receiver does not change.
func (r Ranges) Add(n int) Ranges {
	i, ok := r.find(n)
	if ok {
		return r
	}
	spans := slices.Insert(slices.Clone(r.spans), i, span{n, n})
	if i+1 < len(spans) && spans[i+1].lo == n+1 {
		spans[i].hi = spans[i+1].hi
		spans = slices.Delete(spans, i+1, i+2)
	}
	if i > 0 && spans[i-1].hi == n-1 {
		spans[i-1].hi = spans[i].hi
		spans = slices.Delete(spans, i, i+1)
	}
	return Ranges{spans}
}

// maxNumber bounds chunk numbers: ParseRanges reads no larger ones.
const maxNumber = 1<<31 - 1

// holes are the numbers below n that are not in the set.
func (r Ranges) holes(n int) Ranges {
	var out Ranges
	from := 0
	add := func(to int) {
		if to = min(to, maxNumber); from <= to {
			out.spans = append(out.spans, span{from, to})
		}
	}
	for _, s := range r.spans {
		add(min(s.lo, n) - 1)
		from = max(from, s.hi+1)
	}
	add(n - 1)
	return out
}

// union is the set with all of o in it; neither changes.
func (r Ranges) union(o Ranges) Ranges {
	all := slices.Concat(r.spans, o.spans)
	slices.SortFunc(all, func(a, b span) int { return a.lo - b.lo })
	var out []span
	for _, s := range all {
		if last := len(out) - 1; last >= 0 && s.lo <= out[last].hi+1 {
			out[last].hi = max(out[last].hi, s.hi)
		} else {
			out = append(out, s)
		}
	}
	return Ranges{out}
}

// MarshalJSON writes the text form.
func (r Ranges) MarshalJSON() ([]byte, error) { return json.Marshal(r.String()) }

// UnmarshalJSON reads the text form.
func (r *Ranges) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	v, err := ParseRanges(s)
	*r = v
	return err
}
