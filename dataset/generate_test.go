package dataset_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// randomRow writes a legal row in an odd style: any order, white space,
// escapes, number literals.
func randomRow(rng *rand.Rand) []byte {
	g := generator{rng}
	names := []string{`"a"`, `"b"`, `"\u0063"`, `"日本"`, `""`, `" "`, `"x.y"`, `"\ud83d"`, `"\u0000"`, `"q\"q"`}
	var members []string
	for _, n := range names {
		if rng.IntN(3) == 0 {
			members = append(members, g.space()+n+g.space()+":"+g.space()+g.value(3)+g.space())
		}
	}
	if rng.IntN(2) == 0 {
		members = append(members, g.space()+`"id"`+g.space()+`: "i`+fmt.Sprint(rng.IntN(1000))+`"`+g.space())
	}
	if rng.IntN(2) == 0 {
		members = append(members, `"_created_at":`+g.pick("null", "1716076800", `"2024-05-19T00:00:00Z"`)+g.space())
	}
	rng.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return []byte("{" + strings.Join(members, ",") + "}")
}

type generator struct{ *rand.Rand }

func (g generator) pick(s ...string) string { return s[g.IntN(len(s))] }
func (g generator) space() string           { return g.pick("", "", "", " ", "\t", "  ") }

func (g generator) value(depth int) string {
	n := 6
	if depth == 0 {
		n = 4
	}
	switch g.IntN(n) {
	case 0:
		return g.pick("null", "true", "false")
	case 1:
		return g.number()
	case 2, 3:
		return g.text()
	case 4:
		var parts []string
		for range g.IntN(4) {
			parts = append(parts, g.space()+g.value(depth-1)+g.space())
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	var parts []string
	for i := range g.IntN(4) {
		parts = append(parts, g.space()+`"k`+fmt.Sprint(i)+`"`+g.space()+":"+g.value(depth-1))
	}
	g.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return "{" + strings.Join(parts, ",") + "}"
}

func (g generator) text() string {
	s := `"`
	for range g.IntN(5) {
		s += g.pick("a", "<&>", "é", "日", "🙂", `\u0041`, `\n`, `\"`, `\\`, `\/`, `\ud83d\ude42`, `\ud83d`, `\ude42`, `\u0000`)
	}
	return s + `"`
}

// number writes a number from a small set of values in one of many ways.
func (g generator) number() string {
	s := g.pick("", "-") + g.pick("0", "1", "10", "100", "12", "120", "9007199254740993")
	s += g.pick("", ".0", ".5", ".50", ".05", ".000")
	return s + g.pick("", "e0", "E+1", "e-1", "e02", "e-003")
}
