package dataset_test

import (
	"bytes"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone/dataset"
)

func canonical(t *testing.T, value string) string {
	t.Helper()
	c, err := dataset.Canonical([]byte("before"), []byte(value))
	if err != nil {
		t.Fatalf("%s: %v", value, err)
	}
	rest, ok := bytes.CutPrefix(c, []byte("before"))
	if !ok {
		t.Fatalf("%s: what was there before is gone", value)
	}
	return string(rest)
}

// classes are values that are equal within a class and differ between classes.
var classes = [][]string{
	{"null", " null "},
	{"true"}, {"false"},
	{"0", "-0", "0.0", "0e5", "-0.000e-7", "0e999999999999999999999"},
	{"1", "1.0", "10e-1", "0.1e1", "1e0", "1E+0", "100e-2", "1.000", "0.0001e4"},
	{"-1", "-1.0", "-10e-1"},
	{"10", "1e1", "1.0e1", "100e-1"},
	{"9007199254740992"}, {"9007199254740993", "9007199254740993.0", "9.007199254740993e15"},
	{"18446744073709551616"},
	{"0.1", "1e-1", "0.10"}, {"0.1000000000000000055511151231257827"},
	{"1e400", "10e399", "0.1e401"}, {"1e-400"}, {"1e401"},
	{"1e999999999999", "10e999999999998"},
	{"1e99999999999999999999", "0.1e100000000000000000000", "10e99999999999999999998", "1e+099999999999999999999"},
	{"1e-99999999999999999999", "10e-100000000000000000000", "0.01e-99999999999999999997"},
	{"1e100000000000000000", "10e99999999999999999", "0.1e100000000000000001"},
	{`""`}, {`"1"`}, {`"null"`}, {`"n"`}, {`"A"`, `"\u0041"`}, {`"a"`},
	{`"/"`, `"\/"`, `"\u002f"`, `"\u002F"`},
	{`"🙂"`, `"\ud83d\ude42"`, `"\uD83D\uDE42"`},
	{`"\ud83d"`, `"\uD83D"`}, {`"\ude42"`}, {`"\ude42\ud83d"`}, {`"\ufffd"`, `"` + "\ufffd" + `"`},
	{`"é"`, `"\u00e9"`}, {`"e\u0301"`}, // no normal forms: code points
	{`"\u0000"`}, {`"a\u0000b"`},
	{"[]", "[ ]"}, {"[null]"}, {"[[]]"}, {"[1,2]", "[1.0, 2e0]"}, {"[2,1]"}, {"[[1],2]"}, {"[[1,2]]"}, {`["1",2]`},
	{`["a","b"]`}, {`["ab"]`}, {`["a\",\"b"]`},
	{"{}", "{ }"}, {`{"a":null}`}, {`{"a":1,"b":2}`, `{ "b":2.0, "\u0061":1 }`}, {`{"a":2,"b":1}`}, {`{"A":1,"b":2}`},
	{`{"a":{"b":1}}`}, {`{"a":{},"b":1}`, `{"b":1,"a":{}}`}, {`[{"a":1},{"b":2}]`}, {`[{"a":1,"b":2}]`},
	{`{"a":[{"y":1,"x":[3,{"q":1,"p":2}]}]}`, `{"a":[{"x":[3,{"p":2,"q":1}],"y":1}]}`},
	{`{"\ud800":1,"\ud801":2}`, `{"\ud801":2,"\ud800":1}`},
	{`{"":1}`}, {`{"":{"":1}}`},
}

func TestEqualValuesHaveOneFormAndOthersAnother(t *testing.T) {
	of := map[string]int{}
	for i, class := range classes {
		for _, v := range class {
			form := canonical(t, v)
			if j, ok := of[form]; ok && j != i {
				t.Errorf("%s has the form of %s", v, classes[j][0])
			} else if !ok && v != class[0] {
				t.Errorf("%s has not the form of %s", v, class[0])
			}
			of[form] = i
		}
	}
}

func TestListsOfValuesNeverHaveOneForm(t *testing.T) {
	// Forms say where they end: none is the start of another.
	var forms []string
	for _, class := range classes {
		forms = append(forms, canonical(t, class[0]))
	}
	for i, a := range forms {
		for j, b := range forms {
			if i != j && strings.HasPrefix(b, a) {
				t.Errorf("the form of %s starts with that of %s", classes[j][0], classes[i][0])
			}
		}
	}
}

func TestNumbersAgreeWithExactArithmetic(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	g := generator{rng}
	of := map[string]string{}
	for range 20_000 {
		lit := g.number()
		r, ok := new(big.Rat).SetString(lit)
		if !ok {
			t.Fatalf("%s is no number", lit)
		}
		form := canonical(t, lit)
		if before, ok := of[r.String()]; ok && before != form {
			t.Fatalf("%s: form %q, equal values had %q", lit, form, before)
		}
		of[r.String()] = form
	}
	seen := map[string]string{}
	for value, form := range of {
		if other, ok := seen[form]; ok {
			t.Fatalf("%s and %s have one form", value, other)
		}
		seen[form] = value
	}
}

func TestAHugeExponentCostsNothing(t *testing.T) {
	for _, lit := range []string{
		"1e" + strings.Repeat("9", 1<<20),
		"1e-1" + strings.Repeat("0", 1<<20),
		"0." + strings.Repeat("0", 1<<20) + "1e" + strings.Repeat("9", 1<<20),
	} {
		if form := canonical(t, lit); len(form) > len(lit)+20 {
			t.Errorf("%d bytes became %d", len(lit), len(form))
		}
	}
}

func TestCanonicalRefusesWhatIsNoValue(t *testing.T) {
	for _, v := range []string{
		"", " ", "nul", "01", "1 2", "[1", "{", `{"a":1,"a":2}`, `{"b":{"a":1,"a":2},"c":1}`, `"` + "\xff" + `"`, "NaN", "[1]]",
		strings.Repeat("[", 513) + strings.Repeat("]", 513), strings.Repeat("[", 100_000), "]", "}", `[1}`, `{"a"}`, `{1:2}`,
	} {
		if c, err := dataset.Canonical(nil, []byte(v)); err == nil || len(c) > 0 {
			t.Errorf("%q has the form %q (%v)", v, c, err)
		}
	}
}

func TestShufflingAndRewritingARowChangesNoForm(t *testing.T) {
	for seed := range uint64(500) {
		row := string(randomRow(rand.New(rand.NewPCG(seed, 7))))
		form := canonical(t, row)
		rewritten := rewrite(t, row, rand.New(rand.NewPCG(seed, 8)))
		if canonical(t, rewritten) != form {
			t.Fatalf("%s\n%s", row, rewritten)
		}
	}
}

// rewrite shuffles the members of a row and writes their names in escapes.
func rewrite(t *testing.T, row string, rng *rand.Rand) string {
	t.Helper()
	r, err := dataset.ParseRow([]byte(row))
	if err != nil {
		t.Fatal(err)
	}
	var members []string
	for name, v := range r.Fields() {
		quoted := ""
		for _, c := range []byte(name) { // WTF-8 has bytes that JSON has not
			if c >= 0x80 || c < ' ' || c == '"' || c == '\\' {
				quoted = ""
				break
			}
			quoted += `\u00` + string("0123456789abcdef"[c>>4]) + string("0123456789ABCDEF"[c&15])
		}
		if quoted == "" && name != "" {
			return row // this name has no simple other spelling
		}
		members = append(members, `"`+quoted+`" : `+string(v))
	}
	rng.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return "{" + strings.Join(members, " , ") + "}"
}
