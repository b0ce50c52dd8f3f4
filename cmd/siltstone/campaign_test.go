package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
)

// mergeSoon lets servers merge all the time, and go over to parquet blocks
// early, so that there is something to convert.
var mergeSoon = []string{"MERGE_QUIET=150ms", "MERGE_MAX_AGE=500ms", "JSONL_MERGE_MAX_DATASET_BYTES=100KB", "LOG_LEVEL=info"}

// campaign kills servers, and commands beside them, at points that a seed
// decides, while writers write. A point depends on the seed and its number alone,
// and after every leg of points all is merged and compared, so a campaign that was
// interrupted goes on at the last leg.
type campaign struct {
	dir     string
	stream  uint64 // tells campaigns of one seed apart
	pause   time.Duration
	servers []*server
	again   func(t *testing.T, i int) *server // starts a server again

	acknowledged, came int
	commands, killed   int
	failures           []string // what servers said of jobs
}

const legPoints = 25

func (c *campaign) run(t *testing.T, points int) {
	t.Helper()
	for from := *crashFrom; from < points && !t.Failed(); from += legPoints {
		to := min(from+legPoints, points)
		t.Logf("points %d to %d; replay with -kills %d -crash-seed %d -crash-from %d", from, to-1, to, *crashSeed, from)
		c.leg(t, from, to)
	}
	t.Logf("%d points: %d rows acknowledged, %d exported; %d commands, %d of them killed in flight",
		max(points-*crashFrom, 0), c.acknowledged, c.came, c.commands, c.killed)
}

// leg does some points over batches of its own, and compares what comes out with
// what was acknowledged.
func (c *campaign) leg(t *testing.T, from, to int) {
	t.Helper()
	name := "crash"
	plain := dataset.BatchID{Dataset: name, Batch: fmt.Sprintf("plain-%d", from)}
	deduplicated := dataset.BatchID{Dataset: name, Batch: fmt.Sprintf("deduplicated-%d", from)}
	stop := startWriters(t, c.servers[0].config(t), plain, deduplicated)
	for n := from; n < to; n++ {
		rnd := rand.New(rand.NewPCG(*crashSeed, c.stream<<32|uint64(n)))
		c.point(t, rnd, name)
	}
	writers := stop()
	began := time.Now()
	for _, b := range []dataset.BatchID{plain, deduplicated} {
		c.servers[0].settled(t, b)
		t.Logf("%s was settled after %s", b, time.Since(began).Round(100*time.Millisecond))
		if out := must(t, "", "--dir", c.dir, "verify", b.Dataset+"/"+b.Batch); strings.Contains(out, "PROBLEM") {
			t.Fatal(out)
		}
	}
	for _, s := range c.servers {
		c.failures = append(c.failures, s.log.failures()...)
	}
	for _, line := range c.failures {
		t.Log(line)
	}
	c.failures = nil
	acknowledged, came := checkPlain(t, c.dir, plain, writers)
	moreAcknowledged, more := checkDeduplicated(t, c.dir, deduplicated, writers)
	t.Logf("%d rows acknowledged, %d exported; deduplicated: %d, %d", acknowledged, came, moreAcknowledged, more)
	c.acknowledged, c.came = c.acknowledged+acknowledged, c.came+came
}

// point kills a server at a moment, and starts it again; at most points a command
// runs beside it, and is killed at a moment of its own.
func (c *campaign) point(t *testing.T, rnd *rand.Rand, name string) {
	t.Helper()
	i := rnd.IntN(len(c.servers))
	pause := time.Duration(rnd.Int64N(int64(c.pause)))
	kind := rnd.IntN(6)
	before, life := time.Duration(rnd.Int64N(int64(c.pause))), time.Duration(rnd.Int64N(int64(2*c.pause)))
	if kind == 0 {
		wait(pause)
		c.kill(t, i)
		return
	}
	args := [][]string{
		{"merge", name},
		{"convert", name},
		{"gc", name, "--grace", "0s"},
		{"gc", name, "--dry-run", "--grace", "0s"},
		{"verify", name, "--repair", "--json"},
	}[kind-1]
	var both sync.WaitGroup
	both.Go(func() {
		wait(before)
		c.command(t, life, args...)
	})
	wait(pause)
	c.kill(t, i)
	both.Wait()
}

func wait(d time.Duration) { <-time.After(d) }

func (c *campaign) kill(t *testing.T, i int) {
	t.Helper()
	c.servers[i].stop(syscall.SIGKILL)
	c.failures = append(c.failures, c.servers[i].log.failures()...)
	c.servers[i] = c.again(t, i)
}

// command starts a command and kills it unless it ends sooner. It may fail, since
// its store goes away; but it must not find a problem.
func (c *campaign) command(t *testing.T, life time.Duration, args ...string) {
	cmd := command(t, append([]string{"--dir", c.dir}, args...)...)
	cmd.Env = append(cmd.Env, mergeSoon...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return
	}
	c.commands++
	end := time.AfterFunc(life, func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
	_ = cmd.Wait()
	if end.Stop() {
		checkCommand(t, args, cmd, out.String(), errs.String())
		return
	}
	c.killed++
}

func checkCommand(t *testing.T, args []string, cmd *exec.Cmd, out, errs string) {
	if code := cmd.ProcessState.ExitCode(); code != 0 && code != exitFailed && code != exitPartial || strings.Contains(errs, "panic") {
		t.Errorf("siltstone %v: exit %d\n%s%s", args, code, out, errs)
	}
	if args[0] != "verify" {
		return
	}
	for line := range strings.Lines(out) {
		var found verifyLine
		if err := json.Unmarshal([]byte(line), &found); err != nil || len(found.Problems) > 0 {
			t.Errorf("siltstone %v: %v, %s", args, err, line)
		}
	}
}

// tail keeps the last lines of a log.
type tail struct {
	mu     sync.Mutex
	lines  []string
	failed []string // those that tell of a job that did not go well
}

func (l *tail) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == 200 {
		l.lines = l.lines[100:]
	}
	l.lines = append(l.lines, line)
	if strings.Contains(line, "job failed") || strings.Contains(line, "claim was lost") || strings.Contains(line, "given up") {
		l.failed = append(l.failed, line)
	}
}

// failures gives the lines about jobs that did not go well, once.
func (l *tail) failures() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.failed
	l.failed = nil
	return out
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// state tells how it stands with a batch that does not get on: for the message of
// a test that fails.
func (s *server) state(t *testing.T, b dataset.BatchID) string {
	var out strings.Builder
	now := time.Now()
	fmt.Fprintf(&out, "at %s\n", now.UTC().Format(time.RFC3339Nano))
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Fprintf(&out, "load %s", load)
	}
	if snap, err := catalog.Open(t.Context(), s.store(t), b); err != nil {
		fmt.Fprintf(&out, "%v\n", err)
	} else {
		r := snap.Head.Record
		fmt.Fprintf(&out, "generation %d of %s by %s; %d live chunks\n", r.Generation, r.CommittedAt, r.CommittedBy, len(snap.Live))
		for _, c := range snap.Live[:min(len(snap.Live), 5)] {
			fmt.Fprintf(&out, "  %s of %s\n", c.Key(), c.Modified)
		}
	}
	c := s.config(t)
	conn, err := bus.Connect(t.Context(), bus.Config{URL: c.NATSURL, Scope: bus.Scope(c.Bucket, c.Prefix)}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		fmt.Fprintf(&out, "%v\n", err)
	} else {
		defer conn.Close()
		for j, err := range conn.Jobs(t.Context()) {
			fmt.Fprintf(&out, "job %+v %v\n", j, err)
		}
	}
	fmt.Fprintf(&out, "log:\n%s\n", s.log.String())
	return out.String()
}
