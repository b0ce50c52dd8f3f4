package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
)

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

func TestARowIsSeenAtOnceAndItsEventArrives(t *testing.T) {
	s := startUp(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/api/events?dataset=d", nil)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	event := func(want string) string {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == "event: "+want {
				for lines.Scan() {
					if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
						return data
					}
				}
			}
		}
		t.Fatalf("no %s: %v", want, lines.Err())
		return ""
	}
	event("connected")
	if got := finished(t, `{"id":"1","n":1.0}`+"\n", "--dir", s.dir, "put", "d", "--batch", "b"); got.code != 0 {
		t.Fatal(got)
	}
	var e dataset.Event
	if err := json.Unmarshal([]byte(event("rows_ingested")), &e); err != nil || e.Dataset != "d" || e.Rows == nil || *e.Rows != 1 {
		t.Error(e, err)
	}
	if status, body := fetch(t, s.url+"/api/datasets/d/data"); status != 200 || !strings.Contains(body, `"n":1.0`) {
		t.Error(status, body)
	}
	event("batch_merged")
	if status, body := fetch(t, s.url+"/api/datasets/d/rows/1?batch=b"); status != 200 || !strings.Contains(body, `"n":1.0`) {
		t.Error(status, body)
	}
	await(t, "the catalog is whole", func() bool {
		_, body := fetch(t, s.url+"/readyz")
		return body == "ready\ncatalog: whole\n"
	})
	if status, body := fetch(t, s.url+"/"); status != 200 || !strings.Contains(body, "<title>") {
		t.Error(status, body)
	}
	if status, body := fetch(t, s.url+"/metrics"); status != 200 || !strings.Contains(body, "siltstone_viewer_event_clients 1") {
		t.Error(status, body)
	}

	// The viewer alone, beside it, against its own store and NATS.
	alone := start(t, s.dir, []string{"serve", "viewer", "--base-path", "/silt"}, "VIEWER_TOKEN=s3cret", "VIEWER_LOG_TIMINGS=true")
	if status, _ := fetch(t, alone.url+"/silt/api/datasets"); status != http.StatusUnauthorized {
		t.Error(status)
	}
	if status, body := fetch(t, alone.url+"/healthz"); status != 200 || body != "ok\n" {
		t.Error(status, body)
	}
	bench := command(t, "bench", "viewer", "--base-url", alone.url+"/silt", "--seconds", "1", "--json")
	bench.Env = append(bench.Env, "VIEWER_TOKEN=s3cret")
	out, err := bench.Output()
	if err != nil || strings.Count(string(out), "p99_ms") < 7 {
		t.Error(err, string(out))
	}
	began := time.Now()
	alone.stop(syscall.SIGTERM)
	s.stop(syscall.SIGTERM) // with a stream open
	if took := time.Since(began); took > 20*time.Second {
		t.Error("stopping took", took)
	}
}

func TestWrongFlagsOfTheViewerAreRefused(t *testing.T) {
	for _, flag := range []string{"--base-path=silt", "--base-path=/api", "--trusted-proxy=somewhere", "--allowed-host=http://x"} {
		got := finished(t, "", "--dir", t.TempDir(), "up", "--listen", "127.0.0.1:0", flag)
		if _, value, _ := strings.Cut(flag, "="); got.code != exitUsage || !strings.Contains(got.stderr, value) {
			t.Errorf("%s: %d %s", flag, got.code, got.stderr)
		}
	}
}
