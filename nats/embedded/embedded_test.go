package embedded_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siltstone-data/siltstone/nats/embedded"
)

func open(t *testing.T, cfg embedded.Config) *embedded.Server {
	t.Helper()
	s, err := embedded.Open(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestWhatWasStoredIsThereAfterARestart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, embedded.Config{Dir: dir})
	if s.ClientURL() != "" || s.Addr() != "" {
		t.Fatal("a server that does not listen has an address")
	}
	store := func(s *embedded.Server) jetstream.JetStream {
		nc, err := nats.Connect("", nats.InProcessServer(s))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		return js
	}
	js := store(s)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("closing twice: %v", err)
	}
	st, err := store(open(t, embedded.Config{Dir: dir})).Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := st.GetMsg(t.Context(), 1); err != nil || string(m.Data) != "kept" {
		t.Fatal(m, err)
	}
}

func TestOneFolderHasOneServer(t *testing.T) {
	dir := t.TempDir()
	s := open(t, embedded.Config{Dir: dir})
	_, err := embedded.Open(t.Context(), embedded.Config{Dir: dir}, nil)
	if !errors.Is(err, embedded.ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, embedded.Config{Dir: dir})
}

func TestClientsOfOtherProcessesNeedThePassword(t *testing.T) {
	s := open(t, embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", User: "me", Password: "a/b@c:d"})
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatalf("%s: %v", s.ClientURL(), err)
	}
	nc.Close()
	if _, err := nats.Connect("nats://" + s.Addr()); err == nil {
		t.Fatal("no password was asked for")
	}
	if nc, err = nats.Connect("", nats.InProcessServer(s), nats.UserInfo(s.Credentials())); err != nil {
		t.Fatal(err)
	}
	nc.Close()
}

func TestRunEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	s := open(t, embedded.Config{Dir: dir})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	open(t, embedded.Config{Dir: dir})
}

func TestBadSettingsAreNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, cfg := range map[string]embedded.Config{
		"no folder": {},
		"nonsense":  {Dir: t.TempDir(), Listen: "nonsense"},
		"bad port":  {Dir: t.TempDir(), Listen: "127.0.0.1:x"},
		file:        {Dir: file},
		"in use":    {Dir: t.TempDir(), Listen: l.Addr().String()},
	} {
		s, err := embedded.Open(t.Context(), cfg, nil)
		if err == nil {
			_ = s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v gives %v", cfg, err)
		}
	}
}
