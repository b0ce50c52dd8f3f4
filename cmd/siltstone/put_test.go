package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
	"github.com/siltstone-data/siltstone/producers"
)

// putTest is what came of a put.
type putTest struct {
	res            producers.Result
	stdout, stderr string
	err            error
	code           int
}

func runPut(ctx context.Context, t *testing.T, s objstore.Store, stdin io.Reader, cmd putCmd) putTest {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{json: true, workDir: t.TempDir(), stdin: stdin, stdout: &stdout, stderr: &stderr, log: slog.New(slog.DiscardHandler), store: s}
	if cmd.ChunkRows == 0 {
		cmd.ChunkRows = 100
	}
	cmd.Dataset, cmd.Batch = "d", "b"
	err := cmd.Run(ctx, a)
	out := putTest{stdout: stdout.String(), err: err}
	if out.stdout != "" {
		d := json.NewDecoder(&stdout)
		if err := d.Decode(&out.res); err != nil || d.More() {
			t.Fatalf("stdout is not one JSON object: %q", out.stdout)
		}
	}
	out.code = exitCode(err, &stderr)
	out.stderr = stderr.String()
	return out
}

func lines(t *testing.T, s objstore.Store) []string {
	t.Helper()
	b := dataset.BatchID{Dataset: "d", Batch: "b"}
	l, err := catalog.ListLive(context.Background(), s, b)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range l.Chunks {
		body, _, err := objstore.ReadAll(context.Background(), s, c.Key())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")...)
	}
	return out
}

func file(t *testing.T, name, content string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

const stamped = `"_created_at":"2026-01-02T03:04:05Z"`

func TestPutStoresStdinAndFilesInOneRun(t *testing.T) {
	s := mem.New()
	got := runPut(t.Context(), t, s, strings.NewReader(`{"id":"a",`+stamped+`,"x":1.0}`), putCmd{
		Files: []string{file(t, "a.csv", "id,_created_at,x\nb,2026-01-02T03:04:05Z,1.0\n"), "-", file(t, "b.jsonl", `{"id":"c",`+stamped+`}`)},
	})
	if got.code != 0 || got.err != nil {
		t.Fatalf("%+v", got)
	}
	want := []string{`{"id":"b",` + stamped + `,"x":"1.0"}`, `{"id":"a",` + stamped + `,"x":1.0}`, `{"id":"c",` + stamped + `}`}
	if diff := cmp.Diff(want, lines(t, s)); diff != "" {
		t.Fatal(diff)
	}
	var keys map[string]any
	_ = json.Unmarshal([]byte(got.stdout), &keys)
	for _, k := range []string{"dataset", "batch", "run", "rows", "rejected", "chunks", "bytes"} {
		if _, ok := keys[k]; !ok || len(keys) != 7 {
			t.Errorf("%s: %s", k, got.stdout)
		}
	}
	if got.res.Rows != 3 || got.res.Chunks != 1 {
		t.Errorf("%+v", got.res)
	}
}

func TestPutKeepsBadLinesOutAndSaysWhereTheyAre(t *testing.T) {
	s := mem.New()
	name := file(t, "x.jsonl", "{\"a\":1}\n{\"a\":\n"+strings.Repeat("nope\n", 30)+"{\"_batch\":\"b\"}\n{\"a\":2}\n")
	got := runPut(t.Context(), t, s, nil, putCmd{Files: []string{name}})
	if got.code != exitPartial || got.res.Rows != 2 || got.res.Rejected != 32 {
		t.Fatalf("%+v", got)
	}
	if !strings.Contains(got.stderr, name+":2: the line ends inside the object") || !strings.Contains(got.stderr, "and 12 more bad lines") ||
		strings.Count(got.stderr, name) != badLinesShown {
		t.Fatal(got.stderr)
	}
	if n := len(lines(t, s)); n != 2 {
		t.Fatalf("%d rows", n)
	}
}

func TestPutSaysOnceThatAFileIsATable(t *testing.T) {
	for name, c := range map[string]struct{ file, content, hint string }{
		"tabs":               {"x.tsv", "id\ttext\n1\tone\n2\ttwo\n", "a table with tabs or semicolons"},
		"semicolons":         {"x.txt", "id;text\n1;one\n", "a table with tabs or semicolons"},
		"commas":             {"x.txt", "id,text\n1,one\n2,two\n", "did you mean --format csv?"},
		"a bad first line":   {"x.jsonl", `{"a":1,"b":}` + "\n{}\n", ""},
		"a bad second line":  {"x.jsonl", "{}\nid,text\n", ""},
		"an array":           {"x.json", `["a","b"]` + "\n", ""},
		"said to be CSV":     {"x.csv", "id,text\n1,one,\n", ""},
		"prose, not a table": {"x.txt", "hello\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := runPut(t.Context(), t, mem.New(), nil, putCmd{Files: []string{file(t, c.file, c.content)}})
			n := strings.Count(got.stderr, "--format csv")
			if c.hint == "" && n != 0 || c.hint != "" && (n != 1 || !strings.Contains(got.stderr, c.hint)) || got.code != exitPartial {
				t.Errorf("exit %d: %s", got.code, got.stderr)
			}
		})
	}
}

func TestPutNamesTheColumnThatIsReserved(t *testing.T) {
	got := runPut(t.Context(), t, mem.New(), strings.NewReader("{\"a\":1}\n{\"_silt_raw\":1}\n"), putCmd{})
	if got.code != exitPartial || !strings.Contains(got.stderr, `stdin:2: the name "_silt_raw" is reserved; rename that column`) {
		t.Fatalf("%+v", got)
	}
}

func TestPutStrictStopsAtTheFirstBadLineAndKeepsWhatWasWritten(t *testing.T) {
	s := mem.New()
	got := runPut(t.Context(), t, s, strings.NewReader("{\"a\":1}\n{\"a\":2}\nnope\n{\"a\":3}\n"), putCmd{Strict: true})
	if got.code != exitFailed || got.res.Rows != 2 || got.res.Rejected != 1 || !strings.Contains(got.stderr, "stdin:3: ") || !strings.Contains(got.stderr, "2 rows are stored") {
		t.Fatalf("%+v", got)
	}
	if n := len(lines(t, s)); n != 2 {
		t.Fatalf("%d rows", n)
	}
}

func TestPutReadsTheOtherFilesWhereOneIsBroken(t *testing.T) {
	s := mem.New()
	got := runPut(t.Context(), t, s, nil, putCmd{Files: []string{
		file(t, "cut.gz", "\x1f\x8b\x08\x00"), file(t, "a.zip", "PK\x03\x04"), file(t, "good", "{}\n"),
	}})
	if got.code != exitFailed || got.res.Rows != 1 || !strings.Contains(got.stderr, "2 of 3 inputs could not be read") || !strings.Contains(got.stderr, "cut.gz: ") {
		t.Fatalf("%+v", got)
	}
}

func TestPutRefusesWrongUsageBeforeItWrites(t *testing.T) {
	empty, spaced, null, twice := ",", "a, ,b", "[null]", "a,a"
	for want, cmd := range map[string]putCmd{
		"no such file":      {Files: []string{"/does/not/exist"}},
		"is a directory":    {Files: []string{t.TempDir()}},
		"read once":         {Files: []string{"-", "-"}},
		"at least 1":        {ChunkRows: -1},
		`"," has an empty`:  {Dedup: &empty},
		"empty column name": {Dedup: &spaced},
		"null names no":     {Dedup: &null},
		"named twice":       {Dedup: &twice},
	} {
		s := mem.New()
		got := runPut(t.Context(), t, s, strings.NewReader("{}"), cmd)
		if got.code != exitUsage || got.stdout != "" || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %+v", want, got)
		}
		for range s.List(t.Context(), "", "") {
			t.Errorf("%s: something was written", want)
		}
	}
}

func TestPutSaysWhichColumnsOfDedupNoRowHas(t *testing.T) {
	for dedup, want := range map[string][]string{"": nil, "a,b": nil, "id,_created_at": nil, "a,text": {"text"}, "A,c.d": {"A", "c.d"}} {
		got := runPut(t.Context(), t, mem.New(), strings.NewReader("{\"a\":1}\n{\"b\":null,\"c\":{\"d\":1}}\n"), putCmd{Dedup: &dedup})
		if got.code != 0 || got.res.Rows != 2 || strings.Count(got.stderr, "none of these rows") != len(want) {
			t.Errorf("%q: %+v", dedup, got)
		}
		for _, name := range want {
			if !strings.Contains(got.stderr, fmt.Sprintf("column %q", name)) {
				t.Errorf("%q: %q", dedup, got.stderr)
			}
		}
	}
}

func TestPutDedupTellsAbsentFromEmpty(t *testing.T) {
	str := func(s string) *string { return &s }
	for _, c := range []struct {
		dedup *string
		want  []string
	}{
		{nil, nil},
		{str(""), []string{}},
		{str("text, lang"), []string{"text", "lang"}},
		{str(`["a,b"," "]`), []string{"a,b", " "}},
		{str("[]"), []string{}},
	} {
		s := mem.New()
		got := runPut(t.Context(), t, s, strings.NewReader("{}"), putCmd{Dedup: c.dedup})
		m, err := catalog.ReadRun(t.Context(), s, dataset.BatchID{Dataset: "d", Batch: "b"}, got.res.Run)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, m.DeduplicateOn); diff != "" {
			t.Error(diff)
		}
	}
}

// interrupter gives some lines, then the user's interrupt, then stands still.
type interrupter struct {
	r         io.Reader
	interrupt func()
	stop      chan struct{}
}

func (i interrupter) Read(b []byte) (int, error) {
	n, err := i.r.Read(b)
	if err != io.EOF {
		return n, err
	}
	i.interrupt()
	<-i.stop
	return 0, io.EOF
}

func TestPutStoresWhatWasReadWhenItIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := mem.New()
		in := interrupter{strings.NewReader("{\"a\":1}\n{\"a\":2}\n{\"a\":"), func() { synctest.Wait(); cancel() }, make(chan struct{})}
		got := runPut(ctx, t, s, in, putCmd{})
		close(in.stop)
		if got.code != exitInterrupted || got.res.Rows != 2 || !strings.Contains(got.stderr, "interrupted: 2 rows are stored, the input was read up to stdin:2") {
			t.Fatalf("%+v", got)
		}
		if n := len(lines(t, s)); n != 2 {
			t.Fatalf("%d rows", n)
		}
	})
}

func TestPutSaysWhatIsStoredWhenTheStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := objtest.NewFaulty(t, mem.New(), objtest.On(objtest.Put).Key("*_chunk_00001*").Fail(errors.New("disk is full")))
		var rows strings.Builder
		for i := range 25 {
			fmt.Fprintf(&rows, "{\"a\":%d}\n", i)
		}
		got := runPut(t.Context(), t, s, strings.NewReader(rows.String()), putCmd{ChunkRows: 10})
		if got.code != exitFailed || got.res.Rows != 15 || !strings.Contains(got.stderr, "15 rows are stored, 10 are not; failed chunks: 1") || !strings.Contains(got.stderr, "disk is full") {
			t.Fatalf("%+v", got)
		}
	})
}
