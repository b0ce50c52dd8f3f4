package bus_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/nats/embedded"
)

// quick makes the bus impatient enough for tests.
var quick = bus.Timing{
	AckWait: time.Second, ClaimTTL: time.Second, LeadTTL: time.Second,
	JobWait: 20 * time.Millisecond, JobMaxWait: 50 * time.Millisecond, Tries: 3,
	Wait: 10 * time.Millisecond, MaxWait: 30 * time.Millisecond, Deliveries: 5,
	Publish: time.Second,
}

// host is a server that can be taken down and brought back at one address.
type host struct {
	t      testing.TB
	dir    string
	listen string
	*embedded.Server
}

// serve starts a server for one test, which runs beside others.
func serve(t testing.TB) *host {
	t.Helper()
	if t, ok := t.(*testing.T); ok {
		t.Parallel()
	}
	h := &host{t: t, dir: t.TempDir(), listen: "127.0.0.1:0"}
	h.up()
	t.Cleanup(h.down)
	return h
}

func (h *host) up() {
	h.t.Helper()
	s, err := embedded.Open(context.Background(), embedded.Config{Dir: h.dir, Listen: h.listen, User: "u", Password: "p@ss/word"}, logger(h.t))
	if err != nil {
		h.t.Fatal(err)
	}
	h.Server, h.listen = s, s.Addr()
}

func (h *host) down() {
	if h.Server == nil {
		return
	}
	if err := h.Server.Close(); err != nil {
		h.t.Error(err)
	}
	h.Server = nil
}

// wipe takes the server down and brings it back without its data.
func (h *host) wipe() {
	h.t.Helper()
	h.down()
	if err := os.RemoveAll(filepath.Join(h.dir, "jetstream")); err != nil {
		h.t.Fatal(err)
	}
	h.up()
}

func logger(t testing.TB) *slog.Logger {
	if !testing.Verbose() {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// join connects to the host with the topology in place.
func (h *host) join(set ...func(*bus.Config)) *bus.Bus {
	h.t.Helper()
	b := h.connect(set...)
	if _, err := b.Topology(h.t.Context(), true); err != nil {
		h.t.Fatal(err)
	}
	return b
}

func (h *host) connect(set ...func(*bus.Config)) *bus.Bus {
	h.t.Helper()
	cfg := bus.Config{URL: h.ClientURL(), Scope: "lake", Timing: quick}
	for _, f := range set {
		f(&cfg)
	}
	b, err := bus.Connect(h.t.Context(), cfg, logger(h.t), nil)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(b.Close)
	return b
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	again := time.NewTicker(3 * time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("never happened: %s", what)
		case <-again.C:
		}
	}
}

// background runs a service until the test ends and checks that it ends well.
func background(t testing.TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if err != nil && !strings.Contains(err.Error(), "connection closed") {
					t.Errorf("service ended with %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Error("service does not end")
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// list is what goroutines append to.
type list[T any] struct {
	mu    sync.Mutex
	items []T
}

func (l *list[T]) add(v T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.items = append(l.items, v)
}

func (l *list[T]) all() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]T(nil), l.items...)
}

func (l *list[T]) len() int { return len(l.all()) }

func id(ds, batch string) dataset.BatchID { return dataset.BatchID{Dataset: ds, Batch: batch} }

func ingested(key string) dataset.Event {
	e := dataset.NewEvent(dataset.RowsIngested, id("d", "b"), time.Now())
	e.Key, e.ETag = key, "etag"
	return e
}

func TestConnectExplainsAServerWithoutJetStream(t *testing.T) {
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	if !s.ReadyForConnections(5 * time.Second) {
		t.Fatal("not ready")
	}
	_, err = bus.Connect(t.Context(), bus.Config{Server: s, Scope: "lake"}, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "has no JetStream") {
		t.Fatalf("got %v", err)
	}
}

func TestConnectNamesTheServerButNotThePassword(t *testing.T) {
	_, err := bus.Connect(t.Context(), bus.Config{URL: "nats://me:secret@127.0.0.1:1", Scope: "lake"}, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || strings.Contains(err.Error(), "secret") {
		t.Fatalf("got %v", err)
	}
	if _, err := bus.Connect(t.Context(), bus.Config{Scope: "lake"}, nil, nil); err == nil || !strings.Contains(err.Error(), "NATS_URL") {
		t.Fatalf("got %v", err)
	}
}

func TestConnectRefusesAWrongPasswordAndABadScope(t *testing.T) {
	h := serve(t)
	if _, err := bus.Connect(t.Context(), bus.Config{URL: "nats://u:x@" + h.Addr(), Scope: "lake"}, nil, nil); err == nil {
		t.Fatal("a wrong password was taken")
	}
	if _, err := bus.Connect(t.Context(), bus.Config{URL: h.ClientURL(), Scope: "a.b"}, nil, nil); err == nil {
		t.Fatal("a scope with a dot was taken")
	}
}

func TestTwoBusesShareOneRegistry(t *testing.T) {
	h, reg := serve(t), prometheus.NewRegistry()
	for range 2 {
		b, err := bus.Connect(t.Context(), bus.Config{Server: h.Server, Scope: "lake", Timing: quick}, nil, reg)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if _, err := b.Topology(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if err := b.Notify(t.Context(), []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range got {
		if f.GetName() == "siltstone_bus_published_total" && f.GetMetric()[0].GetCounter().GetValue() == 2 {
			return
		}
	}
	t.Fatalf("the two publishes were not counted: %v", got)
}
