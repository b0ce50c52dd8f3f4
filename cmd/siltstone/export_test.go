package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

// exporter is an app over a store in memory.
type exporter struct {
	*app
	out, errs bytes.Buffer
	chunks    int
}

func newExporter(t *testing.T) *exporter {
	t.Helper()
	e := &exporter{}
	e.app = &app{store: mem.New(), registry: prometheus.NewRegistry(), workDir: t.TempDir(), log: slog.New(slog.DiscardHandler), stdout: &e.out, stderr: &e.errs}
	return e
}

// live stores rows as a live chunk of d/b, and merged merges them too.
func (e *exporter) live(t *testing.T, lines ...string) {
	t.Helper()
	key := dataset.BatchID{Dataset: "d", Batch: "b"}.ChunkKey("abc123", e.chunks)
	e.chunks++
	if _, err := e.store.Put(t.Context(), key, []byte(strings.Join(lines, "\n")), objstore.IfAbsent()); err != nil {
		t.Fatal(err)
	}
}

func (e *exporter) merged(t *testing.T, lines ...string) {
	t.Helper()
	e.live(t, lines...)
	e.registry = prometheus.NewRegistry() // of another process
	if err := (&mergeCmd{Target: "d"}).Run(t.Context(), e.app); err != nil {
		t.Fatal(err)
	}
	e.out.Reset()
	e.errs.Reset()
}

// export runs the command and gives its exit code.
func (e *exporter) export(t *testing.T, c exportCmd) int {
	t.Helper()
	e.out.Reset()
	e.errs.Reset()
	if c.Dataset == "" {
		c.Dataset = "d"
	}
	return exitCode(c.Run(t.Context(), e.app), e.stderr)
}

func (e *exporter) wants(t *testing.T, c exportCmd, stdout string, inStderr ...string) {
	t.Helper()
	if code := e.export(t, c); code != 0 {
		t.Errorf("%+v: exit %d: %s", c, code, e.errs.String())
	}
	if diff := cmp.Diff(stdout, e.out.String()); diff != "" {
		t.Errorf("%+v: stdout (-want +got):\n%s", c, diff)
	}
	for _, s := range inStderr {
		if !strings.Contains(e.errs.String(), s) {
			t.Errorf("%+v: stderr lacks %q: %s", c, s, e.errs.String())
		}
	}
	if len(inStderr) == 0 && e.errs.Len() > 0 {
		t.Errorf("%+v: stderr: %s", c, e.errs.String())
	}
}

func TestExportWritesStoredLinesAndSaysWhatIsLeftOut(t *testing.T) {
	e := newExporter(t)
	e.merged(t, `{"id":"b", "x" : 1.0}`, `{"id":"a","t":"=1"}`)
	e.wants(t, exportCmd{}, `{"id":"a","t":"=1"}`+"\n"+`{"id":"b", "x" : 1.0}`+"\n")
	e.live(t, `{"id":"c"}`, `{"id":"d"}`, "no row")
	e.wants(t, exportCmd{}, `{"id":"a","t":"=1"}`+"\n"+`{"id":"b", "x" : 1.0}`+"\n", "2 rows not merged yet")
	e.wants(t, exportCmd{Live: true, Columns: []string{"x", "_batch"}},
		`{"id":"a","_batch":"b"}`+"\n"+`{"id":"b","x":1.0,"_batch":"b"}`+"\n"+`{"id":"c","_batch":"b"}`+"\n"+`{"id":"d","_batch":"b"}`+"\n",
		"1 line of live chunks that could not be read")
	e.wants(t, exportCmd{Live: true, Format: "csv"}, "id,_created_at,t,x\na,,'=1,\nb,,,1.0\nc,,,\nd,,,\n", "1 line of live chunks")
	for n, want := range []string{"", `{"id":"a","t":"=1"}` + "\n"} {
		limit := int64(n)
		e.wants(t, exportCmd{Limit: &limit, Batch: []string{"b"}}, want, "not merged")
	}
	e.wants(t, exportCmd{Columns: []string{"tt"}}, `{"id":"a"}`+"\n"+`{"id":"b"}`+"\n", `no exported row has a column "tt"`)
}

func TestExportEndsWithTheCodeOfWhatHappened(t *testing.T) {
	e := newExporter(t)
	e.live(t, `{"id":"c"}`)
	minus := int64(-1)
	tests := []struct {
		c    exportCmd
		code int
		says string
	}{
		{exportCmd{}, exitFailed, "1 row is live; add --live"},
		{exportCmd{Dataset: "dd"}, exitFailed, `did you mean "d"?`},
		{exportCmd{Batch: []string{"x"}, Live: true}, exitFailed, `did you mean "b"?`},
		{exportCmd{Dataset: "a/b"}, exitUsage, "must not contain /"},
		{exportCmd{Batch: []string{"annotations"}}, exitUsage, "reserved"},
		{exportCmd{Limit: &minus}, exitUsage, "--limit -1"},
		{exportCmd{Output: "https://b/k"}, exitUsage, "s3://BUCKET/KEY"},
		{exportCmd{Output: "s3://b"}, exitUsage, "s3://BUCKET/KEY"},
		{exportCmd{Output: "s3://b/k/"}, exitUsage, "slash"},
		{exportCmd{Output: "x.parquet.gz"}, exitUsage, "leave .gz out"},
		{exportCmd{Output: filepath.Join(t.TempDir(), "none", "x")}, exitFailed, "no such file or directory"},
		{exportCmd{Output: t.TempDir()}, exitFailed, "it is a folder"},
	}
	for _, tt := range tests {
		if code := e.export(t, tt.c); code != tt.code || !strings.Contains(e.errs.String(), tt.says) || e.out.Len() > 0 {
			t.Errorf("%+v: exit %d, %q, %q", tt.c, code, e.out.String(), e.errs.String())
		}
	}
}

func TestAnExportedFileAppearsWholeOrNotAtAll(t *testing.T) {
	e := newExporter(t)
	e.merged(t, `{"id":"a","v":1}`, `{"id":"b"}`)
	dir := t.TempDir()
	path := filepath.Join(dir, "out.csv")
	link := filepath.Join(dir, "link.csv")
	if err := os.WriteFile(path, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}

	damaged := *e.app
	damaged.store = cutBlocks{e.store}
	if code := exitCode((&exportCmd{Dataset: "d", Output: path}).Run(t.Context(), &damaged), e.stderr); code != exitFailed {
		t.Errorf("exit %d", code)
	}
	if !strings.Contains(e.errs.String(), "was not written") {
		t.Error(e.errs.String())
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (&exportCmd{Dataset: "d", Output: path}).Run(cancelled, e.app); err == nil {
		t.Error("a cancelled export succeeded")
	}
	wantFile(t, path, "old")

	e.wants(t, exportCmd{Output: link}, "", "2 rows in "+link)
	wantFile(t, path, "id,_created_at,v\na,,1\nb,,\n")
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link became %v, %v", info.Mode(), err)
	}

	zipped := filepath.Join(dir, "rows.JSONL.gz")
	e.wants(t, exportCmd{Output: zipped}, "", "2 rows")
	f, err := os.Open(zipped)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := io.ReadAll(zr); err != nil || string(raw) != `{"id":"a","v":1}`+"\n"+`{"id":"b"}`+"\n" {
		t.Errorf("%q %v", raw, err)
	}
	for _, folder := range []string{dir, e.workDir} {
		left, err := filepath.Glob(filepath.Join(folder, "*tmp*"))
		hidden, err2 := filepath.Glob(filepath.Join(folder, ".*"))
		if len(left)+len(hidden) > 0 || err != nil || err2 != nil {
			t.Errorf("left behind: %v %v", left, hidden)
		}
	}
	e.wants(t, exportCmd{Output: os.DevNull}, "", "2 rows")
}

func TestExportGivesAResultObject(t *testing.T) {
	e := newExporter(t)
	e.merged(t, `{"id":"a"}`)
	e.live(t, `{"id":"b"}`, `{"id":"c"}`)
	e.json = true
	path := filepath.Join(t.TempDir(), "out.ndjson")
	want := exportResult{Dataset: "d", Rows: 1, LeftOut: LeftOut{LiveRows: 2, LiveRowsExact: true, LiveAnnotationsExact: true}, Format: "ndjson", Bytes: 11}
	for _, tt := range []struct {
		c    exportCmd
		from *bytes.Buffer
	}{{exportCmd{}, &e.errs}, {exportCmd{Output: "-"}, &e.errs}, {exportCmd{Output: path}, &e.out}, {exportCmd{Output: path, Live: true}, &e.out}} {
		if code := e.export(t, tt.c); code != 0 {
			t.Fatal(e.errs.String())
		}
		var got exportResult
		if err := json.Unmarshal(tt.from.Bytes(), &got); err != nil {
			t.Fatalf("%v: %q", err, tt.from.String())
		}
		want := want
		if want.File = tt.c.Output; want.File == "-" {
			want.File = ""
		}
		if tt.c.Live {
			want.Rows, want.Bytes, want.Live = 3, 33, true
		}
		if tt.c.Output == path {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want.FileBytes, want.SHA256, want.Manifest = want.Bytes, sha256Of(raw), path+manifestSuffix
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAReaderThatHasEnoughEndsAnExportQuietly(t *testing.T) {
	e := newExporter(t)
	var lines []string
	for i := range 3000 {
		lines = append(lines, fmt.Sprintf(`{"id":"%04d","t":"%s"}`, i, strings.Repeat("x", 500)))
	}
	e.merged(t, lines...)
	for _, format := range []string{"ndjson", "csv"} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		e.stdout = w
		if code := e.export(t, exportCmd{Format: format}); code != 0 || e.errs.Len() > 0 {
			t.Errorf("%s: exit %d: %s", format, code, e.errs.String())
		}
		w.Close()
		full := errors.New("disk full")
		e.stdout = failing{full}
		if code := e.export(t, exportCmd{Format: format}); code != exitFailed || !strings.Contains(e.errs.String(), full.Error()) {
			t.Errorf("%s: exit %d: %s", format, code, e.errs.String())
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// cutBlocks gives blocks without their last bytes.
type cutBlocks struct{ objstore.Store }

func (c cutBlocks) Get(ctx context.Context, key string, s objstore.Span) (io.ReadCloser, objstore.Info, error) {
	r, info, err := c.Store.Get(ctx, key, s)
	if err == nil && strings.HasSuffix(key, ".gz") {
		return struct {
			io.Reader
			io.Closer
		}{io.LimitReader(r, info.Size-3), r}, info, nil
	}
	return r, info, err
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestExportSaysWhatAnotherToolHasLeft(t *testing.T) {
	e := newExporter(t)
	e.merged(t, `{"id":"a"}`)
	if _, err := e.store.Put(t.Context(), "d/old/manifest.yaml", []byte("rows: 1\n"), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	const hint = "`siltstone merge d` does it"
	if code := e.export(t, exportCmd{}); code != 0 || !strings.Contains(e.errs.String(), "1 batch of another tool") || !strings.Contains(e.errs.String(), hint) {
		t.Errorf("%d %s", code, e.errs.String())
	}
	for _, c := range []exportCmd{{Live: true}, {Batch: []string{"old"}}} {
		if code := e.export(t, c); code != exitFailed || e.out.Len() > 0 || !strings.Contains(e.errs.String(), hint) {
			t.Errorf("%+v: %d %s", c, code, e.errs.String())
		}
	}
}

func TestExportFlagsTakeNamesAsTheyAre(t *testing.T) {
	for args, want := range map[string]exportCmd{
		"d --columns a,b,_batch":       {Dataset: "d", Columns: []string{"a", "b", "_batch"}},
		`d --columns a\,b`:             {Dataset: "d", Columns: []string{"a,b"}},
		"d --batch a,b --batch c":      {Dataset: "d", Batch: []string{"a,b", "c"}},
		"d --format csv --live -o x":   {Dataset: "d", Format: "csv", Live: true, Output: "x"},
		"d --format=ndjson --output=-": {Dataset: "d", Format: "ndjson", Output: "-"},
		"日本語 --batch 50% --batch a+b":  {Dataset: "日本語", Batch: []string{"50%", "a+b"}},
	} {
		var c exportCmd
		p, err := kong.New(&c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Parse(strings.Fields(args)); err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		if diff := cmp.Diff(want, c); diff != "" {
			t.Errorf("%s: %s", args, diff)
		}
	}
	var c exportCmd
	p, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Parse([]string{"d", "--format", "avro"}); err == nil {
		t.Error("--format avro was taken")
	}
	if _, err := p.Parse([]string{"d", "--limit", "0", "--columns", ""}); err != nil || c.Limit == nil || *c.Limit != 0 || c.Columns == nil {
		t.Errorf("%+v %v", c, err)
	}
}

func sha256Of(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
