package dataset_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone/dataset"
)

// match runs a filter over one line; sql leaves are null.
func match(t *testing.T, filter, line string) dataset.Truth {
	t.Helper()
	f, err := dataset.ParseFilter([]byte(filter))
	if err != nil {
		t.Fatalf("%s: %v", filter, err)
	}
	row, err := dataset.ParseRow([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	return f.Match(func(c dataset.ColumnRef) []byte {
		v, _ := row.Column(c.String())
		return v
	}, func(int) dataset.Truth { return dataset.Null })
}

func TestAFilterSaysYesNoOrNull(t *testing.T) {
	const yes, no, null = dataset.True, dataset.False, dataset.Null
	for _, c := range []struct {
		filter, line string
		want         dataset.Truth
	}{
		{`{"column":"v","op":"eq","value":1}`, `{"v":1.0}`, yes},
		{`{"column":"v","op":"eq","value":1}`, `{"v":10e-1}`, yes},
		{`{"column":"v","op":"eq","value":0}`, `{"v":-0.0}`, yes},
		{`{"column":"v","op":"eq","value":9007199254740993}`, `{"v":9007199254740992}`, no},
		{`{"column":"v","op":"gt","value":9007199254740992}`, `{"v":9007199254740993}`, yes},
		{`{"column":"v","op":"gt","value":1e308}`, `{"v":1e400}`, yes},
		{`{"column":"v","op":"lt","value":-1e99999999999999999999}`, `{"v":-1e100000000000000000000}`, yes},
		{`{"column":"v","op":"gt","value":1e-99999999999999999999}`, `{"v":1e-100000000000000000000}`, no},
		{`{"column":"v","op":"eq","value":"1"}`, `{"v":1}`, null},
		{`{"column":"v","op":"ne","value":"1"}`, `{"v":1}`, null},
		{`{"column":"v","op":"ne","value":2}`, `{"v":1}`, yes},
		{`{"column":"v","op":"eq","value":2}`, `{}`, null},
		{`{"column":"v","op":"ne","value":2}`, `{"v":null}`, null},
		{`{"not":{"column":"v","op":"eq","value":2}}`, `{}`, null},
		{`{"column":"v","op":"is_null"}`, `{}`, yes},
		{`{"column":"v","op":"is_not_null"}`, `{"v":null}`, no},
		{`{"column":"v","op":"eq","value":"é"}`, `{"v":"\u00e9"}`, yes},
		{`{"column":"v","op":"eq","value":"é"}`, `{"v":"e\u0301"}`, no},
		{`{"column":"v","op":"search","value":"CAFÉ"}`, `{"v":"un cafe\u0301 noir"}`, yes},
		{`{"column":"v","op":"search","value":"a"}`, `{"v":"a\u0328"}`, no},
		{`{"column":"v","op":"search","value":"ﬁ"}`, `{"v":"fi"}`, no},
		{`{"column":"v","op":"search","value":"kelvin"}`, `{"v":"\u212Aelvin"}`, yes},
		{`{"column":"v","op":"contains","value":"50%"}`, `{"v":"500"}`, no},
		{`{"column":"v","op":"contains","value":"case_1"}`, `{"v":"caseX1"}`, no},
		{`{"column":"v","op":"contains","value":"a\"b"}`, `{"v":"xa\"by"}`, yes},
		{`{"column":"v","op":"contains","value":""}`, `{"v":""}`, yes},
		{`{"column":"v","op":"contains","value":"x"}`, `{"v":5}`, null},
		{`{"column":"v","op":"starts_with","value":"ab"}`, `{"v":"\u0061bc"}`, yes},
		{`{"column":"v","op":"in","value":[1,"x"]}`, `{"v":"y"}`, null},
		{`{"column":"v","op":"in","value":["x"]}`, `{"v":"y"}`, no},
		{`{"column":"v","op":"in","value":[]}`, `{"v":"y"}`, no},
		{`{"column":"v","op":"eq","value":[1,{"a":2,"b":3}]}`, `{"v":[1.0,{"b":3,"a":2}]}`, yes},
		{`{"column":"v","is":true}`, `{"v":true}`, yes},
		{`{"column":"v","is":false}`, `{"v":true}`, no},
		{`{"column":"v","is":true}`, `{"v":"true"}`, null},
		{`{"column":"v","op":"eq","value":false}`, `{"v":false}`, yes},
		{`{"column":"v","op":"lt","value":"b"}`, `{"v":"a\u0000"}`, yes},
		{`{"all":[]}`, `{}`, yes},
		{`{"any":[]}`, `{}`, no},
		{`{"all":[{"column":"a","op":"eq","value":1},{"column":"b","op":"eq","value":1}]}`, `{"b":2}`, no},
		{`{"any":[{"column":"a","op":"eq","value":1},{"column":"b","op":"eq","value":1}]}`, `{"b":1}`, yes},
		{`{"any":[{"column":"a","op":"eq","value":1},{"column":"b","op":"eq","value":1}]}`, `{"b":2}`, null},
		{`{"layer":"A","column":"f","op":"eq","value":1}`, `{"A.f":1}`, yes},
	} {
		if got := match(t, c.filter, c.line); got != c.want {
			t.Errorf("%s of %s: %d, want %d", c.filter, c.line, got, c.want)
		}
	}
}

func TestABadFilterIsRefusedWithThePlaceAndTheWayOut(t *testing.T) {
	for filter, want := range map[string]string{
		``:           "no JSON object",
		`[]`:         "no JSON object",
		`{"a":1}`:    `unknown member "a"`,
		`{}`:         "one of",
		`{"all":{}}`: "all: it must be a list",
		`{"all":[{"any":[{"column":"a","op":"eq","value":1},{"column":"a","op":"==","value":1}]}]}`: `all[0].any[1]: column "a", op "=="`,
		`{"all":[],"any":[]}`:                           "stands alone",
		`{"column":"a"}`:                                `"op" or "is" is missing`,
		`{"column":"a","op":"eq"}`:                      `"value" is missing`,
		`{"column":"a","op":"eq","value":null}`:         "is_null",
		`{"column":"a","op":"in","value":[1,"x",null]}`: "is_null",
		`{"column":"a","op":"in","value":1}`:            "must be a list",
		`{"column":"a","op":"lt","value":true}`:         "have an order",
		`{"column":"a","op":"contains","value":1}`:      "takes a string",
		`{"column":"a","is":1}`:                         "is: ",
		`{"column":"a","is":true,"op":"eq"}`:            "takes neither",
		`{"column":7,"op":"eq","value":1}`:              "column: it must be a string",
		`{"layer":"a.b","column":"f","op":"is_null"}`:   "layer: ",
		`{"column":"a","op":"is_null","value":1}`:       "takes no value",
		`{"not":1}`:                   "not: a filter is an object",
		`{"sql":" "}`:                 "sql: it is empty",
		`{"column":"a","column":"b"}`: "twice",
		strings.Repeat(`{"not":`, 100) + `1` + strings.Repeat(`}`, 100): "64 deep",
		"{\"column\":\"a\nb\",\"op\":\"is_null\"}":                      "no JSON object",
	} {
		_, err := dataset.ParseFilter([]byte(filter))
		if !errors.Is(err, dataset.ErrFilter) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", filter, err, want)
		}
	}
}

func TestAnExpressionIsAFilterOrSQL(t *testing.T) {
	f, err := dataset.ParseExpr(" length(text) > 100 ")
	if err != nil || !slices.Equal(f.SQL(), []string{"length(text) > 100"}) {
		t.Errorf("%v %v", f, err)
	}
	f, err = dataset.ParseExpr("\n{\"column\":\"a\",\n\"op\":\"is_null\"}")
	if err != nil || len(f.SQL()) > 0 || len(f.Columns()) != 1 {
		t.Errorf("%v %v", f, err)
	}
	if _, err := dataset.ParseExpr("  "); !errors.Is(err, dataset.ErrFilter) {
		t.Error(err)
	}
}

func TestSQLLeavesAreAskedByTheirNumber(t *testing.T) {
	f := dataset.Any(dataset.All(dataset.SQL("a"), dataset.SQL("b")), dataset.Not(dataset.SQL("c")), dataset.SQL("d"))
	for i, want := range []string{"a", "b", "c", "d"} {
		if f.SQL()[i] != want {
			t.Fatal(f.SQL())
		}
	}
	say := func(truths ...dataset.Truth) dataset.Truth {
		return f.Match(nil, func(i int) dataset.Truth { return truths[i] })
	}
	const y, n, u = dataset.True, dataset.False, dataset.Null
	if say(n, y, y, n) != n || say(y, y, y, n) != y || say(n, n, n, n) != y || say(n, n, y, y) != y || say(u, y, y, n) != u {
		t.Error("a leaf got the answer of another")
	}
}

func TestADottedNameIsAFieldOfALayerThatThereIs(t *testing.T) {
	none := func(string) bool { return false }
	f, _ := dataset.Compare(dataset.ColumnRef{Column: "A.f.g"}, dataset.IsNull, nil)
	got, err := dataset.Not(f).Resolve([]string{"A"}, none)
	if err != nil || got.Columns()[0] != (dataset.ColumnRef{Layer: "A", Column: "f.g"}) {
		t.Errorf("%v %v", got, err)
	}
	got, err = f.Resolve([]string{"B"}, none)
	if err != nil || got.Columns()[0] != (dataset.ColumnRef{Column: "A.f.g"}) {
		t.Errorf("%v %v", got, err)
	}
	if _, err = f.Resolve([]string{"A"}, func(c string) bool { return c == "A.f.g" }); !errors.Is(err, dataset.ErrFilter) || !strings.Contains(err.Error(), `{"layer":"A"`) {
		t.Error(err)
	}
	f, _ = dataset.Compare(dataset.ColumnRef{Layer: "A", Column: "f"}, dataset.IsNull, nil)
	if _, err = f.Resolve(nil, none); !errors.Is(err, dataset.ErrFilter) {
		t.Error(err)
	}
}

// values are of every type, with their neighbours.
func values(r *rand.Rand) []byte {
	switch r.IntN(12) {
	case 0:
		return nil
	case 1:
		return []byte("null")
	case 2:
		return []byte([]string{"true", "false"}[r.IntN(2)])
	case 3:
		return []byte([]string{"[]", "{}", `[1]`, `{"a":1}`, `["\u0000"]`}[r.IntN(5)])
	case 4, 5, 6:
		parts := []string{"", "a", "A", "%", "_", `\u0000`, `\u0001`, "é", "e\u0301", "'", "\U0001F600", `\\`, "ÿ", "z"}
		s := `"`
		for range r.IntN(4) {
			s += parts[r.IntN(len(parts))]
		}
		return []byte(s + `"`)
	}
	digits := []string{"0", "1", "10", "100", "9007199254740992", "9007199254740993", "123456789012345678901234567890", "5", "50"}
	s := []string{"", "-"}[r.IntN(2)] + digits[r.IntN(len(digits))]
	if r.IntN(2) == 0 {
		s += []string{".0", ".5", ".50", ".000001", ".123456789"}[r.IntN(5)]
	}
	if r.IntN(3) == 0 {
		s += []string{"e1", "E-1", "e+2", "e-3", "e400", "e-400", "e99999999999999999999", "e-99999999999999999999", "e0"}[r.IntN(9)]
	}
	return []byte(s)
}

func TestSortKeysOrderAsValuesDo(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	for range 20_000 {
		a, b := values(r), values(r)
		want := dataset.CompareValues(a, b)
		if back := dataset.CompareValues(b, a); back != -want {
			t.Fatalf("seed %d: %s and %s: %d, but %d the other way round", seed, a, b, want, back)
		}
		tail := []byte("tail")
		up, desc := want, -want
		if aNull, bNull := len(a) == 0 || a[0] == 'n', len(b) == 0 || b[0] == 'n'; aNull || bNull {
			desc = want // last both ways
		}
		key := func(v []byte, down bool) []byte { return append(dataset.AppendSortKey(nil, v, down), tail...) }
		if got := bytes.Compare(key(a, false), key(b, false)); got != up {
			t.Fatalf("seed %d: keys of %s and %s: %d, want %d", seed, a, b, got, up)
		}
		if got := bytes.Compare(key(a, true), key(b, true)); got != desc {
			t.Fatalf("seed %d: descending keys of %s and %s: %d, want %d", seed, a, b, got, desc)
		}
	}
}

func TestNumbersCompareAsRationalsDo(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 2))
	for n := 0; n < 20_000; {
		a, b := values(r), values(r)
		x, okX := new(big.Rat).SetString(string(a))
		y, okY := new(big.Rat).SetString(string(b))
		if n++; !okX || !okY {
			continue // no numbers, or an exponent too long for a big.Rat
		}
		if got := dataset.CompareValues(a, b); got != x.Cmp(y) {
			t.Fatalf("seed %d: %s and %s: %d", seed, a, b, got)
		}
	}
}

func FuzzParseFilter(f *testing.F) {
	for _, s := range []string{`{"all":[{"column":"a","op":"in","value":[1,"x"]},{"not":{"sql":"a > 1"}}]}`, `{"any":[]}`,
		`{"layer":"A","column":"b","is":true}`, `{"column":"t","op":"search","value":"\ud800é"}`, `{"column":"<&>","op":"eq","value":{"a":[1]}}`} {
		f.Add([]byte(s), []byte(`{"a":1,"t":"x"}`))
	}
	f.Fuzz(func(t *testing.T, text, line []byte) {
		filter, err := dataset.ParseFilter(text)
		if err != nil {
			if !errors.Is(err, dataset.ErrFilter) {
				t.Fatal(err)
			}
			return
		}
		printed, err := json.Marshal(filter)
		if err != nil {
			t.Fatal(err)
		}
		again, err := dataset.ParseFilter(printed)
		if err != nil {
			t.Fatalf("%s gives %s, and that: %v", text, printed, err)
		}
		row, err := dataset.ParseRow(line)
		if err != nil {
			return
		}
		value := func(c dataset.ColumnRef) []byte { v, _ := row.Column(c.String()); return v }
		null := func(int) dataset.Truth { return dataset.Null }
		got := filter.Match(value, null)
		if got != again.Match(value, null) {
			t.Fatalf("%s and its printed form %s differ over %s", text, printed, line)
		}
		if not := dataset.Not(filter).Match(value, null); not != dataset.True-got {
			t.Fatalf("not(%d) is %d", got, not)
		}
	})
}

// TestBoundsHoldWhateverTheLeavesSay tries all answers that leaves may give.
func TestBoundsHoldWhateverTheLeavesSay(t *testing.T) {
	a, b, c := dataset.SQL("a"), dataset.SQL("b"), dataset.SQL("c")
	null, _ := dataset.Compare(dataset.ColumnRef{Column: "x"}, dataset.Eq, 1)
	open := [][2]dataset.Truth{{dataset.False, dataset.True}, {dataset.True, dataset.True}, {dataset.False, dataset.False}, {dataset.Null, dataset.Null}, {dataset.Null, dataset.True}}
	none := func(dataset.ColumnRef) []byte { return nil }
	for _, f := range []*dataset.Filter{
		a, dataset.Not(a), dataset.All(a, b), dataset.Any(a, b), dataset.All(null, a), dataset.Any(null, dataset.Not(a)),
		dataset.All(dataset.Any(a, dataset.Not(b)), dataset.Not(dataset.All(c, null))), dataset.Any(), dataset.All(),
		dataset.Any(dataset.All(dataset.Not(a), b), dataset.All(c, dataset.Not(null))),
	} {
		for _, x := range open {
			for _, y := range open {
				for _, z := range open {
					ranges := [][2]dataset.Truth{x, y, z}
					lo, hi := f.Bounds(none, func(i int) (dataset.Truth, dataset.Truth) { return ranges[i][0], ranges[i][1] })
					least, most := dataset.True, dataset.False
					for n := range 27 {
						says := []dataset.Truth{dataset.Truth(n % 3), dataset.Truth(n / 3 % 3), dataset.Truth(n / 9)}
						if slices.ContainsFunc([]int{0, 1, 2}, func(i int) bool { return says[i] < ranges[i][0] || says[i] > ranges[i][1] }) {
							continue
						}
						got := f.Match(none, func(i int) dataset.Truth { return says[i] })
						least, most = min(least, got), max(most, got)
					}
					if lo != least || hi != most {
						t.Errorf("%s with %d: %d to %d, want %d to %d", f, ranges, lo, hi, least, most)
					}
				}
			}
		}
	}
}
