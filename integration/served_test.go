package integration_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/nats/embedded"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/query"
	viewerapi "github.com/siltstone-data/siltstone/viewer-api"
)

// served is a viewer over an empty store, with a bus of its own.
type served struct {
	t     *testing.T
	bus   *bus.Bus
	store *mem.Store
	addr  string
	url   string
}

func serveViewer(t *testing.T, cfg viewerapi.Config) *served {
	t.Helper()
	srv, err := embedded.Open(t.Context(), embedded.Config{Dir: t.TempDir()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	b, err := bus.Connect(t.Context(), bus.Config{Server: srv, Scope: "test"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := b.Topology(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	store := mem.New()
	cfg.WorkDir = t.TempDir()
	engine, err := query.NewEngine(store, query.Listed(store), query.EngineConfig{WorkDir: cfg.WorkDir}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	v, err := viewerapi.New(engine, b, fstest.MapFS{"index.html": {Data: []byte("the page")}}, nil, cfg, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := listenAnywhere(t)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := v.Run(ctx, l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return &served{t: t, bus: b, store: store, addr: l.Addr().String(), url: "http://" + l.Addr().String() + cfg.BasePath}
}

// listen opens an event stream.
func (s *served) listen(ctx context.Context, query, lastID string) *bufio.Scanner {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/api/events"+query, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Last-Event-ID", lastID)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		s.t.Fatal(res.Status)
	}
	return bufio.NewScanner(res.Body)
}

// event is one event of a stream.
type event struct{ name, data string }

// nextEvent reads the next event but the hello.
func nextEvent(in *bufio.Scanner) (e event, err error) {
	for in.Scan() {
		field, value, _ := strings.Cut(in.Text(), ": ")
		switch {
		case field == "event":
			e.name = value
		case field == "data":
			e.data = value
		case in.Text() == "" && e.data != "" && e.name != "connected":
			return e, nil
		case in.Text() == "":
			e = event{}
		}
	}
	return e, in.Err()
}
