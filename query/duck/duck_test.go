package duck

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone/dataset"
)

func engine(t testing.TB, c Config) *Engine {
	t.Helper()
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func quoted(s string) []byte {
	b, _ := json.Marshal(s)
	return b
}

// ask asks an expression about one row, whose values are given in the order of
// its columns; an empty text is a missing value.
func ask(t testing.TB, e *Engine, text string, values ...string) (dataset.Truth, error) {
	t.Helper()
	x, err := e.Compile(context.Background(), text)
	if err != nil {
		return 0, err
	}
	if len(x.Columns()) != len(values) {
		t.Fatalf("%s asks for %q, here are %q", text, x.Columns(), values)
	}
	raw := make([][]byte, len(values))
	for i, v := range values {
		if v != "" {
			raw[i] = []byte(v)
		}
	}
	b := x.Batch()
	if err := b.Add(raw); err != nil {
		return 0, err
	}
	out, err := b.Decide(context.Background())
	if err != nil {
		return 0, err
	}
	return out[0], nil
}

func decide(t testing.TB, e *Engine, text string, values ...string) dataset.Truth {
	t.Helper()
	got, err := ask(t, e, text, values...)
	if err != nil {
		t.Fatalf("%s of %q: %v", text, values, err)
	}
	return got
}

// resident and peak are what the process has, and has had, in memory.
func resident(t testing.TB) int64 { return status(t, "VmRSS:") }
func peak(t testing.TB) int64     { return status(t, "VmHWM:") }

func status(t testing.TB, name string) int64 {
	t.Helper()
	f, err := os.Open("/proc/self/status")
	if err != nil {
		t.Skip("this system does not tell how much memory a process has")
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), name); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatalf("no %s", name)
	return 0
}

func TestAnExpressionSaysYesNoOrNull(t *testing.T) {
	e := engine(t, Config{})
	const yes, no, null = dataset.True, dataset.False, dataset.Null
	for _, c := range []struct {
		text   string
		values []string
		want   dataset.Truth
	}{
		{"length(text) > 3", []string{`"abcd"`}, yes},
		{"length(text) > 3", []string{`"abc"`}, no},
		{"length(text) > 3", []string{``}, null},
		{"length(text) > 3", []string{`null`}, null},
		{"text = 'a''b'", []string{`"a'b"`}, yes},
		{"text = 'é'", []string{`"\u00e9"`}, yes},
		{"length(text) = 3 and text > 'a'", []string{`"a\u0000b"`}, yes},
		{"text LIKE '50\\%' ESCAPE '\\'", []string{`"50%"`}, yes},
		{"text LIKE '50\\%' ESCAPE '\\'", []string{`"500"`}, no},
		{"n = 9007199254740993", []string{`9007199254740993`}, yes},
		{"n = 9007199254740993", []string{`9007199254740992`}, no},
		{"n = 170141183460469231731687303715884105726", []string{`170141183460469231731687303715884105726`}, yes},
		{"n > 9223372036854775807", []string{`9223372036854775808`}, yes},
		{"n = 0.1", []string{`0.1`}, yes},
		{"n = 0.1", []string{`0.10000000000000000001`}, no},
		{"n > 0.1", []string{`0.10000000000000000001`}, yes},
		{"n = 1", []string{`1.0`}, yes},
		{"n = 1", []string{`10e-1`}, yes},
		{"n = 0", []string{`-0`}, yes},
		{"n = 0", []string{`-0.0`}, yes},
		{"n < 1.5e10 and n > -1.5e10", []string{`1e10`}, yes},
		{"n > -1", []string{`0`}, yes},
		{"n = 7", []string{`7`}, yes},
		{"n = 7", []string{`"7"`}, yes},
		{"TRY_CAST(n AS DOUBLE) > 5", []string{`"x"`}, null},
		{"TRY_CAST(n AS DOUBLE) > 5", []string{`"7.5"`}, yes},
		{"TRY_CAST(n AS DOUBLE) > 5", []string{`7`}, yes},
		{"ok", []string{`true`}, yes},
		{"not ok", []string{`true`}, no},
		{"ok is true", []string{``}, no},
		{"ok is not true", []string{`false`}, yes},
		{"ok = true or ok in (true, false)", []string{`false`}, yes},
		{"x is null", []string{``}, yes},
		{"x is not null", []string{`[1]`}, yes},
		{"x->>'$.a' = 'b'", []string{`{"a":"b"}`}, yes},
		{"x->'a'->>'b' = 'c'", []string{`{"a":{"b":"c"}}`}, yes},
		{"list_contains(x->>'$[*]', 'b')", []string{`["a","b"]`}, yes},
		{"json_array_length(x) = 2", []string{`["a","b"]`}, yes},
		{"A.f = 1", []string{`1`}, yes},
		{`"A.f" = 1 and A.f = 1`, []string{`1`}, yes},
		{`"a b" = "A b" and "a""b" = 'x'`, []string{`1`, `1`, `"x"`}, yes},
		{"coalesce(n, 0) = 0", []string{``}, yes},
		{"coalesce(s, 'x') = 'x'", []string{``}, yes},
		{"year(d) = 2020", []string{``}, null},
		{"year(d::DATE) = 2020", []string{`"2020-05-01"`}, yes},
		{"d::TIMESTAMPTZ = TIMESTAMPTZ '2020-05-01 00:00:00+00'", []string{`"2020-05-01T02:00:00+02:00"`}, yes},
		{"d::TIMESTAMP + INTERVAL 2 DAYS > TIMESTAMP '2020-05-02'", []string{`"2020-05-01"`}, yes},
		{"case when a then b else c end", []string{`true`, `false`, `true`}, no},
		{"a in (1, 2, 3) and b not in ('x')", []string{`2`, `"y"`}, yes},
		{"a between 1 and 2", []string{`1.5`}, yes},
		{"a is distinct from b", []string{`1`, ``}, yes},
		{"split_part(a, '-', 2) = 'y' and nullif(a, '') is not null", []string{`"x-y"`}, yes},
		{"length(a) - length(replace(a, ' ', '')) >= 2", []string{`"x y z"`}, yes},
		{"regexp_replace(a, '[0-9]+', '', 'g') = 'ab'", []string{`"a1b22"`}, yes},
		{"TRY(a::INTEGER) is null", []string{`"x"`}, yes},
		{"a[1] = 'x' and a[2:3] = 'yz'", []string{`"xyz"`}, yes},
		{"a[-1] = 'z' -- a comment", []string{`"xyz"`}, yes},
		{"1 = 1", nil, yes},
	} {
		got, err := ask(t, e, c.text, c.values...)
		if err != nil || got != c.want {
			t.Errorf("%s of %q: %d (%v), want %d", c.text, c.values, got, err, c.want)
		}
	}
}

func TestAnErrorNamesTheExpressionAndTheWayOut(t *testing.T) {
	e := engine(t, Config{})
	for _, c := range []struct {
		text, value, want string
	}{
		{"x::INTEGER > 1", `"abc"`, "TRY_CAST"},
		{"x > 5", `"abc"`, "x is VARCHAR"},
		{"length(x) > 1", `7`, "x is BIGINT"},
		{"length(x)", `"abc"`, "gives a number"},
		{"x", `"abc"`, "gives text"},
		{"x > 1", `1e400`, "no type of SQL holds the number 1e400"},
		{"x = 'a'", `"\ud800"`, "surrogate"},
		{"ln(x) > 1", `0`, "logarithm of zero"},
	} {
		_, err := ask(t, e, c.text, c.value)
		var row *RowError
		if !errors.Is(err, dataset.ErrFilter) || !errors.As(err, &row) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), strconv.Quote(c.text)) {
			t.Errorf("%s of %s: %v, want %q", c.text, c.value, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than one line: %v", c.text, err)
		}
	}
	for text, want := range map[string]string{
		"é = 1 and lenght(x) > 1": "at character 11: function lenght",
		"x = = 1":                 "at character 5",
		"x = 1 and (select 1)":    "at character 11: a subquery",
		"x; y":                    "syntax error",
		"x = 1) from t where (1":  "no other table",
		"":                        "syntax error",
		"now() > x":               "docs/api.md",
	} {
		if _, err := e.Compile(t.Context(), text); !errors.Is(err, dataset.ErrFilter) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestAHugeRowIsNotMadeLarger: what DuckDB makes of long texts is not counted by
// its memory limit.
func TestAHugeRowIsNotMadeLarger(t *testing.T) {
	e := engine(t, Config{MemoryBytes: 128e6})
	text := "length(replace(x, 'a', '" + strings.Repeat("b", 80) + "')) > 1"
	huge := strconv.Quote(strings.Repeat("a", 8<<20))
	_, err := ask(t, e, text, huge)
	var row *RowError
	if !errors.Is(err, dataset.ErrFilter) || !errors.As(err, &row) || !strings.Contains(err.Error(), "DUCKDB_MEMORY_LIMIT") {
		t.Errorf("%v", err)
	}
	for _, c := range [][2]string{{text, `"aaa"`}, {"length(x) > 1", huge}} {
		if got, err := ask(t, e, c[0], c[1]); err != nil || got != dataset.True {
			t.Errorf("%s: %v, %v", c[0], got, err)
		}
	}
}

// TestTheFirstBadRowIsNamed has errors in rows of two types.
func TestTheFirstBadRowIsNamed(t *testing.T) {
	e := engine(t, Config{})
	x, err := e.Compile(t.Context(), "ln(x::DOUBLE) > 1")
	if err != nil {
		t.Fatal(err)
	}
	for bad := range 40 {
		b := x.Batch()
		for i := range 40 {
			v := "2"
			if i >= bad {
				v = "0"
			}
			if i%2 == 0 {
				v = strconv.Quote(v)
			}
			if err := b.Add([][]byte{[]byte(v)}); err != nil {
				t.Fatal(err)
			}
		}
		var row *RowError
		if _, err := b.Decide(t.Context()); !errors.As(err, &row) || row.Row != bad {
			t.Errorf("row %d is bad: %v (%+v)", bad, err, row)
		}
	}
}

// TestFunctionsAreThere keeps the lists true to DuckDB: what they name is a
// function of one row, and none that gives another answer every time.
func TestFunctionsAreThere(t *testing.T) {
	e := engine(t, Config{})
	names := map[string]bool{}
	for name := range fixedFunctions {
		names[name] = true
	}
	for name := range growing {
		if names[name] {
			t.Errorf("%s is in two lists", name)
		}
		names[name] = true
	}
	for _, name := range replaced {
		names[name] = true
	}
	for name := range names {
		err := e.do(t.Context(), func(ctx context.Context, s *slot) error {
			kinds, err := s.text(ctx, "SELECT coalesce(string_agg(DISTINCT function_type || ' ' || coalesce(stability, ''), ','), 'none') FROM duckdb_functions() WHERE function_name = ?", name)
			if err == nil && kinds != "scalar CONSISTENT" && kinds != "macro " {
				t.Errorf("%s: %s", name, kinds)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
