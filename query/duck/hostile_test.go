package duck

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
)

// hostile gives the expressions of testdata/hostile.tsv and some that are no text
// of one line, each with whether it must be refused.
func hostile(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "hostile.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{
		"x = '\xff'":                    true,
		"x = 'a\x00b'":                  true,
		"x = '\xed\xa0\x80'":            true,
		strings.Repeat("x", MaxBytes+1): true,
		strings.Repeat("(", 8000) + "true" + strings.Repeat(")", 8000):   false,
		strings.Repeat("(", 10000) + "true" + strings.Repeat(")", 10000): true,
		strings.Repeat("NOT ", 4000) + "true":                            true,
		strings.Repeat("[", 5000) + strings.Repeat("]", 5000):            true,
		"1" + strings.Repeat("+1", 5000) + " > 0":                        true,
		"x = ''" + strings.Repeat(" OR x = ''", 1000):                    false,
		"x" + strings.Repeat("||x", 300) + " = ''":                       true,
		strings.Repeat("CASE WHEN x = '' THEN true ELSE ", 900):          true,
		"true\n; SELECT 1": true,
		"true -- \n) FROM read_text('/etc/passwd') --": true,
		"true\n\n\n": false,
	}
	for line := range strings.Lines(string(text)) {
		verdict, expr, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok || verdict != "refused" && verdict != "bounded" {
			t.Fatalf("testdata/hostile.tsv: %q", line)
		}
		out[expr] = verdict == "refused"
	}
	return out
}

// TestAHostileExpressionReachesNothing asks each and then an honest one. What is
// not refused runs over rows whose values are long, and has to end.
func TestAHostileExpressionReachesNothing(t *testing.T) {
	e := engine(t, Config{})
	long := quoted(strings.Repeat("a", 2000))
	for text, refused := range hostile(t) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		x, err := e.Compile(ctx, text)
		name := shorten(text, 80)
		if refused && !errors.Is(err, dataset.ErrFilter) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
		if !refused && err != nil {
			t.Errorf("%s is refused: %v", name, err)
		}
		if err == nil {
			b := x.Batch()
			raw := make([][]byte, len(x.Columns()))
			for range 20 {
				for i := range raw {
					raw[i] = long
				}
				if err := b.Add(raw); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if _, err := b.Decide(ctx); err != nil && !errors.Is(err, dataset.ErrFilter) {
				t.Errorf("%s: %v", name, err)
			}
		}
		cancel()
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("%s took %s", name, d)
		}
		if got := decide(t, e, "length(x) = 3", `"abc"`); got != dataset.True {
			t.Fatalf("after %s an honest expression gives %d", name, got)
		}
	}
	if _, err := os.Stat("/tmp/stolen"); err == nil {
		t.Error("a file was written")
	}
}

// TestBehindTheCheckThereIsAnotherWall has the database itself refuse what the
// check of expressions does not let through.
func TestBehindTheCheckThereIsAnotherWall(t *testing.T) {
	e := engine(t, Config{MemoryBytes: 64e6, Connections: 1})
	secret := filepath.Join(t.TempDir(), "secret.csv")
	if err := os.WriteFile(secret, []byte("a,b\n1,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"SELECT content FROM read_text('" + secret + "')":                   "disabled by configuration",
		"SELECT a FROM read_csv('" + secret + "')":                          "disabled by configuration",
		"SELECT a FROM '" + secret + "'":                                    "",
		"SELECT file FROM glob('/*')":                                       "disabled by configuration",
		"COPY (SELECT 1) TO '" + secret + "'":                               "disabled by configuration",
		"ATTACH '" + secret + ".db'":                                        "disabled by configuration",
		"EXPORT DATABASE '" + secret + "'":                                  "disabled by configuration",
		"INSTALL httpfs":                                                    "",
		"LOAD httpfs":                                                       "",
		"SELECT * FROM read_parquet('https://example.org/a.parquet')":       "",
		"SET enable_external_access = true":                                 "locked",
		"SET memory_limit = '100GB'":                                        "locked",
		"RESET threads":                                                     "locked",
		"CREATE TABLE t AS SELECT range, hash(range) FROM range(100000000)": "Out of Memory",
	} {
		err := e.do(t.Context(), func(ctx context.Context, s *slot) error {
			_, err := s.conn.ExecContext(ctx, query, nil)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
	if got := decide(t, e, "x", "true"); got != dataset.True {
		t.Error(got)
	}
	if raw, err := os.ReadFile(secret); err != nil || string(raw) != "a,b\n1,2\n" {
		t.Errorf("the file is %q (%v)", raw, err)
	}
}

// TestWhoCancelsHasControlBackAtOnce gives an expression that DuckDB does not
// interrupt a row that takes it seconds.
func TestWhoCancelsHasControlBackAtOnce(t *testing.T) {
	e := engine(t, Config{Connections: 1, Wait: 20 * time.Millisecond})
	x, err := e.Compile(t.Context(), "levenshtein(x, reverse(x)) > 1")
	if err != nil {
		t.Fatal(err)
	}
	b := x.Batch()
	if err := b.Add([][]byte{quoted(strings.Repeat("abcdefghij", 3000))}); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, stop)
	defer cancel()
	start := time.Now()
	if _, err = b.Decide(ctx); !errors.Is(err, stop) {
		t.Fatalf("%v, want the cause", err)
	}
	if d := time.Since(start); d > time.Second {
		t.Errorf("it took %s to stop", d)
	}
	if _, err := e.Compile(t.Context(), "true"); !errors.Is(err, ErrBusy) {
		t.Errorf("%v while the only connection is at work, want ErrBusy", err)
	}
	for n := 0; ; n++ { // each try waits a little for a connection
		_, err := e.Compile(t.Context(), "true")
		if err == nil {
			break
		}
		if !errors.Is(err, ErrBusy) || n > 3000 {
			t.Fatalf("after %d tries: %v", n, err)
		}
	}
	if got := decide(t, e, "x", "true"); got != dataset.True {
		t.Error(got)
	}
}

// TestMemoryIsBoundedByTheExpression runs what may grow most over a full batch.
func TestMemoryIsBoundedByTheExpression(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	e := engine(t, Config{Connections: 1})
	x, err := e.Compile(t.Context(), "len(string_split(x||x||x||x||x||x||x||x||x||x, '')) > 1")
	if err != nil {
		t.Fatal(err)
	}
	before := resident(t)
	b := x.Batch()
	for !b.Full() {
		if err := b.Add([][]byte{quoted(strings.Repeat("a", 1000))}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Decide(t.Context()); err != nil {
		t.Fatal(err)
	}
	if grown := peak(t) - before; grown > 800<<20 {
		t.Errorf("memory grew by %d MB", grown>>20)
	}
}
