package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	natsembedded "github.com/siltstone-data/siltstone/nats/embedded"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/embedded"
	"github.com/siltstone-data/siltstone/objstore/s3"
	"github.com/siltstone-data/siltstone/producers"
)

var stoppedFor = flag.Duration("stopped", time.Minute, "how long a merger is stopped before its commit")

// TestAStoppedMergerIsReplacedAndItsLateCommitFails stops a merger just before
// its commit, for longer than its claim lasts. Another one takes the job, commits
// and moves on, and a sweeper without grace follows it; then the first goes on.
func TestAStoppedMergerIsReplacedAndItsLateCommitFails(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until claims end")
	}
	l := newLake(t)
	for name, m := range map[string]moment{
		"stopped before it sends its commit":    {key: "_history/", signal: syscall.SIGSTOP, after: true},
		"stopped while its commit is under way": {key: "manifest.yaml", signal: syscall.SIGSTOP},
		"killed while its commit is under way":  {key: "manifest.yaml", signal: syscall.SIGKILL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l.replaced(t, m)
		})
	}
}

// moment is when a merger is stopped: at a PUT of a key with that in it.
type moment struct {
	key    string
	after  bool // the PUT has been answered
	signal syscall.Signal
}

func (l *lake) replaced(t *testing.T, m moment) {
	const name, batch = "d", "b"
	id := dataset.BatchID{Dataset: name, Batch: batch}
	prefix := strings.ReplaceAll(path.Base(t.Name()), "_", "-")
	l.topology(t, prefix)
	g := newGate(t, l.endpoint, m)
	home := l.dir(t, prefix, l.endpoint)
	store := l.store(t, prefix)
	consumers := start(t, home, []string{"serve", "consumers"}, "MERGE_QUIET=100ms")
	first := start(t, l.dir(t, prefix, g.endpoint), []string{"serve", "merger"})
	want := 0
	put := func() {
		t.Helper()
		stored := writeNumbered(t, consumers.config(t), id, want)
		want += stored
	}

	put()
	consumers.settled(t, id)
	g.arm(first.cmd.Process)
	put()
	<-g.reached
	began := time.Now()

	before := generation(t, store, id) // which the first one was about to follow
	start(t, home, []string{"serve", "merger"})
	if !within(3*time.Minute, func() bool { return generation(t, store, id) > before }) {
		snap, err := catalog.Open(t.Context(), store, id)
		t.Fatalf("the second merger commits nothing: generation %d, then %d with %d live chunks, %v",
			before, snap.Head.Record.Generation, len(snap.Live), err)
	}
	t.Logf("replaced %s after the first one was stopped", time.Since(began).Round(time.Second))
	put()
	consumers.settled(t, id)
	for range 2 { // the first may raise next_file only
		sweepNow(t, store, id)
	}
	namesWhatIsThere(t, store, id)
	if rest := *stoppedFor - time.Since(began); rest > 0 && m.signal == syscall.SIGSTOP {
		pause := time.NewTimer(rest)
		<-pause.C
	}

	close(g.release)
	_ = first.cmd.Process.Signal(syscall.SIGCONT)
	if !m.after { // it is under way, and comes even when its sender is dead
		if got := <-g.commit; got != http.StatusPreconditionFailed {
			t.Errorf("the store answered the late commit with %d", got)
		}
	}
	namesWhatIsThere(t, store, id)
	put()
	consumers.settled(t, id)
	sweepNow(t, store, id)
	namesWhatIsThere(t, store, id)
	must(t, "", "--dir", home, "verify", name)
	checkNumbered(t, must(t, "", "--dir", home, "export", name), want)
	select {
	case got := <-g.commit: // or it saw first that it had lost its claim
		if m.after && got != http.StatusPreconditionFailed {
			t.Errorf("the store answered the late commit with %d", got)
		}
	default:
	}
}

// TestManyMergersShareManyBatchesAndNeverDoOneTwiceAtATime counts the commits
// that the store refuses: without accidents there are none.
func TestManyMergersShareManyBatchesAndNeverDoOneTwiceAtATime(t *testing.T) {
	l := newLake(t)
	const prefix = "many"
	l.topology(t, prefix)
	home := l.dir(t, prefix, l.endpoint)
	consumers := start(t, home, []string{"serve", "consumers"}, "MERGE_QUIET=50ms", "MERGE_MAX_AGE=200ms")
	mergers, batches, rounds := 4, 24, 4
	if testing.Short() {
		mergers, batches, rounds = 3, 6, 2
	}
	var gates []*gate
	for range mergers {
		g := newGate(t, l.endpoint, moment{})
		gates = append(gates, g)
		start(t, l.dir(t, prefix, g.endpoint), []string{"serve", "merger"})
	}
	var wg sync.WaitGroup
	for b := range batches {
		wg.Go(func() {
			id := dataset.BatchID{Dataset: "d", Batch: fmt.Sprintf("b%02d", b)}
			for r := range rounds {
				writeNumbered(t, consumers.config(t), id, r*numbered)
			}
		})
	}
	wg.Wait()
	for b := range batches {
		consumers.settled(t, dataset.BatchID{Dataset: "d", Batch: fmt.Sprintf("b%02d", b)})
	}
	working, commits := 0, int64(0)
	for i, g := range gates {
		t.Logf("merger %d: %d commits, %d refused", i, g.commits.Load(), g.refused.Load())
		if g.refused.Load() > 0 {
			t.Errorf("merger %d worked on a batch that another one had", i)
		}
		if commits += g.commits.Load(); g.commits.Load() > 0 {
			working++
		}
	}
	if working < 2 || commits < int64(batches) {
		t.Errorf("%d of %d mergers made %d commits", working, mergers, commits)
	}
	for b := range batches {
		checkNumbered(t, must(t, "", "--dir", home, "export", "d", "--batch", fmt.Sprintf("b%02d", b)), rounds*numbered)
	}
}

// numbered is how many rows writeNumbered writes, in chunks of 20.
const numbered = 100

func writeNumbered(t *testing.T, c siltstone.Config, b dataset.BatchID, from int) int {
	t.Helper()
	tool, err := siltstone.Open(t.Context(), c)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer tool.Close()
	rows := func(yield func(any, error) bool) {
		for i := range numbered {
			if !yield(json.RawMessage(fmt.Sprintf(`{"id":"%06d","n":%d}`, from+i, from+i)), nil) {
				return
			}
		}
	}
	if _, err := tool.WriteAll(t.Context(), b.Dataset, b.Batch, rows, producers.ChunkRows(20)); err != nil {
		t.Error(err)
	}
	return numbered
}

func checkNumbered(t *testing.T, export string, want int) {
	t.Helper()
	n := 0
	for line := range strings.Lines(export) {
		if id := fmt.Sprintf(`{"id":"%06d",`, n); !strings.HasPrefix(line, id) || !strings.HasSuffix(line, fmt.Sprintf(`"n":%d}`+"\n", n)) {
			t.Fatalf("row %d is %s", n, line)
		}
		n++
	}
	if n != want {
		t.Fatalf("%d rows came out, %d were written", n, want)
	}
}

func generation(t *testing.T, s objstore.Store, b dataset.BatchID) int64 {
	t.Helper()
	h, err := catalog.ReadHead(t.Context(), s, b)
	if err != nil {
		t.Fatal(err)
	}
	return h.Record.Generation
}

// sweepNow sweeps a batch without grace.
func sweepNow(t *testing.T, s objstore.Store, b dataset.BatchID) {
	t.Helper()
	n := 0
	c := catalog.Committer{By: "test", Now: func() time.Time { return time.Now().Add(time.Hour) }, Commit: func() string {
		n++
		return fmt.Sprintf("%016x", time.Now().UnixNano()+int64(n))
	}}
	if _, err := catalog.Sweep(t.Context(), s, b, catalog.SweepPolicy{}, c); err != nil {
		t.Fatal(err)
	}
}

// namesWhatIsThere fails when the record names a file that is not there.
func namesWhatIsThere(t *testing.T, s objstore.Store, b dataset.BatchID) {
	t.Helper()
	for { // until no commit comes in between
		h, err := catalog.ReadHead(t.Context(), s, b)
		if err != nil {
			t.Fatal(err)
		}
		missing := ""
		for _, bl := range h.Record.Blocks {
			if _, _, err := objstore.ReadAll(t.Context(), s, b.BlockKey(bl.File)); err != nil {
				missing = fmt.Sprintf("%s: %v", bl.File, err)
			}
		}
		if generation(t, s, b) != h.Record.Generation {
			continue
		}
		if missing != "" {
			t.Fatalf("generation %d names %s", h.Record.Generation, missing)
		}
		return
	}
}

// lake is a store and a NATS server in this process; prefixes of the bucket
// keep tests apart.
type lake struct {
	endpoint string
	nats     *natsembedded.Server
}

const lakeBucket, lakeSecret = "lake", "secret"

func newLake(t *testing.T) *lake {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	nats, err := natsembedded.Open(t.Context(), natsembedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", User: "siltstone", Password: lakeSecret}, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nats.Close() })
	s, err := embedded.Open(t.Context(), embedded.Config{Dir: t.TempDir(), Bucket: lakeBucket, AccessKey: "lake", SecretKey: lakeSecret}, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &lake{endpoint: s.Endpoint(), nats: nats}
}

func (l *lake) topology(t *testing.T, prefix string) {
	t.Helper()
	b, err := bus.Connect(t.Context(), bus.Config{Server: l.nats, Scope: bus.Scope(lakeBucket, prefix)}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Topology(t.Context(), true); err != nil {
		t.Fatal(err)
	}
}

// dir is a folder whose env file leads to the lake by way of that endpoint.
func (l *lake) dir(t *testing.T, prefix, endpoint string) string {
	t.Helper()
	dir := t.TempDir()
	lines := []string{
		"S3_BUCKET=" + lakeBucket, "S3_PREFIX=" + prefix, "AWS_ENDPOINT_URL=" + endpoint, "AWS_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=lake", "AWS_SECRET_ACCESS_KEY=" + lakeSecret,
		fmt.Sprintf("NATS_URL=nats://siltstone:%s@%s", lakeSecret, l.nats.Addr()),
	}
	if err := os.WriteFile(filepath.Join(dir, "env"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (l *lake) store(t *testing.T, prefix string) objstore.Store {
	t.Helper()
	c, err := s3.Open(t.Context(), s3.Config{Bucket: lakeBucket, Endpoint: l.endpoint, AccessKey: "lake", SecretKey: lakeSecret}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return objstore.WithPrefix(c, prefix)
}

// gate stands between one merger and the store: it counts the merger's commits,
// and stops the merger at a moment.
type gate struct {
	endpoint         string
	commits, refused atomic.Int64

	moment  moment
	process atomic.Pointer[os.Process] // to be stopped; nil when not armed
	reached chan struct{}              // closed when it has been
	release chan struct{}              // closed when what is held back may go on
	commit  chan int                   // what the store answered to the commit after that
	held    atomic.Bool
}

func newGate(t *testing.T, endpoint string, m moment) *gate {
	t.Helper()
	to, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{moment: m, reached: make(chan struct{}), release: make(chan struct{}), commit: make(chan int, 1)}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // it is signed
			// A merger that was killed does not take its request back.
			r.Out = r.Out.WithContext(context.WithoutCancel(r.In.Context()))
		},
		ModifyResponse: func(r *http.Response) error {
			g.answered(r)
			return nil
		},
		ErrorLog:     slog.NewLogLogger(slog.DiscardHandler, 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !m.after && g.here(r) {
			body, err := io.ReadAll(r.Body) // before its sender stops
			if err != nil {
				t.Error(err)
			}
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			g.hold()
			<-g.release
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	g.endpoint = s.URL
	return g
}

func (g *gate) arm(p *os.Process) { g.process.Store(p) }

func (g *gate) here(r *http.Request) bool {
	return r.Method == http.MethodPut && g.moment.key != "" && strings.Contains(r.URL.Path, g.moment.key) && g.process.Load() != nil && !g.held.Load()
}

func (g *gate) hold() {
	if g.held.CompareAndSwap(false, true) {
		p := g.process.Load()
		_ = p.Signal(g.moment.signal)
		if g.moment.signal == syscall.SIGSTOP {
			within(time.Minute, func() bool { return stopped(p.Pid) })
		}
		close(g.reached)
	}
}

// stopped reports whether every thread of a process has stopped: a signal is
// sent before it works, and an answer would let them go on meanwhile.
func stopped(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, path := range threads {
		stat, readErr := os.ReadFile(path)
		_, state, _ := strings.Cut(string(stat), ") ")
		if readErr != nil || !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return err == nil && len(threads) > 0
}

func (g *gate) answered(r *http.Response) {
	if g.moment.after && g.here(r.Request) {
		g.hold()
		return
	}
	if r.Request.Method != http.MethodPut || !strings.HasSuffix(r.Request.URL.Path, "/manifest.yaml") {
		return
	}
	if g.commits.Add(1); r.StatusCode >= 300 {
		g.refused.Add(1)
	}
	if g.held.Load() {
		select {
		case g.commit <- r.StatusCode:
		default:
		}
	}
}
