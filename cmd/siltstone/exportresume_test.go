package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/query"
)

// What a child process is told about exports that can be resumed.
const (
	stretchEnv = "SILTSTONE_TEST_STRETCH" // bytes of a stretch
	dieEnv     = "SILTSTONE_TEST_DIE"     // STEP:N: killed at the N-th time of a step, from 1
)

// exportAsTold sets a child process up.
func exportAsTold() error {
	if text := os.Getenv(stretchEnv); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return err
		}
		stretchBytes = n
	}
	step, text, ok := strings.Cut(os.Getenv(dieEnv), ":")
	if !ok {
		return nil
	}
	n, err := strconv.Atoi(text)
	exportStep = func(at string) {
		if at != step {
			return
		}
		if n--; n == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	return err
}

var resumeKills = flag.Int("resume-kills", 10, "how many exports are killed at seeded points, for each form of output")

// exportLake is a server with 3,000 rows in two batches, and a layer of each third row.
func exportLake(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	startUp(t, dir, "HISTORY_MAX_AGE=1h", "MERGE_QUIET=1h", "MERGE_MAX_AGE=2h")
	for _, b := range []string{"x", "y"} {
		var rows strings.Builder
		for i := range 1500 {
			fmt.Fprintf(&rows, `{"id":"%s%05d","n":%d,"t":"%s"}`+"\n", map[string]string{"x": "", "y": "0"}[b], i*7, (i*7919)%1500, strings.Repeat("text ", i%40))
		}
		must(t, rows.String(), "--dir", dir, "put", "d", "--batch", b, "-")
	}
	must(t, "", "--dir", dir, "merge", "d")
	script := filepath.Join(dir, "third.sh")
	if err := os.WriteFile(script, []byte("while read -r line; do case $line in *[036]'\",\"batch'*) echo '{\"data\":{\"hit\":true}}';; *) echo '{\"error\":\"none\"}';; esac; done\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	finished(t, "", "--dir", dir, "annotate", "d", "--annotator", "third", "--columns", "n", "--concurrency", "1", "--", "sh", script)
	must(t, "", "--dir", dir, "merge", "d")
	return dir
}

// dies starts an export that dies at a step, or is killed after a while; false: it
// came to its end before.
func dies(t *testing.T, args []string, step string, after time.Duration) bool {
	t.Helper()
	cmd := command(t, args...)
	cmd.Env = append(cmd.Env, stretchEnv+"=20000")
	if step != "" {
		cmd.Env = append(cmd.Env, dieEnv+"="+step)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if step == "" {
		timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
	}
	return cmd.Wait() != nil
}

// resumes runs an export to its end.
func resumes(t *testing.T, args []string) result {
	t.Helper()
	cmd := command(t, args...)
	cmd.Env = append(cmd.Env, stretchEnv+"=20000")
	return ended(t, cmd)
}

// ended runs a command to its end.
func ended(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// TestAnExportThatIsKilledGoesOnWhereItWas kills exports at seeded points, merges
// new rows in between, and compares what comes out with what one run gives.
func TestAnExportThatIsKilledGoesOnWhereItWas(t *testing.T) {
	dir := exportLake(t)
	filter := `{"any":[{"layer":"third","column":"hit","is":true},{"column":"n","op":"lt","value":1100}]}`
	forms := map[string][]string{
		"rows.ndjson":    {},
		"rows.ndjson.gz": {"--annotators", "third"},
		"rows.csv":       {"--columns", "n,t,third.hit", "--annotators", "third", "--where", filter},
		"sorted.csv.gz":  {"--columns", "n,t", "--sort", "n:desc"},
		"few.ndjson":     {"--limit", "1700", "--where", filter},
	}
	kills := *resumeKills
	if testing.Short() {
		kills = 4
	}
	rnd := rand.New(rand.NewPCG(*crashSeed, 3))
	t.Logf("replay with -resume-kills %d -crash-seed %d", kills, *crashSeed)
	for _, name := range slices.Sorted(maps.Keys(forms)) {
		t.Run(name, func(t *testing.T) {
			want := filepath.Join(t.TempDir(), name)
			args := append([]string{"--dir", dir, "export", "d"}, forms[name]...)
			if r := resumes(t, append(slices.Clone(args), "-o", want)); r.code != 0 {
				t.Fatal(r.stderr)
			}
			path := filepath.Join(t.TempDir(), name)
			args = append(args, "--resume", "-o", path)
			killed := 0
			more := dies(t, args, "saved:1", 0) // the view is pinned
			for ; more && killed < kills; killed++ {
				if killed < 2 { // nobody who goes on sees this
					must(t, fmt.Sprintf(`{"id":"%05d-new","n":%d}`+"\n", rnd.IntN(10000), killed), "--dir", dir, "put", "d", "--batch", "x", "-")
					must(t, "", "--dir", dir, "merge", "d")
				}
				switch step := rnd.IntN(4); step {
				case 0:
					more = dies(t, args, "", time.Duration(rnd.IntN(100))*time.Millisecond)
				case 1:
					more = dies(t, args, fmt.Sprintf("synced:%d", 1+rnd.IntN(3)), 0)
				default:
					more = dies(t, args, fmt.Sprintf("saved:%d", 1+rnd.IntN(3)), 0)
				}
			}
			if more {
				if r := resumes(t, args); r.code != 0 {
					t.Fatal(r.stderr)
				}
			}
			if killed < min(kills, 4) {
				t.Errorf("killed %d times", killed)
			}
			sameFiles(t, path, want)
			r, w := manifestOf(t, path), manifestOf(t, want)
			if r.SHA256 != w.SHA256 || r.Rows != w.Rows || r.Batches[0] != w.Batches[0] {
				t.Errorf("%+v\n%+v", r, w)
			}
			if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 3 || err != nil {
				t.Errorf("left: %v", left)
			}
			if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) != 0 || err != nil {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func sameFiles(t *testing.T, a, b string) {
	t.Helper()
	x, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := os.ReadFile(b)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(x, y) {
		n := 0
		for n < min(len(x), len(y)) && x[n] == y[n] {
			n++
		}
		t.Errorf("%s has %d bytes, %s has %d, and they differ at %d", a, len(x), b, len(y), n)
	}
}

func manifestOf(t *testing.T, path string) (m exportManifest) {
	t.Helper()
	raw, err := os.ReadFile(path + manifestSuffix)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestAnExportThatDiesAtItsEndIsWholeAfterTheNext dies at each step after the last
// row.
func TestAnExportThatDiesAtItsEndIsWholeAfterTheNext(t *testing.T) {
	dir := exportLake(t)
	want := filepath.Join(t.TempDir(), "rows.ndjson")
	must(t, "", "--dir", dir, "export", "d", "-o", want)
	for _, step := range []string{"synced:1", "saved:1", "renamed:1", "manifest:1"} {
		path := filepath.Join(t.TempDir(), "rows.ndjson")
		if err := os.WriteFile(path, []byte("old"), 0o640); err != nil {
			t.Fatal(err)
		}
		args := []string{"--dir", dir, "export", "d", "--resume", "-o", path}
		cmd := command(t, args...)
		// With one stretch for all rows the first save is the pinning, the second the end.
		at := strings.Replace(step, ":1", map[bool]string{true: ":2", false: ":1"}[strings.HasPrefix(step, "s")], 1)
		cmd.Env = append(cmd.Env, dieEnv+"="+at)
		if r := ended(t, cmd); r.code != -1 {
			t.Fatalf("%s: exit %d: %s", step, r.code, r.stderr)
		}
		if r := finished(t, "", args...); r.code != 0 || !strings.Contains(r.stderr, "3000 rows in") {
			t.Errorf("%s: exit %d: %s", step, r.code, r.stderr)
		}
		sameFiles(t, path, want)
		if m := manifestOf(t, path); m.Rows != 3000 {
			t.Errorf("%s: %+v", step, m)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%s: %v %v", step, info.Mode(), err)
		}
		if left, err := filepath.Glob(path + "*"); len(left) != 3 || err != nil {
			t.Errorf("%s: left: %v", step, left)
		}
	}
}

func TestAnExportThatCannotGoOnSaysWhy(t *testing.T) {
	e := newExporter(t)
	var lines []string
	for i := range 200 {
		lines = append(lines, fmt.Sprintf(`{"id":"%04d","t":"%s"}`, i, strings.Repeat("x", 500)))
	}
	e.merged(t, lines...)
	old := stretchBytes
	stretchBytes = 10_000
	defer func() { stretchBytes = old }()
	path := filepath.Join(t.TempDir(), "rows.ndjson")
	c := exportCmd{Output: path, Resume: true}
	begin := func() {
		t.Helper()
		saved := 0
		exportStep = func(step string) {
			if step == "saved" {
				saved++
			}
			if saved == 4 {
				panic("killed")
			}
		}
		defer func() { exportStep = func(string) {}; _ = recover() }()
		e.export(t, c)
	}
	says := func(c exportCmd, code int, want ...string) {
		t.Helper()
		if got := e.export(t, c); got != code {
			t.Errorf("exit %d: %s", got, e.errs.String())
		}
		for _, w := range want {
			if !strings.Contains(e.errs.String(), w) {
				t.Errorf("stderr lacks %q: %s", w, e.errs.String())
			}
		}
	}
	begin()
	limit := int64(7)
	says(exportCmd{Output: path, Resume: true, Columns: []string{"t"}, Limit: &limit}, exitUsage, "begun with another value of --columns, --limit", "remove "+path+stateSuffix)
	says(exportCmd{Output: path, Resume: true, Where: `{"column":"t","op":"eq","value":1}`}, exitUsage, "--where")

	raw, err := os.ReadFile(path + partialSuffix)
	if err != nil {
		t.Fatal(err)
	}
	raw[10]++
	rewrite(t, path+partialSuffix, raw)
	says(c, exitFailed, "has other bytes than were written", "to start anew")
	rewrite(t, path+partialSuffix, raw[:100])
	says(c, exitFailed, "has 100 bytes")
	state, err := os.ReadFile(path + stateSuffix)
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, path+stateSuffix, state[:50])
	says(c, exitFailed, "read "+path+stateSuffix)
	rewrite(t, path+stateSuffix, bytes.Replace(state, []byte(`"version":1`), []byte(`"version":2`), 1))
	says(c, exitFailed, "version 2")
	if err := os.Remove(path + stateSuffix); err != nil {
		t.Fatal(err)
	}
	says(c, exitFailed, "no rows.ndjson.resume says what it holds")
	if err := os.Remove(path + partialSuffix); err != nil {
		t.Fatal(err)
	}

	begin()
	e.merged(t, `{"id":"0000a"}`) // replaces the block
	if err := e.store.Delete(t.Context(), "d/b/merged_00000.jsonl.gz"); err != nil {
		t.Fatal(err)
	}
	says(c, exitFailed, "cannot go on where it was", "was replaced and is gone", "HISTORY_MAX_AGE", "remove "+path+stateSuffix)
	other := filepath.Join(t.TempDir(), "other.ndjson")
	p, err := openPartial(other)
	if err != nil {
		t.Fatal(err)
	}
	says(exportCmd{Output: other, Resume: true}, exitRefused, "another export writes it")
	p.discard()
	for _, c := range []exportCmd{
		{Resume: true}, {Resume: true, Output: "s3://b/k"}, {Resume: true, Output: "x.parquet"}, {Resume: true, Output: "x.csv"},
		{Resume: true, Output: "x.csv", Columns: []string{"t"}, Annotators: []string{"a"}}, {Resume: true, Output: "x", Live: true},
	} {
		says(c, exitUsage, "--resume")
	}
	if left, err := filepath.Glob(other + "*"); len(left) != 0 || err != nil {
		t.Errorf("left: %v", left)
	}
}

func rewrite(t *testing.T, path string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAResumeStateReadsBackAsItWas(t *testing.T) {
	limit := int64(9)
	s := resumeState{
		Version: resumeVersion, Request: exportRequest{Dataset: "d<", Columns: []string{}, Where: json.RawMessage(`{"all":[]}`), Sort: []query.SortBy{{Column: "x", Desc: true}}, Limit: &limit},
		Pins: query.Pins{Batches: []query.Pin{{Batch: "b", Generation: 3, Commit: "c", Rows: 9}}, Layers: map[string][]query.Pin{"a": nil}},
		Rows: 2, Raw: 3, Bytes: 4, SHA256: strings.Repeat("ab", 32), Missing: []string{"m"},
	}
	raw, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeResume(raw)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := got.encode(); err != nil || !bytes.Equal(raw, again) || got.Request.differs(s.Request) != nil {
		t.Errorf("%s\n%s\n%v", raw, again, err)
	}
}

func FuzzDecodeResume(f *testing.F) {
	s := resumeState{Version: resumeVersion, Request: exportRequest{Dataset: "d"}, SHA256: strings.Repeat("0", 64)}
	raw, err := s.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	s.Rows, s.After = 1, &query.Cursor{ID: "a", Batch: "b"}
	if raw, err = s.encode(); err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"version":1,"request":{},"rows":-1}`))
	f.Add([]byte(`{"version":1}{}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := decodeResume(raw)
		if err != nil {
			return
		}
		again, err := s.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeResume(again)
		if err != nil {
			t.Fatalf("%v in %s", err, again)
		}
		if twice, err := got.encode(); err != nil || !bytes.Equal(again, twice) {
			t.Fatalf("%s, then %s, %v", again, twice, err)
		}
	})
}
