package query_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query"
)

func TestAnExpressionAsksRowsAndLayersAlike(t *testing.T) {
	b := layered(t)
	for f, want := range map[string][]string{
		`n > 2`:                              {`x {"id":"c","n":3}`, `y {"id":"c","n":30}`},
		`A.ok`:                               {`x {"id":"a","n":1}`},
		`"A.ok" = false and n = 30`:          {`y {"id":"c","n":30}`},
		`_batch = 'y' and id < 'd'`:          {`y {"id":"b","n":2}`, `y {"id":"c","n":30}`},
		`A._metadata->>'$.cost_usd' = '0.5'`: {`x {"id":"a","n":1}`, `y {"id":"c","n":30}`},
		`A.n = n * 10`:                       {`x {"id":"a","n":1}`},
		`n is null`:                          {`y {"id":"d"}`, `x {"id":"e"}`},
		`nope = 1`:                           nil,
		`{"not":{"sql":"n = 1"}}`:            {`y {"id":"b","n":2}`, `x {"id":"c","n":3}`, `y {"id":"c","n":30}`},
		`{"any":[{"sql":"n = 1"},{"sql":"n=2"}]}`:                                                         {`x {"id":"a","n":1}`, `y {"id":"b","n":2}`},
		`{"all":[{"sql":"n < 20"},{"column":"A.ok","op":"is_null"},{"sql":"n is not null"}]}`:             {`y {"id":"b","n":2}`, `x {"id":"c","n":3}`},
		`{"all":[{"layer":"A","column":"ok","is":true},{"any":[{"sql":"nope = 1"},{"sql":"A.n = 10"}]}]}`: {`x {"id":"a","n":1}`},
	} {
		var unknown []string
		got := b.read(query.Options{Where: expression(t, f), Unknown: func(c []string) { unknown = c }})
		if !slices.Equal(got, want) {
			t.Errorf("%s gives %q, want %q", f, got, want)
		}
		if slices.Contains(unknown, "nope") != strings.Contains(f, "nope") {
			t.Errorf("%s: unknown are %q", f, unknown)
		}
	}
	same(t, b.read(query.Options{Where: expression(t, `n > 0`), Annotators: []string{"A"}, Limit: 2}),
		`x {"id":"a","n":1,"A.ok":true,"A.n":10}`, `y {"id":"b","n":2}`)
	same(t, b.read(query.Options{Where: expression(t, `A.ok`), Live: true}), `x {"id":"a","n":1}`, `y {"id":"f","n":6}`)
	same(t, b.read(query.Options{Where: expression(t, `n > 1`), Sort: []query.SortBy{{Column: "n", Desc: true}}}),
		`y {"id":"c","n":30}`, `x {"id":"c","n":3}`, `y {"id":"b","n":2}`)
	same(t, b.read(query.Options{Where: expression(t, `n is not null`), Missing: "A"}), `y {"id":"b","n":2}`, `x {"id":"c","n":3}`)
}

func expression(t testing.TB, text string) *dataset.Filter {
	t.Helper()
	f, err := dataset.ParseExpr(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAFieldAndAColumnOfOneNameAreAnErrorInAnExpressionToo(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("a", `"A.ok":1`))
	b.notes("A", "x", 0, true, note("x", "a", `{"ok":true}`))
	for _, text := range []string{`A.ok`, `"A.ok" = true`} {
		if _, err := read(t.Context(), b.store, query.Options{Where: expression(t, text)}); !errors.Is(err, query.ErrAmbiguous) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestAColumnMayChangeItsTypeBetweenBatches holds that what is said of a row
// depends on that row alone.
func TestAColumnMayChangeItsTypeBetweenBatches(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("a", `"v":7`), line("b", `"v":"7"`), line("c", `"v":null`), line("d", `"v":7.0`), line("e", `"v":"007"`))
	b.merged("y", line("f", `"v":"x"`), line("g"), line("h", `"v":[7]`))
	b.chunk("y", 9, line("i", `"v":7e0`), line("j", `"v":9223372036854775808`), line("k", `"v":true`))
	ids := func(text string) string {
		var out []string
		for _, r := range b.read(query.Options{Where: expression(t, text), Live: true, Columns: []string{}}) {
			out = append(out, r[len(`x {"id":"`):len(`x {"id":"`)+1])
		}
		return strings.Join(out, "")
	}
	for text, want := range map[string]string{
		`TRY_CAST(v AS DOUBLE) = 7`: "abdei",
		`v IS NULL`:                 "cg",
		`v::VARCHAR = '7'`:          "ab",
		`typeof(v) = 'BIGINT'`:      "a",
		`typeof(v) = 'HUGEINT'`:     "j",
		`{"all":[{"column":"v","op":"gt","value":0},{"sql":"v > 6.5"}]}`: "adij",
	} {
		if got := ids(text); got != want {
			t.Errorf("%s gives %s, want %s", text, got, want)
		}
	}
	_, err := read(t.Context(), b.store, query.Options{Where: expression(t, `v > 6.5`)})
	for _, want := range []string{`row "b" of batch x`, "v is VARCHAR", "TRY_CAST"} {
		if !errors.Is(err, dataset.ErrFilter) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestABadExpressionIsRefusedBeforeAnyRow(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("a"))
	for _, text := range []string{"lenght(id) > 1", "(SELECT 1) = 1", "id = ", "read_text('/etc/passwd') = ''"} {
		rows, err := read(t.Context(), b.store, query.Options{Where: expression(t, text)})
		if !errors.Is(err, dataset.ErrFilter) || rows != nil {
			t.Errorf("%s: %q %v", text, rows, err)
		}
	}
	if _, err := b.engine(false).Page(t.Context(), query.PageRequest{Dataset: "d", Where: expression(t, "true")}); !errors.Is(err, dataset.ErrFilter) {
		t.Errorf("a page takes an expression: %v", err)
	}
}

// TestAnExpressionThatDoesNotEndIsCancelled cancels a read in the middle of one.
func TestAnExpressionThatDoesNotEndIsCancelled(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("a", `"t":"`+strings.Repeat("abcdefghij", 3000)+`"`))
	sql, err := query.NewSQL(query.SQLConfig{Connections: 1, Wait: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err = read(ctx, b.store, query.Options{Where: expression(t, "levenshtein(t, reverse(t)) > 1"), SQL: sql})
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 2*time.Second {
		t.Errorf("%v after %s", err, time.Since(start))
	}
	if _, err := read(t.Context(), b.store, query.Options{Where: expression(t, "t = ''"), SQL: sql}); !errors.Is(err, query.ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	same(t, b.read(query.Options{Where: expression(t, "length(t) < 10")}))
}

// TestFiltersAgreeWithTheEvaluator is the oracle: random filters, written in part
// as expressions, over random rows, merged, live and in parquet, against the
// evaluator alone over the same rows.
func TestFiltersAgreeWithTheEvaluator(t *testing.T) {
	filters := 30000
	if testing.Short() {
		filters = 3000
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0))}
	var rows []string
	for i := range 96 {
		rows = append(rows, g.row(i))
	}
	b := newBucket(t)
	b.cut = 16 // with an even one every other block is parquet
	b.merged("x", rows[:40]...)
	b.merged("y", rows[40:72]...)
	b.chunk("y", 7, rows[72:]...)
	parsed := make([]dataset.Row, len(rows))
	for i, r := range rows {
		var err error
		if parsed[i], err = dataset.ParseRow([]byte(r)); err != nil {
			t.Fatalf("%s: %v", r, err)
		}
	}
	for n := range filters {
		g.sql = n%8 == 0
		plain, mixed := g.filter(3)
		f, h := filter(t, plain), filter(t, mixed)
		var want, got []string
		for i, r := range parsed {
			truth := f.Match(func(c dataset.ColumnRef) []byte {
				if c.Column == dataset.BatchColumn {
					return []byte(`"` + batchOf(i) + `"`)
				}
				v, _ := r.Column(c.Column)
				return v
			}, nil)
			if truth == dataset.True {
				want = append(want, r.ID)
			}
		}
		for row, err := range query.Rows(t.Context(), b.store, query.Options{Dataset: "d", Live: true, Where: h, WorkDir: t.TempDir()}) {
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, mixed, err)
			}
			got = append(got, row.ID)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %s\nas %s\ngives %q\nwant  %q", seed, plain, mixed, got, want)
		}
	}
}

func batchOf(row int) string {
	if row < 40 {
		return "x"
	}
	return "y"
}

// generator makes rows with columns of one type each and one of all, and filters
// on them. With sql, leaves that mean the same in SQL may be written so.
type generator struct {
	*rand.Rand
	sql bool
}

var (
	someTexts = []string{"", "a", "b", "ab", "abc", "é", "e\u0301", "É", "ﬁ", "50%", "500", "case_1", "caseX1", `a\b`, `"`, "'", "a'b",
		"'; DROP TABLE x;--", `CREATE TABLE "t" (a INT);`, "\x00", "a\x00b", "日本", "🙂", "null", "true", "7", "-- x", "/* x", "a b", "\n"}
	someWholes = []string{"0", "-0", "1", "-1", "2", "7", "10", "255", "9007199254740992", "9007199254740993", "-9007199254740993",
		"9223372036854775807", "-9223372036854775808", "9223372036854775808", "18446744073709551616", "99999999999999999999999999999999999999"}
	someNumbers = []string{"0", "-0.0", "1", "1.0", "10e-1", "0.1", "0.10", "-2.5", "3.25", "1e3", "123456.789", "-7"}
	someOthers  = []string{`[]`, `{}`, `[1,"a"]`, `{"a":1,"b":[2]}`, `1e400`, `0.1000000000000000000001`, `1e-400`}
)

func pick(g *generator, list []string) string { return list[g.IntN(len(list))] }

func (g *generator) text() string {
	b, _ := json.Marshal(pick(g, someTexts))
	return string(b)
}

func (g *generator) any() string {
	switch g.IntN(6) {
	case 0:
		return g.text()
	case 1:
		return pick(g, someWholes)
	case 2:
		return pick(g, someNumbers)
	case 3:
		return pick(g, []string{"true", "false"})
	case 4:
		return "null"
	}
	return pick(g, someOthers)
}

func (g *generator) row(i int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"id":"%03d"`, i)
	for _, c := range []struct{ name, value string }{
		{"s", g.text()}, {"i", pick(g, someWholes)}, {"n", pick(g, someNumbers)}, {"b", pick(g, []string{"true", "false"})}, {`m \"1`, g.any()},
	} {
		switch g.IntN(8) {
		case 0: // missing
		case 1:
			fmt.Fprintf(&b, `,"%s":null`, c.name)
		default:
			fmt.Fprintf(&b, `,"%s":%s`, c.name, c.value)
		}
	}
	return b.String() + "}"
}

// filter gives a filter in JSON, and one that means the same.
func (g *generator) filter(depth int) (plain, mixed string) {
	if depth == 0 || g.IntN(3) == 0 {
		return g.leaf()
	}
	if g.IntN(4) == 0 {
		p, m := g.filter(depth - 1)
		return `{"not":` + p + `}`, `{"not":` + m + `}`
	}
	var ps, ms []string
	for range g.IntN(4) {
		p, m := g.filter(depth - 1)
		ps, ms = append(ps, p), append(ms, m)
	}
	kind := pick(g, []string{"all", "any"})
	return `{"` + kind + `":[` + strings.Join(ps, ",") + `]}`, `{"` + kind + `":[` + strings.Join(ms, ",") + `]}`
}

func (g *generator) leaf() (plain, mixed string) {
	column := pick(g, []string{"s", "s", "i", "n", "b", "m", "id", "_batch", "nope"})
	name, sqlName := column, `"`+column+`"`
	if column == "m" {
		name, sqlName = `m \"1`, `"m ""1"`
	}
	if g.IntN(6) == 0 {
		op, is := "is_null", " IS NULL"
		if g.IntN(2) == 0 {
			op, is = "is_not_null", " IS NOT NULL"
		}
		return g.either(fmt.Sprintf(`{"column":"%s","op":"%s"}`, name, op), sqlName+is, column != "m")
	}
	if column == "b" || g.IntN(12) == 0 {
		truth := pick(g, []string{"true", "false"})
		return g.either(fmt.Sprintf(`{"column":"%s","is":%s}`, name, truth), sqlName+" = "+truth, column == "b")
	}
	texts := []string{"eq", "ne", "lt", "lte", "gt", "gte", "contains", "starts_with", "search", "in"}
	switch column {
	case "s", "id", "_batch", "nope":
		return g.condition(name, sqlName, pick(g, texts), func() (string, string) {
			raw := g.text()
			if column == "_batch" || column == "id" && g.IntN(2) == 0 {
				raw = pick(g, []string{`"x"`, `"y"`, `"040"`})
			}
			var s string
			_ = json.Unmarshal([]byte(raw), &s)
			if strings.Contains(s, "\x00") {
				return raw, ""
			}
			return raw, "'" + strings.ReplaceAll(s, "'", "''") + "'"
		})
	case "i", "n":
		list := someWholes
		if column == "n" {
			list = someNumbers
		}
		return g.condition(name, sqlName, pick(g, []string{"eq", "ne", "lt", "lte", "gt", "gte", "in"}), func() (string, string) {
			v := pick(g, list)
			return v, v
		})
	}
	return g.condition(name, sqlName, pick(g, []string{"eq", "ne", "in"}), func() (string, string) {
		v := g.any()
		for v == "null" {
			v = g.any()
		}
		return v, ""
	})
}

// condition gives a comparison with values that value makes: as JSON and, where
// there is one, in SQL.
func (g *generator) condition(name, sqlName, op string, value func() (string, string)) (plain, mixed string) {
	sign := map[string]string{"eq": "=", "ne": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}[op]
	v, sql := value()
	ok := sql != ""
	switch {
	case sign != "":
		sql = sqlName + " " + sign + " " + sql
	case op == "in":
		vs, sqls := []string{v}, []string{sql}
		for range g.IntN(3) {
			v, sql := value()
			vs, sqls, ok = append(vs, v), append(sqls, sql), ok && sql != ""
		}
		v, sql = "["+strings.Join(vs, ",")+"]", sqlName+" IN ("+strings.Join(sqls, ", ")+")"
	case op == "search":
		ok = false
	default:
		sql = op + "(" + sqlName + ", " + sql + ")"
	}
	return g.either(fmt.Sprintf(`{"column":"%s","op":"%s","value":%s}`, name, op, v), sql, ok)
}

// either gives a leaf, and a second time perhaps in SQL.
func (g *generator) either(plain, sql string, ok bool) (string, string) {
	if !ok || !g.sql || g.IntN(2) == 0 {
		return plain, plain
	}
	b, _ := json.Marshal(map[string]string{"sql": sql})
	return plain, string(b)
}

func BenchmarkFilterOfRows(b *testing.B) {
	bk := newBucket(b)
	bk.cut = 50000
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 24)
	var lines []string
	for i := range 100000 {
		lines = append(lines, line(fmt.Sprintf("%06d", i), fmt.Sprintf(`"lang":"%s"`, []string{"en", "de", "fr"}[i%3]),
			fmt.Sprintf(`"score":%d.%d`, i%10, i%7), `"text":"`+text[:700+i%300]+`"`))
	}
	bk.merged("x", lines...)
	for _, c := range []struct{ name, filter string }{
		{"none", ``},
		{"json", `{"all":[{"column":"lang","op":"eq","value":"en"},{"column":"score","op":"gt","value":5}]}`},
		{"sql", `lang = 'en' and score > 5`},
		{"sql-text", `length(text) > 950`},
		{"both", `{"all":[{"column":"lang","op":"eq","value":"en"},{"sql":"score > 5"}]}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			o := query.Options{Dataset: "d", WorkDir: b.TempDir()}
			if c.filter != "" {
				o.Where = expression(b, c.filter)
			}
			for b.Loop() {
				start, n := cpu(b), 0
				for _, err := range query.Rows(b.Context(), bk.store, o) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				b.ReportMetric(float64(cpu(b)-start)/100000, "cpu-ns/row")
				b.ReportMetric(float64(n), "rows")
			}
			b.ReportMetric(100000*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// cpu is what the process has used of it so far.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
