package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/embedded"
	"github.com/siltstone-data/siltstone/objstore/s3"
)

// A process can serve one folder, so what needs a second server runs in a second
// process: this test binary again, with a scene to play.
const sceneVariable = "SILTSTONE_TEST_SCENE"

func TestScene(t *testing.T) {
	scene := os.Getenv(sceneVariable)
	if scene == "" {
		t.Skip("played by other tests")
	}
	// The server that all tests share goes first.
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	switch scene {
	case "again":
		sceneAgain(t)
	case "in use":
		cfg := config()
		cfg.Dir = os.Getenv("SILTSTONE_TEST_DIR")
		if _, err := embedded.Open(t.Context(), cfg, slog.New(slog.DiscardHandler)); !errors.Is(err, embedded.ErrInUse) {
			t.Errorf("got %v", err)
		}
	}
}

func play(t *testing.T, scene string, env ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestScene$", "-test.v")
	cmd.Env = append(append(os.Environ(), sceneVariable+"="+scene), env...)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestScene") {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "ERROR") {
		t.Errorf("noise:\n%s", out)
	}
}

func TestAFolderIsServedAgainAfterAStop(t *testing.T) { play(t, "again") }

func TestTwoProcessesNeverServeOneFolder(t *testing.T) {
	play(t, "in use", "SILTSTONE_TEST_DIR="+dir)
}

func sceneAgain(t *testing.T) {
	cfg := config()
	cfg.Dir = filepath.Join(t.TempDir(), "deep", "store")
	home, _ := os.Getwd()
	left := filepath.Join(cfg.Dir, cfg.Bucket, ".sgwtmp", "left")
	parts := filepath.Join(cfg.Dir, cfg.Bucket, ".sgwtmp", "multipart", "key", "upload")
	var etag string
	for round := range 3 {
		srv, err := embedded.Open(t.Context(), cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		c, err := s3.Open(t.Context(), s3.Config{Bucket: cfg.Bucket, Endpoint: srv.Endpoint(), AccessKey: accessKey, SecretKey: secretKey}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			info, err := c.Put(t.Context(), "a/b/c", []byte("kept"), objstore.IfAbsent())
			if err != nil {
				t.Fatal(err)
			}
			etag = info.ETag
		}
		for name, kept := range map[string]bool{left: false, parts + "-old": false, parts + "-new": round > 0} {
			if _, err := os.Stat(name); (err == nil) != kept {
				t.Errorf("round %d: %s: %v", round, name, err)
			}
		}
		body, info, err := objstore.ReadAll(t.Context(), c, "a/b/c")
		if err != nil || string(body) != "kept" || info.ETag != etag {
			t.Errorf("round %d: %q, %+v, %v", round, body, info, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		if err := srv.Run(ctx); err != nil { // with an idle connection of the client
			t.Errorf("round %d: %v", round, err)
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("round %d: the stop took %v", round, d)
		}
		c.Close()
		// As a crash would leave it.
		for name, age := range map[string]time.Duration{parts + "-old": 8 * 24 * time.Hour, parts + "-new": time.Hour, left: 0} {
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, nil, 0o644),
				os.Chtimes(name, time.Time{}, time.Now().Add(-age))); err != nil {
				t.Fatal(err)
			}
		}
		if err := srv.Close(); err != nil {
			t.Errorf("round %d: closed after it was run: %v", round, err)
		}
		if now, _ := os.Getwd(); now != home {
			t.Errorf("the working directory is %s afterwards, not %s", now, home)
		}
	}
}

func TestAProcessServesOneFolder(t *testing.T) {
	cfg := config()
	cfg.Dir = t.TempDir()
	if _, err := embedded.Open(t.Context(), cfg, slog.New(slog.DiscardHandler)); !errors.Is(err, embedded.ErrOnePerProcess) {
		t.Errorf("got %v", err)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for name, edit := range map[string]func(c *embedded.Config){
		"Dir":       func(c *embedded.Config) { c.Dir = "relative" },
		"Bucket":    func(c *embedded.Config) { c.Bucket = "" },
		"AccessKey": func(c *embedded.Config) { c.SecretKey = "" },
		"Listen":    func(c *embedded.Config) { c.Listen = "nowhere" },
	} {
		cfg := config()
		edit(&cfg)
		if _, err := embedded.Open(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOverwritesLeaveNoSecondName(t *testing.T) {
	s, prefix := lane(t, s3.Config{})
	for range 5 {
		if _, err := s.Put(t.Context(), "d/k", bytes.Repeat([]byte("x"), 1000), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, "bucket", filepath.FromSlash(prefix), "d"))
	if err != nil || len(entries) != 1 || entries[0].Name() != "k" {
		t.Errorf("%v, %v", entries, err)
	}
	if err := s.Delete(t.Context(), "d/k"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "bucket", filepath.FromSlash(prefix), "d")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the empty folder: %v", err)
	}
	if _, err := s.Put(t.Context(), "d/l", nil, objstore.IfAbsent()); err != nil {
		t.Errorf("a folder that was removed is made again: %v", err)
	}
}
