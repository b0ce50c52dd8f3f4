package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/producers"
	"github.com/siltstone-data/siltstone/query"
)

// The test binary is an annotator as well: started with this argument, and
// annotatorEnv set to the JSON of a testAnnotator, it is the process that annotate
// runs.
const (
	asAnnotator  = "annotator"
	annotatorEnv = "SILTSTONE_TEST_ANNOTATOR"
)

// testAnnotator is a process that notes each call in a file, as one that is paid
// for would be billed, and goes wrong where it is told to.
type testAnnotator struct {
	Calls  string        // the file; a line for each call
	Says   string        // what its annotations say
	Pause  time.Duration // before each answer
	Faulty bool          // see fault
	Hung   string        // a file; the one call that hangs makes it
}

func (a testAnnotator) run(in io.Reader, out io.Writer) error {
	calls, err := os.OpenFile(a.Calls, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer calls.Close()
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var q struct {
			ID    string
			Batch string
			Data  struct{ N int }
		}
		if err := json.Unmarshal(line, &q); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(calls, "%s %s\n", q.Batch, q.ID); err != nil {
			return err
		}
		if a.Pause > 0 {
			<-time.After(a.Pause)
		}
		if a.Faulty && a.fault(q.Data.N, out) {
			continue
		}
		if _, err := fmt.Fprintf(out, `{"data":{"said":%q,"n":%d},"metadata":{"cost_usd":0.01}}`+"\n", a.Says, q.Data.N); err != nil {
			return err
		}
	}
}

// fault does what is wrong with a row, if something is: an error on every 7th,
// garbage on every 11th, death on every 1,000th, and one that hangs.
func (a testAnnotator) fault(n int, out io.Writer) bool {
	switch {
	case n%1000 == 0:
		os.Exit(3)
	case n%7 == 0:
		fmt.Fprintf(out, `{"error":"status 50%d"}`+"\n", n%10)
	case n%11 == 0:
		fmt.Fprintln(out, `Traceback (most recent call last):`)
	case n == 1235:
		if f, err := os.OpenFile(a.Hung, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			f.Close()
			<-time.After(time.Hour)
		}
		return false
	default:
		return false
	}
	return true
}

// annotation is an annotate command over a dataset that is being tested.
type annotation struct {
	dir, name string
	child     testAnnotator
	args      []string
}

func (a annotation) start(t *testing.T) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	raw, err := json.Marshal(a.child)
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--dir", a.dir, "--json", "annotate", "corpus", "--annotator", a.name}, a.args...)
	cmd := command(t, append(args, "--", os.Args[0], asAnnotator)...)
	cmd.Env = append(cmd.Env, annotatorEnv+"="+string(raw))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Process.Signal(syscall.SIGCONT)
	})
	return cmd, &out, &errs
}

func (a annotation) run(t *testing.T) (producers.AnnotateResult, result) {
	t.Helper()
	cmd, out, errs := a.start(t)
	_ = cmd.Wait()
	r := result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
	var res producers.AnnotateResult
	if r.stdout != "" {
		if err := json.Unmarshal([]byte(r.stdout), &res); err != nil {
			t.Fatalf("%v: %s%s", err, r.stdout, r.stderr)
		}
	}
	return res, r
}

// callsIn counts the calls that a file has noted.
func callsIn(t *testing.T, file string) int {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return bytes.Count(raw, []byte("\n"))
}

// corpus is a merged dataset of numbered rows in two batches.
func corpus(t *testing.T, up *server, rows int) {
	t.Helper()
	for i, batch := range []string{"b1", "b 2"} {
		var in strings.Builder
		for n := i; n < rows; n += 2 {
			fmt.Fprintf(&in, `{"id":"r%06d","n":%d,"text":"row %d"}`+"\n", n, n, n)
		}
		must(t, in.String(), "--dir", up.dir, "put", "corpus", "--batch", batch, "--chunk-rows", "1000")
		up.settled(t, dataset.BatchID{Dataset: "corpus", Batch: batch})
	}
}

// said gives what each row's annotation says, from what readers see: merged rows
// with live annotations.
func said(t *testing.T, c siltstone.Config, annotator string) map[string]string {
	t.Helper()
	tool, err := siltstone.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer tool.Close()
	out := map[string]string{}
	for row, err := range tool.Export(t.Context(), "corpus", query.Annotators(annotator), query.Live()) {
		var none *query.NotFoundError
		if errors.As(err, &none) && none.What == "annotator" {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		var v map[string]any
		if err := json.Unmarshal(row.Raw, &v); err != nil {
			t.Fatal(err)
		}
		if _, twice := out[row.ID]; twice {
			t.Errorf("row %s comes twice", row.ID)
		}
		if s, ok := v[annotator+".said"].(string); ok {
			if v[annotator+".n"] != v["n"] {
				t.Errorf("row %s has the annotation of %v", row.ID, v[annotator+".n"])
			}
			out[row.ID] = s
		} else {
			out[row.ID] = ""
		}
	}
	return out
}

// wantAll checks that each of so many rows has an annotation.
func wantAll(t *testing.T, got map[string]string, rows int) {
	t.Helper()
	missing := 0
	for _, s := range got {
		if s == "" {
			missing++
		}
	}
	if len(got) != rows || missing > 0 {
		t.Errorf("%d rows, %d of them without an annotation; want %d rows and none", len(got), missing, rows)
	}
}

var leaseEnd = regexp.MustCompile(`is held by \S.* until 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// TestAnAnnotatorIsHeldByOneProcess: a second process is refused and told by
// whom; when the first is killed, the next one takes over when the lease has
// ended, and does exactly the rest.
func TestAnAnnotatorIsHeldByOneProcess(t *testing.T) {
	const rows = 2_000
	dir := t.TempDir()
	up := startUp(t, dir, mergeSoon...)
	corpus(t, up, rows)
	calls := filepath.Join(dir, "calls")
	a := annotation{dir: dir, name: "A", child: testAnnotator{Calls: calls, Says: "first", Pause: 20 * time.Millisecond},
		args: []string{"--lease", "3s", "--concurrency", "4", "--chunk-rows", "50"}}
	first, _, errs := a.start(t)
	await(t, "the first has made some calls", func() bool { return callsIn(t, calls) >= 150 })

	if _, r := a.run(t); r.code != exitRefused || !leaseEnd.MatchString(r.stderr) {
		t.Fatalf("the second: exit %d, %s", r.code, r.stderr)
	}
	_ = first.Process.Signal(syscall.SIGKILL)
	_ = first.Wait()
	if errs.Len() > 0 {
		t.Errorf("the first: %s", errs)
	}
	made := callsIn(t, calls)
	stored := 0
	for _, s := range said(t, up.config(t), "A") {
		if s != "" {
			stored++
		}
	}
	if lost := made - stored; lost < 0 || lost > 50+4 {
		t.Errorf("%d calls, %d annotations: more is lost than a chunk and the calls under way", made, stored)
	}
	a.child.Says, a.child.Pause = "second", 0
	a.args = append(a.args, "--wait", "30s")
	res, r := a.run(t)
	if r.code != 0 || int(res.Rows) != rows-stored || int(res.Calls) != rows-stored {
		t.Fatalf("exit %d, %+v, %s: %d rows were left", r.code, res, r.stderr, rows-stored)
	}
	wantAll(t, said(t, up.config(t), "A"), rows)
	if res, r = a.run(t); r.code != 0 || res.Calls != 0 {
		t.Fatalf("a run with nothing to do: exit %d, %+v, %s", r.code, res, r.stderr)
	}
}

// TestNoAnnotationIsLostOrPaidTwiceWhenWorkersAreKilled kills annotate at
// moments that a seed decides, while merges go on.
func TestNoAnnotationIsLostOrPaidTwiceWhenWorkersAreKilled(t *testing.T) {
	const rows, chunkRows, concurrency = 10_000, 100, 8
	points := *kills
	if testing.Short() {
		points = 2
	}
	dir := t.TempDir()
	up := startUp(t, dir, mergeSoon...)
	corpus(t, up, rows)
	t.Logf("replay with -kills %d -crash-seed %d", points, *crashSeed)
	rnd := rand.New(rand.NewPCG(*crashSeed, 5))
	for killed, layer := 0, 0; killed < points; layer++ {
		name := fmt.Sprintf("A%d", layer)
		calls := filepath.Join(dir, "calls-"+name)
		a := annotation{dir: dir, name: name, child: testAnnotator{Calls: calls, Says: name, Pause: time.Millisecond},
			args: []string{"--lease", "3s", "--wait", "60s", "--concurrency", fmt.Sprint(concurrency), "--chunk-rows", fmt.Sprint(chunkRows)}}
		times := 0
		for done := false; !done && killed < points; {
			cmd, _, errs := a.start(t)
			began := callsIn(t, calls)
			gone := make(chan struct{})
			go func() {
				_ = cmd.Wait()
				close(gone)
			}()
			await(t, "a call", func() bool {
				select {
				case <-gone:
					return true
				default:
					return callsIn(t, calls) > began
				}
			})
			select {
			case <-gone:
				done = true
			case <-time.After(time.Duration(rnd.IntN(500)) * time.Millisecond):
				_ = cmd.Process.Signal(syscall.SIGKILL)
				<-gone
				killed++
				times++
			}
			if done && cmd.ProcessState.ExitCode() != 0 {
				t.Fatalf("exit %d, %s", cmd.ProcessState.ExitCode(), errs)
			}
		}
		if _, r := a.run(t); r.code != 0 {
			t.Fatalf("exit %d, %s", r.code, r.stderr)
		}
		wantAll(t, said(t, up.config(t), name), rows)
		n := callsIn(t, calls)
		if most := rows + times*(chunkRows+concurrency); n < rows || n > most {
			t.Errorf("%s: %d calls for %d rows and %d kills; want at most %d", name, n, rows, times, most)
		}
		t.Logf("%s: killed %d times, %d calls beyond one for each of %d rows", name, times, n-rows, rows)
		for _, b := range []string{"b1", "b 2"} {
			up.settled(t, dataset.BatchID{Dataset: "corpus", Batch: b, Annotator: name})
		}
		wantAll(t, said(t, up.config(t), name), rows)
	}
	for line := range strings.Lines(must(t, "", "--dir", dir, "--json", "verify", "corpus")) {
		var found verifyLine
		if err := json.Unmarshal([]byte(line), &found); err != nil || len(found.Problems) > 0 {
			t.Errorf("verify: %v, %s", err, line)
		}
	}
}

// TestAStoppedWorkerChangesNothingWhenItGoesOn stops a worker for longer than
// its lease. Another one does the rest; then the first goes on, ends by itself,
// and what it stores late changes no view.
func TestAStoppedWorkerChangesNothingWhenItGoesOn(t *testing.T) {
	const rows = 3_000
	dir := t.TempDir()
	up := startUp(t, dir, mergeSoon...)
	corpus(t, up, rows)
	a := annotation{dir: dir, name: "A", child: testAnnotator{Calls: filepath.Join(dir, "calls"), Says: "first", Pause: 5 * time.Millisecond},
		args: []string{"--lease", "4s", "--concurrency", "4", "--chunk-rows", "100"}}
	first, out, errs := a.start(t)
	await(t, "the first has made some calls", func() bool { return callsIn(t, a.child.Calls) >= 350 })
	_ = first.Process.Signal(syscall.SIGSTOP)

	second := a
	second.child.Says, second.child.Pause = "second", 0
	second.args = append(second.args, "--wait", "30s")
	if res, r := second.run(t); r.code != 0 || res.Rows == 0 {
		t.Fatalf("exit %d, %+v, %s", r.code, res, r.stderr)
	}
	before := said(t, up.config(t), "A")
	wantAll(t, before, rows)

	_ = first.Process.Signal(syscall.SIGCONT)
	_ = first.Wait()
	if code := first.ProcessState.ExitCode(); code != exitRefused || !strings.Contains(errs.String(), "lease") {
		t.Errorf("the first: exit %d, %s%s", code, out, errs)
	}
	same := func(what string) {
		t.Helper()
		after := said(t, up.config(t), "A")
		if len(after) != len(before) {
			t.Errorf("%s: %d rows, were %d", what, len(after), len(before))
		}
		for id, s := range before {
			if after[id] != s {
				t.Fatalf("%s: row %s says %q, said %q", what, id, after[id], s)
			}
		}
	}
	same("once the first has ended")
	for _, b := range []string{"b1", "b 2"} {
		up.settled(t, dataset.BatchID{Dataset: "corpus", Batch: b, Annotator: "A"})
	}
	same("once all is merged")
}

// TestAFaultyAnnotatorCostsItsRowsAndNothingElse: each kind of failure is
// reported, the other rows are annotated, and the next run does the failed ones
// alone.
func TestAFaultyAnnotatorCostsItsRowsAndNothingElse(t *testing.T) {
	const rows = 2_500
	dir := t.TempDir()
	up := startUp(t, dir, mergeSoon...)
	corpus(t, up, rows)
	a := annotation{dir: dir, name: "A", args: []string{"--timeout", "2s", "--concurrency", "4"},
		child: testAnnotator{Calls: filepath.Join(dir, "calls"), Says: "yes", Faulty: true, Hung: filepath.Join(dir, "hung")}}
	res, r := a.run(t)
	want := map[producers.Kind]int64{producers.KindTimeout: 1}
	for n := range rows {
		switch {
		case n%1000 == 0:
			want[producers.KindDied]++
		case n%7 == 0:
			want[producers.KindError]++
		case n%11 == 0:
			want[producers.KindGarbage]++
		}
	}
	got := map[producers.Kind]int64{}
	failed := int64(0)
	for _, reason := range res.Reasons {
		got[reason.Kind] += reason.Rows
		failed += reason.Rows
	}
	if r.code != exitPartial || fmt.Sprint(got) != fmt.Sprint(want) || res.Failed != failed || res.Rows != rows-failed || res.Calls != rows {
		t.Fatalf("exit %d, %+v, want %v, %s", r.code, res, want, r.stderr)
	}
	for kind, n := range want {
		if !strings.Contains(r.stderr, "("+string(kind)+")") {
			t.Errorf("%d rows failed by %s, and nothing says so: %s", n, kind, r.stderr)
		}
	}
	before := callsIn(t, a.child.Calls)
	a.child.Faulty = false
	if res, r = a.run(t); r.code != 0 || res.Rows != failed || int64(callsIn(t, a.child.Calls)-before) != failed {
		t.Fatalf("exit %d, %+v, %s: %d had failed", r.code, res, r.stderr, failed)
	}
	wantAll(t, said(t, up.config(t), "A"), rows)
}

// TestAFollowerTakesWhatIsMergedLater, also what is merged while it is away.
func TestAFollowerTakesWhatIsMergedLater(t *testing.T) {
	dir := t.TempDir()
	up := startUp(t, dir, mergeSoon...)
	corpus(t, up, 500)
	a := annotation{dir: dir, name: "A", args: []string{"--follow", "--lease", "4s", "--wait", "60s"},
		child: testAnnotator{Calls: filepath.Join(dir, "calls"), Says: "yes"}}
	more := func(batch string, from, to int) {
		t.Helper()
		var in strings.Builder
		for n := from; n < to; n++ {
			fmt.Fprintf(&in, `{"id":"s%06d","n":%d}`+"\n", n, n)
		}
		must(t, in.String(), "--dir", dir, "put", "corpus", "--batch", batch)
	}
	follower, _, errs := a.start(t)
	all := func(rows int) {
		t.Helper()
		await(t, fmt.Sprintf("%d annotations", rows), func() bool {
			n := 0
			for _, s := range said(t, up.config(t), "A") {
				if s != "" {
					n++
				}
			}
			return n == rows
		})
	}
	all(500)
	more("b1", 0, 100) // of a batch that it has seen
	more("b3", 100, 200)
	all(700)
	_ = follower.Process.Signal(syscall.SIGTERM)
	_ = follower.Wait()
	if code := follower.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("exit %d, %s", code, errs)
	}
	more("b4", 200, 300)
	up.settled(t, dataset.BatchID{Dataset: "corpus", Batch: "b4"})
	a.start(t)
	all(800)
	more("b4", 300, 400)
	all(900)
	if n := callsIn(t, a.child.Calls); n != 900 {
		t.Errorf("%d calls for 900 rows", n)
	}
}

// TestAnInterruptedAnnotateStoresWhatIsDone, and a budget ends one in order.
func TestAnInterruptedAnnotateStoresWhatIsDone(t *testing.T) {
	dir := t.TempDir()
	up := startUp(t, dir, mergeSoon...)
	corpus(t, up, 1000)
	a := annotation{dir: dir, name: "A", args: []string{"--concurrency", "2"},
		child: testAnnotator{Calls: filepath.Join(dir, "calls"), Says: "yes", Pause: 20 * time.Millisecond}}
	cmd, out, errs := a.start(t)
	await(t, "some calls", func() bool { return callsIn(t, a.child.Calls) >= 30 })
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	var res producers.AnnotateResult
	if err := json.Unmarshal(out.Bytes(), &res); err != nil || cmd.ProcessState.ExitCode() != exitInterrupted || res.Failed != 0 {
		t.Fatalf("exit %d, %v, %s%s", cmd.ProcessState.ExitCode(), err, out, errs)
	}
	made := callsIn(t, a.child.Calls)
	if int(res.Rows) != made {
		t.Errorf("%d calls, %d annotations stored", made, res.Rows)
	}
	a.child.Pause, a.args = 0, append(a.args, "--budget", "cost_usd=1")
	res, r := a.run(t)
	if r.code != 0 || res.Stopped != producers.StoppedByBudget || res.Rows < 100 || res.Rows > 102 || !strings.Contains(r.stderr, "budget") {
		t.Fatalf("exit %d, %+v, %s", r.code, res, r.stderr)
	}
}

func TestAnnotateSaysWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	up := startUp(t, dir, "MERGE_QUIET=1h", "MERGE_MAX_AGE=2h")
	tool, err := siltstone.Open(t.Context(), up.config(t))
	if err != nil {
		t.Fatal(err)
	}
	defer tool.Close()
	w, err := tool.Writer(t.Context(), "corpus", "live")
	if err == nil {
		err = w.Write(t.Context(), json.RawMessage(`{"n":1}`))
	}
	if err == nil {
		err = w.Flush(t.Context()) // its run stays open, so nothing makes a merge due
	}
	if err != nil {
		t.Fatal(err)
	}
	a := annotation{dir: dir, name: "A", child: testAnnotator{Calls: filepath.Join(dir, "calls"), Says: "yes"}}
	if _, r := a.run(t); r.code != exitFailed || !strings.Contains(r.stderr, "`siltstone merge corpus`") {
		t.Errorf("nothing is merged: exit %d, %s", r.code, r.stderr)
	}
	must(t, "", "--dir", dir, "merge", "corpus")
	for what, c := range map[string]struct {
		args []string
		says string
	}{
		"a name that is none":     {[]string{"--annotator", "a/b"}, `"a/b"`},
		"a rate that is none":     {[]string{"--rate", "fast"}, "10/s"},
		"a budget that is none":   {[]string{"--budget", "5"}, "cost_usd=5"},
		"a filter that is none":   {[]string{"--where", `{"column":1}`}, "--where"},
		"a batch that is none":    {[]string{"--batch", "_x"}, `"_x"`},
		"no concurrency":          {[]string{"--concurrency", "0"}, "at least 1"},
		"a lease of no time":      {[]string{"--lease", "1s"}, "at least 2s"},
		"a chunk without any row": {[]string{"--chunk-rows", "0"}, "chunk"},
	} {
		b := a
		b.args = c.args
		if _, r := b.run(t); r.code != exitUsage || !strings.Contains(r.stderr, c.says) || strings.Contains(r.stderr, "goroutine") {
			t.Errorf("%s: exit %d, %s", what, r.code, r.stderr)
		}
	}
	r := finished(t, "", "--dir", dir, "annotate", "corpus", "--annotator", "A", "--", "no-such-program")
	if r.code != exitUsage || !strings.Contains(r.stderr, "no-such-program") {
		t.Errorf("a command that is not there: exit %d, %s", r.code, r.stderr)
	}
	r = finished(t, "", "--dir", dir, "annotate", "corpus", "--annotator", "A", "--concurrency", "1", "--", "false")
	if r.code != exitFailed && r.code != exitPartial {
		t.Errorf("a command that only ends: exit %d, %s", r.code, r.stderr)
	}
	r = finished(t, "", "--dir", dir, "annotate", "typo", "--annotator", "A", "--", "cat")
	if r.code != exitFailed || !strings.Contains(r.stderr, "typo") {
		t.Errorf("a dataset that is not there: exit %d, %s", r.code, r.stderr)
	}
}
