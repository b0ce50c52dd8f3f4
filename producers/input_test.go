package producers_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/producers"
)

func gz(s ...string) string {
	var b bytes.Buffer
	for _, member := range s {
		zw := gzip.NewWriter(&b)
		_, _ = zw.Write([]byte(member))
		_ = zw.Close()
	}
	return b.String()
}

// zstdRows is the two rows of the first case below, as the zstd tool writes them.
const zstdRows = "(\xb5/\xfd\x04\x00\xc9\x00\x00{\"a\":1.0}\n{\"b\":\"\\u00e9\"}\n\x03\x87'\xf5"

// read gives the lines of an input as "where: raw", with "! reason" for what is
// no row, and the error that ended it.
func read(t *testing.T, name string, cfg producers.InputConfig) ([]string, error) {
	t.Helper()
	in, err := producers.OpenInput(t.Context(), name, cfg)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}()
	var out []string
	for l, err := range in.Lines() {
		if err != nil {
			return out, err
		}
		s := string(l.Raw)
		if l.Reject != "" {
			s = "! " + l.Reject
		}
		out = append(out, in.Where(l)+" "+s)
	}
	return out, nil
}

func TestInputsAreReadWhateverTheyAreCalled(t *testing.T) {
	const rows = "{\"a\":1.0}\n{\"b\":\"\\u00e9\"}\n"
	for _, c := range []struct {
		name, content string
		format        producers.Format
		want          []string
	}{
		{"a.jsonl", rows, "", []string{`F:1 {"a":1.0}`, `F:2 {"b":"\u00e9"}`}},
		{"gzip.jsonl", gz(rows), "", []string{`F:1 {"a":1.0}`, `F:2 {"b":"\u00e9"}`}},
		{"plain.jsonl.gz", rows, "", []string{`F:1 {"a":1.0}`, `F:2 {"b":"\u00e9"}`}},
		{"members.gz", gz(rows, "", "{}\n"), "", []string{`F:1 {"a":1.0}`, `F:2 {"b":"\u00e9"}`, `F:3 {}`}},
		{"padded.gz", gz(rows) + "\x00\x00\x00\x00", "", []string{`F:1 {"a":1.0}`, `F:2 {"b":"\u00e9"}`}},
		{"a.jsonl.zst", zstdRows, "", []string{`F:1 {"a":1.0}`, `F:2 {"b":"\u00e9"}`}},
		{"crlf", "\xEF\xBB\xBF{\"id\":\"a\"}\r\n\r\n  \n{\"id\":\"b\"}", "", []string{`F:1 {"id":"a"}`, `F:4 {"id":"b"}`}},
		{"empty", "", "", nil},
		{"a.csv", "x,y\n1,\"a\nb\"\n2,\n", "", []string{`F: record 1 {"x":"1","y":"a\nb"}`, `F: record 2 {"x":"2","y":""}`}},
		{"a.CSV.gz", gz("x\n1\n"), "", []string{`F: record 1 {"x":"1"}`}},
		{"said", "x\n1\n", producers.CSV, []string{`F: record 1 {"x":"1"}`}},
		{"lines.csv", rows, "", []string{`F:1 {"a":1.0}`, `F:2 {"b":"\u00e9"}`}},
		{"bad.csv", "x,y\n1,2\n3\n4,5\n", "", []string{`F: record 1 {"x":"1","y":"2"}`, `F:3 ! 1 fields, the header has 2`, `F: record 3 {"x":"4","y":"5"}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), c.name)
			if err := os.WriteFile(name, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			var bytesRead int64
			got, err := read(t, name, producers.InputConfig{Format: c.format, Read: func(n int64) { bytesRead += n }})
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				got[i] = strings.Replace(got[i], name, "F", 1)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if bytesRead != int64(len(c.content)) {
				t.Errorf("%d of %d bytes were counted", bytesRead, len(c.content))
			}
			if got, err := read(t, producers.Stdin, producers.InputConfig{Format: c.format, Stdin: strings.NewReader(c.content)}); err != nil || byContentAlone(c.name) && len(got) != len(c.want) {
				t.Errorf("as a stream: %q, %v", got, err)
			}
		})
	}
}

func byContentAlone(name string) bool { return !strings.Contains(strings.ToLower(name), ".csv") }

func TestWhatIsNotOneObjectPerLineIsRejectedWithTheRealReason(t *testing.T) {
	for content, want := range map[string][]string{
		"{\"a\":1}{\"b\":2}\n{}\n": {"stdin:1 ! two JSON values on one line", "stdin:2 {}"},
		"[{\"a\":1},{\"a\":2}]":    {"stdin:1 ! a JSON array: siltstone reads one object per line"},
		"[{\"id\":\"a\"},]":        {"stdin:1 ! a JSON array"},
		"{\n  \"a\": 1\n}\n":       {"stdin:1 ! the line ends inside the object", "stdin:2 ! ", "stdin:3 ! "},
		"{\"a\":NaN}\n{}":          {"stdin:1 ! NaN and Infinity are not JSON", "stdin:2 {}"},
		"{\"a\":\"\xff\"}\n{}":     {"stdin:1 ! invalid UTF-8: byte 0xFF", "stdin:2 {}"},
		"{}\n{\"t\":\"hel":         {"stdin:1 {}", "stdin:2 ! the line ends inside the object: cut off"},
		"{}\n\xEF\xBB\xBF{}":       {"stdin:1 {}", "stdin:2 ! a byte order mark"},
	} {
		got, err := read(t, producers.Stdin, producers.InputConfig{Stdin: strings.NewReader(content)})
		if err != nil || len(got) != len(want) {
			t.Errorf("%q: %q, %v", content, got, err)
			continue
		}
		for i := range want {
			if !strings.HasPrefix(got[i], want[i]) {
				t.Errorf("%q: got %q, want %q…", content, got[i], want[i])
			}
		}
	}
	got, _ := read(t, producers.Stdin, producers.InputConfig{Stdin: strings.NewReader("[{}]\n{\n")})
	if len(got) != 2 || !strings.Contains(got[0], "jq -c '.[]'") || !strings.Contains(got[1], "jq -c .") {
		t.Errorf("no way out in %q", got)
	}
}

func TestFilesThatHoldNoRowsAreRefusedByWhatTheyAre(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name, content string
		format        producers.Format
		want          string
	}{
		{"a.zip", "PK\x03\x04....", "", "a zip archive"},
		{"a.bz2", "BZh91AY", "", "bzip2"},
		{"a.xz", "\xFD7zXZ\x00", "", "xz"},
		{"a.tar.gz", gz(strings.Repeat("\x00", 257) + "ustar  "), "", "a tar archive"},
		{"a.gz.gz", gz(gz("{}\n")), "", "compressed twice"},
		{"u16", "\xFF\xFE{\x00}\x00", "", "UTF-16"},
		{"u32", "\xFF\xFE\x00\x00{\x00\x00\x00}\x00\x00\x00", "", "UTF-32"},
		{"u32be", "\x00\x00\xFE\xFF\x00\x00\x00{", "", "UTF-32"},
		{"semicolons.csv", "id;a\n1;x\n", "", "only commas are read"},
		{"cr.csv", "id,a\r1,x\r", "", "carriage return"},
		{"a.parquet", "{}\n", "", "no parquet file"},
		{"x", "{}\n", producers.Parquet, "no parquet file"},
		{"empty.parquet", "", "", "no parquet file"},
		{"y", "PAR1....PAR1", producers.NDJSON, "a parquet file, not ndjson"},
		{"short.gz", gz("{}\n")[:4], "", "unexpected EOF"},
		{"twice.csv", "x,x\n1,2\n", "", `the name "x" stands in column 1 too`},
		{"quote.csv", "x,y\"z\n1,2\n", "", "header"},
	} {
		name := filepath.Join(dir, c.name)
		if err := os.WriteFile(name, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := read(t, name, producers.InputConfig{Format: c.format})
		if err == nil || len(got) > 0 || !strings.HasPrefix(err.Error(), name+": ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
	if _, err := read(t, dir, producers.InputConfig{}); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := read(t, filepath.Join(dir, "none"), producers.InputConfig{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := producers.ParseFormat("xml"); err == nil {
		t.Error("xml is a format")
	}
}

func TestAnInputThatIsCutGivesItsRowsAndThenAnError(t *testing.T) {
	var lines strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&lines, "{\"n\":%d,\"x\":\"%x\"}\n", i, i*i*7919)
	}
	whole := gz(lines.String())
	got, err := read(t, producers.Stdin, producers.InputConfig{Stdin: strings.NewReader(whole[:len(whole)-8])})
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "stdin: after line") {
		t.Fatal(err)
	}
	if len(got) > 5000 || len(got) < 4000 {
		t.Fatalf("%d rows", len(got))
	}
}

func TestParquetIsReadAsAFileAndAsAStream(t *testing.T) {
	// Three rows: id string, n int64, t optional string.
	content, err := os.ReadFile(filepath.Join("testdata", "rows.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`: row 1 {"id":"a","n":9007199254740993,"t":"é"}`,
		`: row 2 {"id":"b","n":-1,"t":null}`,
		`: row 3 {"id":"c","n":0,"t":"é"}`,
	}
	dir := t.TempDir()
	zipped := filepath.Join(dir, "no-suffix")
	cut := filepath.Join(dir, "cut.parquet")
	if err := errors.Join(os.WriteFile(zipped, []byte(gz(string(content))), 0o600), os.WriteFile(cut, content[:len(content)/2], 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, stdin := range map[string]io.Reader{
		filepath.Join("testdata", "rows.parquet"): nil,
		zipped:          nil,
		producers.Stdin: bytes.NewReader(content),
	} {
		spool := t.TempDir()
		got, err := read(t, name, producers.InputConfig{Stdin: stdin, TempDir: spool})
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			got[i] = got[i][strings.Index(got[i], ": row"):]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if left, err := os.ReadDir(spool); err != nil || len(left) > 0 {
			t.Errorf("%s: left behind: %v, %v", name, left, err)
		}
	}
	if got, err := read(t, cut, producers.InputConfig{}); err == nil || len(got) > 0 || !strings.HasPrefix(err.Error(), cut+": parquet: ") {
		t.Errorf("a cut file: %q, %v", got, err)
	}
}

// standing is a stream that gives some bytes and then stands still.
type standing struct {
	r    io.Reader
	stop chan struct{}
}

func (s standing) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if err != io.EOF {
		return n, err
	}
	<-s.stop
	return 0, io.EOF
}

func TestReadingAStreamThatStandsStillEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := standing{strings.NewReader("{\"a\":1}\n" + strings.Repeat(" ", 1000) + "\n{\"cut"), make(chan struct{})}
		in, err := producers.OpenInput(ctx, producers.Stdin, producers.InputConfig{Stdin: s})
		if err != nil {
			t.Fatal(err)
		}
		var rows int
		var last error
		for _, err := range in.Lines() {
			if err != nil {
				last = err
				break
			}
			rows++
			cancel()
		}
		// The row that the end cut off is not handed out.
		if rows != 1 || !errors.Is(last, context.Canceled) {
			t.Fatalf("%d rows, %v", rows, last)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		close(s.stop)
	})
}
