package block_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/dataset"
)

// lines reads all lines as "number@offset id" or "number@offset !reason".
func lines(r io.Reader) (out []string, err error) { return allLines(block.NewLines(r)) }

func allLines(l *block.Lines) (out []string, err error) {
	for {
		line, err := l.Next()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		what := line.Row.ID
		if line.Reject != "" {
			what = "!" + line.Reject
		}
		out = append(out, fmt.Sprintf("%d@%d %s", line.Number, line.Offset, what))
	}
}

func TestLinesAreCutWhereverReadsEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		want []string
	}{
		"nothing":         {"", nil},
		"blank":           {"\n \n\t\r\n", nil},
		"one":             {"{\"id\":\"a\"}\n", []string{"1@0 a"}},
		"no last newline": {"{\"id\":\"a\"}\n{\"id\":\"b\"}", []string{"1@0 a", "2@11 b"}},
		"CRLF and blanks (B022)": {"{\"id\":\"a\"}\r\n\r\n  \n{\"id\":\"b\"}",
			[]string{"1@0 a", "4@17 b"}},
		"BOM at the start (B010)":  {"\xef\xbb\xbf{\"id\":\"a\"}\n{\"id\":\"b\"}\n", []string{"1@0 a", "2@14 b"}},
		"BOM and blank":            {"\xef\xbb\xbf\r\n{\"id\":\"b\"}\n", []string{"2@5 b"}},
		"BOM alone":                {"\xef\xbb\xbf", nil},
		"no id":                    {"{\"x\":1}\n", []string{"1@0 "}},
		"other line ends are text": {"{\"id\":\"a\u2028\u0085\"}\n", []string{"1@0 a\u2028\u0085"}},
		"cut last line (B023)": {"{\"id\":\"a\"}\n{\"id\":\"b\",\"t\":\"hel",
			[]string{"1@0 a", "2@11 !the line ends inside the object: cut off, or one object over several lines (at byte 18)"}},
		"a bad line alone": {"{\"id\":\"a\"}\nnope\n{\"id\":\"b\"}\n",
			[]string{"1@0 a", `2@11 !not JSON: it starts with 'n'; siltstone reads one object per line (at byte 0)`, "3@16 b"}},
		"BOM in the middle (B010)": {"{\"id\":\"a\"}\n\xef\xbb\xbf{\"id\":\"b\"}\n",
			[]string{"1@0 a", "2@11 !a byte order mark, which only the start of a file may have (files put together with cat?) (at byte 0)"}},
		"many lines for one object (B011)": {"{\n\"id\":\"a\"\n}\n", []string{
			"1@0 !the line ends inside the object: cut off, or one object over several lines (at byte 1)",
			`2@2 !not JSON: it starts with '"'; siltstone reads one object per line (at byte 0)`,
			"3@11 !not JSON: it starts with '}'; siltstone reads one object per line (at byte 0)"}},
	} {
		t.Run(name, func(t *testing.T) {
			for style, r := range map[string]io.Reader{
				"at once":      strings.NewReader(tc.in),
				"byte by byte": iotest.OneByteReader(strings.NewReader(tc.in)),
				"data and EOF": iotest.DataErrReader(strings.NewReader(tc.in)),
				"by halves":    iotest.HalfReader(strings.NewReader(tc.in)),
			} {
				got, err := lines(r)
				if d := cmp.Diff(tc.want, got); d != "" || err != nil {
					t.Errorf("%s: %v %s", style, err, d)
				}
			}
		})
	}
}

func TestALineReadHalfIsNotHandedOutWhenReadingFails(t *testing.T) {
	boom := errors.New("boom")
	got, err := lines(io.MultiReader(strings.NewReader("{\"id\":\"a\"}\n{\"id\":\"b\"}"), iotest.ErrReader(boom)))
	if d := cmp.Diff([]string{"1@0 a"}, got); d != "" || !errors.Is(err, boom) {
		t.Errorf("%v %s", err, d)
	}
	l := block.NewLines(iotest.ErrReader(boom))
	for range 2 {
		if _, err := l.Next(); !errors.Is(err, boom) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := lines(endless{}); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("got %v", err)
	}
}

// endless gives nothing, for ever.
type endless struct{}

func (endless) Read([]byte) (int, error) { return 0, nil }

// repeat gives one byte n times.
type repeat struct {
	c byte
	n int64
}

func (r *repeat) Read(p []byte) (int, error) {
	if r.n == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), r.n))
	copy(p[:n], bytes.Repeat([]byte{r.c}, min(n, 1<<16)))
	for i := 1 << 16; i < n; i *= 2 {
		copy(p[i:n], p[:i])
	}
	r.n -= int64(n)
	return n, nil
}

func TestALineThatIsTooLongIsRejectedAloneAndWithoutItsBytes(t *testing.T) {
	const head, tail = `{"id":"big","t":"`, `"}`
	over := int64(dataset.MaxLineBytes) + 1000
	in := io.MultiReader(strings.NewReader("{\"id\":\"a\"}\n"+head), &repeat{'x', 3 * over}, strings.NewReader(tail+"\n{\"id\":\"b\"}\n"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := lines(in)
	runtime.ReadMemStats(&after)
	want := []string{"1@0 a", "2@11 !longer than 64 MiB", fmt.Sprintf("3@%d b", 11+int64(len(head+tail))+3*over+1)}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 4*dataset.MaxLineBytes {
		t.Errorf("%d MiB were allocated", used>>20)
	}
	got, err = lines(io.MultiReader(strings.NewReader(head), &repeat{'x', over}))
	if d := cmp.Diff([]string{"1@0 !longer than 64 MiB"}, got); d != "" || err != nil {
		t.Errorf("as the last line: %v %s", err, d)
	}
}

func TestALineOfExactly64MiBIsARow(t *testing.T) { // B028
	if testing.Short() {
		t.Skip("large")
	}
	const head, tail = `{"id":"big","t":"`, `"}`
	fill := int64(dataset.MaxLineBytes - len(head+tail))
	for _, end := range []string{"", "\n", "\r\n"} {
		got, err := lines(io.MultiReader(strings.NewReader("\xef\xbb\xbf"+head), &repeat{'x', fill}, strings.NewReader(tail+end)))
		if d := cmp.Diff([]string{"1@0 big"}, got); d != "" || err != nil {
			t.Errorf("end %q: %v %s", end, err, d)
		}
	}
	got, err := lines(io.MultiReader(strings.NewReader(head), &repeat{'x', fill + 1}, strings.NewReader(tail+"\n")))
	if d := cmp.Diff([]string{"1@0 !longer than 64 MiB"}, got); d != "" || err != nil {
		t.Errorf("one byte more: %v %s", err, d)
	}
}

func TestLinesOfAFileInMemoryAreTheSame(t *testing.T) {
	for _, text := range []string{"", "\n", "{\"id\":\"a\"}\r\n\r\n  \n{\"id\":\"b\"}", "\xef\xbb\xbf{\"id\":\"a\"}\n\xef\xbb\xbf{}\n", "rubbish\n{\"id\":\"b\",\"t\":\"hel", "\r\r\n\x00\n"} {
		want, err := lines(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range []*block.Lines{block.NewLinesOf([]byte(text)), block.NewLines(strings.NewReader(text)).ScanWith(dataset.NewScanner([]string{"x"}))} {
			got, err := allLines(l)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q:\n%s", text, diff)
			}
		}
	}
}
