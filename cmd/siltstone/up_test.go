package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/joho/godotenv"

	"github.com/siltstone-data/siltstone"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/s3"
)

// reversed collects notifications and passes them on in the opposite order once
// none has come for a moment.
func reversed(next notifyFunc) notifyFunc {
	var mu sync.Mutex
	var held [][]byte
	flush := func() {
		mu.Lock()
		defer mu.Unlock()
		for _, p := range slices.Backward(held) {
			_ = next(context.Background(), p) // lost on a shutdown, like any event
		}
		held = nil
	}
	timer := time.AfterFunc(time.Hour, flush)
	return func(_ context.Context, p []byte) error {
		mu.Lock()
		defer mu.Unlock()
		held = append(held, slices.Clone(p))
		timer.Reset(200 * time.Millisecond)
		return nil
	}
}

// server is a running `siltstone up`.
type server struct {
	dir  string
	cmd  *exec.Cmd
	url  string
	done chan struct{} // closed when the process is gone
	log  tail
}

var doorURL = regexp.MustCompile(`(http://\S+)/metrics`)

// startUp starts `siltstone up` and waits until it is ready. Extra environment
// settings may be given.
func startUp(t *testing.T, dir string, env ...string) *server {
	t.Helper()
	return start(t, dir, []string{"up"}, env...)
}

// start starts a command that serves, and waits until it is ready.
func start(t *testing.T, dir string, args []string, env ...string) *server {
	t.Helper()
	cmd := command(t, append(append([]string{"--dir", dir}, args...), "--listen", "127.0.0.1:0")...)
	cmd.Env = append(cmd.Env, env...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &server{dir: dir, cmd: cmd, done: make(chan struct{})}
	t.Cleanup(func() { s.stop(syscall.SIGKILL) })
	found := make(chan string, 1)
	go func() {
		for sc := bufio.NewScanner(stderr); sc.Scan(); {
			s.log.add(sc.Text())
			if m := doorURL.FindStringSubmatch(sc.Text()); m != nil {
				select {
				case found <- m[1]:
				default:
				}
			}
		}
		_ = cmd.Wait()
		close(s.done)
	}()
	select {
	case s.url = <-found:
	case <-s.done:
		t.Fatalf("%v ended at once: %v\n%s", args, cmd.ProcessState, s.log.String())
	case <-time.After(time.Minute):
		t.Fatalf("%v does not say where it is\n%s", args, s.log.String())
	}
	await(t, fmt.Sprintf("%v is ready", args), func() bool {
		r, err := http.Get(s.url + "/readyz")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
	return s
}

// stop ends the process with a signal and waits until it is gone.
func (s *server) stop(sig syscall.Signal) {
	select {
	case <-s.done:
		return
	default:
	}
	_ = s.cmd.Process.Signal(sig)
	<-s.done
}

// config reads DIR/env, as the library's users do.
func (s *server) config(t *testing.T) siltstone.Config {
	t.Helper()
	env, err := godotenv.Read(filepath.Join(s.dir, "env"))
	if err != nil {
		t.Fatal(err)
	}
	return siltstone.ReadConfig(func(k string) (string, bool) { v, ok := env[k]; return v, ok })
}

// store is the server's bucket.
func (s *server) store(t *testing.T) objstore.Store {
	t.Helper()
	c := s.config(t)
	client, err := s3.Open(t.Context(), s3.Config{Bucket: c.Bucket, Endpoint: c.Endpoint, Region: c.Region, AccessKey: c.AccessKey, SecretKey: c.SecretKey}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	return objstore.WithPrefix(client, c.Prefix)
}

// settled waits until the batch has no live chunk.
func (s *server) settled(t *testing.T, b dataset.BatchID) {
	t.Helper()
	store := s.store(t)
	ok := within(90*time.Second, func() bool {
		snap, err := catalog.Open(t.Context(), store, b)
		return err == nil && snap.Head.Exists() && len(snap.Live) == 0
	})
	if !ok {
		t.Fatalf("waited too long for: no live chunk is left in %s\n%s", b, s.state(t, b))
	}
}

// await polls until ok, and fails the test when it takes too long.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !within(90*time.Second, ok) {
		t.Fatalf("waited too long for: %s", what)
	}
}

// within polls until ok, and reports whether that came in time.
func within(most time.Duration, ok func() bool) bool {
	deadline := time.After(most)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			return false
		}
	}
	return true
}

// TestUpStopsCleanlyAndStartsAgain is the life of a server without accidents.
func TestUpStopsCleanlyAndStartsAgain(t *testing.T) {
	dir := t.TempDir()
	up := startUp(t, dir, "MERGE_QUIET=100ms")
	must(t, `{"text":"one"}`+"\n", "--dir", dir, "put", "d", "--batch", "b")
	up.settled(t, dataset.BatchID{Dataset: "d", Batch: "b"})
	up.stop(syscall.SIGTERM)
	if up.cmd.ProcessState.ExitCode() != 0 {
		t.Fatalf("up ended with %v", up.cmd.ProcessState)
	}
	before, err := os.ReadFile(filepath.Join(dir, "env"))
	if err != nil {
		t.Fatal(err)
	}
	up = startUp(t, dir, "MERGE_QUIET=100ms")
	after, err := os.ReadFile(filepath.Join(dir, "env"))
	if err != nil || string(before) != string(after) {
		t.Fatalf("addresses or keys changed:\n%s\n%s%v", before, after, err)
	}
	must(t, `{"text":"two"}`+"\n", "--dir", dir, "put", "d", "--batch", "b")
	up.settled(t, dataset.BatchID{Dataset: "d", Batch: "b"})
	if out := must(t, "", "--dir", dir, "export", "d", "--columns", "text"); countLines(out) != 2 {
		t.Fatalf("export gave %q", out)
	}
	must(t, "", "--dir", dir, "verify", "d")
}

func TestTwoProcessesNeverServeOneFolder(t *testing.T) {
	dir := t.TempDir()
	startUp(t, dir)
	r := finished(t, "", "--dir", dir, "up", "--listen", "127.0.0.1:0")
	if r.code == 0 {
		t.Fatal("a second up runs on the same folder")
	}
	t.Log(r.stderr)
}
