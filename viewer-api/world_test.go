package viewerapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/nats/embedded"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/query"
	viewerapi "github.com/siltstone-data/siltstone/viewer-api"
)

func logger(t testing.TB) *slog.Logger {
	if testing.Verbose() {
		return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

// natsHost is a NATS server that can be taken down, brought back and wiped.
type natsHost struct {
	t      testing.TB
	dir    string
	listen string
	*embedded.Server
}

func serveNATS(t testing.TB) *natsHost {
	t.Helper()
	h := &natsHost{t: t, dir: t.TempDir(), listen: "127.0.0.1:0"}
	h.up()
	t.Cleanup(h.down)
	return h
}

func (h *natsHost) up() {
	h.t.Helper()
	s, err := embedded.Open(context.Background(), embedded.Config{Dir: h.dir, Listen: h.listen}, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	h.Server, h.listen = s, s.Addr()
}

func (h *natsHost) down() {
	if h.Server != nil {
		if err := h.Close(); err != nil {
			h.t.Error(err)
		}
		h.Server = nil
	}
}

func (h *natsHost) wipe() {
	h.t.Helper()
	h.down()
	if err := os.RemoveAll(filepath.Join(h.dir, "jetstream")); err != nil {
		h.t.Fatal(err)
	}
	h.up()
}

func (h *natsHost) join() *bus.Bus {
	h.t.Helper()
	b, err := bus.Connect(h.t.Context(), bus.Config{URL: h.ClientURL(), Scope: "test"}, nil, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(b.Close)
	h.topology(b)
	return b
}

func (h *natsHost) topology(b *bus.Bus) {
	h.t.Helper()
	eventually(h.t, func() string {
		if _, err := b.Topology(h.t.Context(), true); err != nil {
			return err.Error()
		}
		return ""
	})
}

// eventually waits until check finds nothing to complain about.
func eventually(t testing.TB, check func() string) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		wrong := check()
		if wrong == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal(wrong)
		}
	}
}

var pageFiles = fstest.MapFS{
	"index.html":                {Data: []byte(`<!doctype html><head><base href="/"></head><script src="./assets/app-0a1b2c3d.js"></script>`)},
	"assets/app-0a1b2c3d.js":    {Data: []byte("plain();")},
	"assets/app-0a1b2c3d.js.br": {Data: []byte("brotli")},
	"assets/app-0a1b2c3d.js.gz": {Data: []byte("gzip")},
	"icon.svg":                  {Data: []byte("<svg/>")},
	".placeholder":              {Data: []byte("x")},
}

// viewer is a running server.
type viewer struct {
	t    testing.TB
	url  string
	stop func()
	reg  *prometheus.Registry
	http *http.Client
}

func serve(t testing.TB, b *bus.Bus, store *mem.Store, cfg viewerapi.Config) *viewer {
	t.Helper()
	if b == nil {
		return serveOver(t, noBus{}, store, cfg)
	}
	return serveOver(t, b, store, cfg)
}

func serveOver(t testing.TB, events viewerapi.Bus, store *mem.Store, cfg viewerapi.Config) *viewer {
	t.Helper()
	reg := prometheus.NewRegistry()
	cfg.WorkDir = t.TempDir()
	ops := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "ops", r.URL.Path) })
	engine, err := query.NewEngine(store, query.Listed(store), query.EngineConfig{WorkDir: cfg.WorkDir}, logger(t), reg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := viewerapi.New(engine, events, pageFiles, ops, cfg, logger(t), reg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx, l); err != nil {
			t.Error(err)
		}
	})
	v := &viewer{t: t, url: "http://" + l.Addr().String(), reg: reg,
		stop: sync.OnceFunc(func() {
			cancel()
			wg.Wait()
			if err := engine.Close(); err != nil {
				t.Error(err)
			}
		}),
		http: &http.Client{Transport: &http.Transport{DisableCompression: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	t.Cleanup(func() { v.http.CloseIdleConnections(); v.stop() })
	return v
}

// answer is a response, read whole.
type answer struct {
	status int
	header http.Header
	body   string
}

func (v *viewer) do(method, path string, body io.Reader, header ...string) answer {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), method, v.url+path, body)
	if err != nil {
		v.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Add(header[i], header[i+1])
	}
	res, err := v.http.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		v.t.Fatal(method, path, err)
	}
	return answer{res.StatusCode, res.Header, string(raw)}
}

func (v *viewer) get(path string, header ...string) answer {
	v.t.Helper()
	return v.do(http.MethodGet, path, nil, header...)
}

// raw sends bytes as they are and gives what comes back until the connection
// ends.
func (v *viewer) raw(request string) string {
	v.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(v.url, "http://"))
	if err != nil {
		v.t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		v.t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	b, err := io.ReadAll(c)
	if err != nil && len(b) == 0 {
		v.t.Fatal(err)
	}
	return string(b)
}

func (a answer) problem(t testing.TB) viewerapi.Problem {
	t.Helper()
	var p viewerapi.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.header.Get("Content-Type") != "application/problem+json" || p.Status != a.status || p.Title == "" {
		t.Fatalf("no problem document: %d %s %q", a.status, a.header.Get("Content-Type"), a.body)
	}
	return p
}

// noBus has no NATS behind it.
type noBus struct{}

var errNoBus = errors.New("no bus here: nats://secret@internal:4222")

func (noBus) Position(context.Context) (bus.Position, error) { return bus.Position{}, errNoBus }
func (noBus) Tail(context.Context, bus.TailFrom, bool) iter.Seq2[bus.Tailed, error] {
	return func(yield func(bus.Tailed, error) bool) { yield(bus.Tailed{}, errNoBus) }
}
func (noBus) Jobs(context.Context) iter.Seq2[bus.JobState, error] {
	return func(yield func(bus.JobState, error) bool) { yield(bus.JobState{}, errNoBus) }
}
func (noBus) Dead(context.Context) iter.Seq2[bus.DeadLetter, error] {
	return func(func(bus.DeadLetter, error) bool) {}
}
func (noBus) Retry(context.Context, string) error { return errNoBus }

// put stores a live chunk.
func put(t testing.TB, s *mem.Store, d, batch string, n int, lines ...string) {
	t.Helper()
	annotation(t, s, "", d, batch, n, lines...)
}

// annotation puts a chunk of a layer.
func annotation(t testing.TB, s *mem.Store, annotator, d, batch string, n int, lines ...string) {
	t.Helper()
	key := dataset.BatchID{Dataset: d, Batch: batch, Annotator: annotator}.ChunkKey("a1b2c3", n)
	if _, err := s.Put(context.Background(), key, []byte(strings.Join(lines, "\n")+"\n"), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
}

// publish announces a chunk of a dataset.
func publish(t testing.TB, b *bus.Bus, d string, n int) {
	t.Helper()
	e := dataset.NewEvent(dataset.RowsIngested, dataset.BatchID{Dataset: d, Batch: "b"}, time.Now())
	e.Key, e.ETag = fmt.Sprintf("%s/b/a1b2c3_chunk_%05d.jsonl", d, n), fmt.Sprint("v", n)
	if err := b.Publish(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}

// sse is one event of a stream.
type sse struct{ event, id, data string }

func (e sse) key(t testing.TB) string {
	t.Helper()
	var v dataset.Event
	if err := json.Unmarshal([]byte(e.data), &v); err != nil {
		t.Fatalf("%q: %v", e.data, err)
	}
	return v.Key
}

// listener is an open event stream.
type listener struct {
	t      testing.TB
	cancel context.CancelFunc
	header http.Header
	events chan sse // closed at the end of the stream
	lastID string
}

func (v *viewer) listen(query, lastID string) *listener {
	v.t.Helper()
	ctx, cancel := context.WithCancel(v.t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url+"/api/events"+query, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	res, err := v.http.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(res.Body)
		v.t.Fatalf("%d %s", res.StatusCode, raw)
	}
	l := &listener{t: v.t, cancel: cancel, header: res.Header, events: make(chan sse, 10_000)}
	done := make(chan struct{})
	v.t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		defer close(l.events)
		defer res.Body.Close()
		read(res.Body, func(e sse) { l.events <- e })
	}()
	return l
}

// read reads an event stream as browsers do.
func read(body io.Reader, each func(sse)) {
	var e sse
	var lastID string
	for sc := bufio.NewScanner(body); sc.Scan(); {
		field, value, _ := strings.Cut(sc.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			e.event = value
		case "id":
			lastID = value
		case "data":
			e.data = value
		case "":
			if sc.Text() != "" { // a comment
				continue
			}
			if e.data != "" {
				e.id = lastID
				each(e)
			} else if lastID != "" {
				each(sse{event: moved, id: lastID})
			}
			e = sse{}
		}
	}
}

// moved is what read gives for an id without an event.
const moved = "(moved)"

// next gives the next event.
func (l *listener) next() sse {
	l.t.Helper()
	for {
		select {
		case e, ok := <-l.events:
			if !ok {
				l.t.Fatal("the stream has ended")
			}
			if l.lastID = e.id; e.event != moved {
				return e
			}
		case <-time.After(30 * time.Second):
			l.t.Fatal("no event comes")
		}
	}
}

// expect reads the hello.
func (l *listener) expect(event string) sse {
	l.t.Helper()
	e := l.next()
	if e.event != event {
		l.t.Fatalf("got %+v, want %s", e, event)
	}
	return e
}

// metric reads a number of the server's.
func (v *viewer) metric(name string, label ...string) float64 {
	v.t.Helper()
	all, err := v.reg.Gather()
	if err != nil {
		v.t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			match := true
			for i := 0; i+1 < len(label); i += 2 {
				found := false
				for _, l := range m.GetLabel() {
					found = found || l.GetName() == label[i] && l.GetValue() == label[i+1]
				}
				match = match && found
			}
			if match {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}
