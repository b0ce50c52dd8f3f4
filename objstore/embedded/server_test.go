package embedded_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/embedded"
	"github.com/siltstone-data/siltstone/objstore/objtest"
	"github.com/siltstone-data/siltstone/objstore/s3"
)

const accessKey, secretKey = "conformance", "conformance-secret"

// A process can serve one folder, so all tests share a server; each has a prefix
// of its own.
var (
	server *embedded.Server
	told   telling
	dir    string
	lanes  atomic.Int64
)

// telling collects notifications, and refuses them when told to.
type telling struct {
	mu       sync.Mutex
	payloads []string
	refuse   atomic.Bool
}

func (t *telling) notify(_ context.Context, payload []byte) error {
	if t.refuse.Load() {
		return errors.New("the bus is down")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.payloads = append(t.payloads, string(payload))
	return nil
}

func TestMain(m *testing.M) {
	code, err := serve(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func serve(m *testing.M) (code int, err error) {
	root, err := os.MkdirTemp("", "embedded")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(root)
	dir = filepath.Join(root, "store")
	server, err = embedded.Open(context.Background(), config(), slog.New(slog.DiscardHandler))
	if err != nil {
		return 1, err
	}
	code = m.Run()
	return code, server.Close()
}

func config() embedded.Config {
	return embedded.Config{Dir: dir, Bucket: "bucket", AccessKey: accessKey, SecretKey: secretKey, Notify: told.notify}
}

func client(t testing.TB, cfg s3.Config) *s3.Store {
	t.Helper()
	cfg.Bucket, cfg.Endpoint, cfg.AccessKey, cfg.SecretKey = "bucket", server.Endpoint(), accessKey, secretKey
	s, err := s3.Open(t.Context(), cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// lane is a part of the store that no other test sees.
func lane(t testing.TB, cfg s3.Config) (objstore.Store, string) {
	prefix := fmt.Sprintf("lane%d/", lanes.Add(1))
	return objstore.WithPrefix(client(t, cfg), prefix), prefix
}

func TestConforms(t *testing.T) {
	objtest.Conform(t, func(t *testing.T) objstore.Store {
		s, _ := lane(t, s3.Config{})
		return s
	})
}

func TestConformsWithTinyPages(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of requests")
	}
	objtest.Conform(t, func(t *testing.T) objstore.Store {
		s, _ := lane(t, s3.Config{Page: 7})
		return s
	})
}

type note struct {
	Name      string
	Key       string
	ETag      string
	Size      int64
	Sequencer string
}

func notes(t *testing.T, prefix string) []note {
	t.Helper()
	told.mu.Lock()
	defer told.mu.Unlock()
	var out []note
	for _, p := range told.payloads {
		var env struct {
			Records []struct {
				EventName string `json:"eventName"`
				S3        struct {
					Bucket struct {
						Name string `json:"name"`
					} `json:"bucket"`
					Object struct {
						Key       string `json:"key"`
						Size      int64  `json:"size"`
						ETag      string `json:"eTag"`
						Sequencer string `json:"sequencer"`
					} `json:"object"`
				} `json:"s3"`
			}
		}
		if err := json.Unmarshal([]byte(p), &env); err != nil || len(env.Records) != 1 {
			t.Fatalf("%v in %s", err, p)
		}
		r := env.Records[0]
		if strings.HasPrefix(r.S3.Object.Key, prefix) {
			if r.S3.Bucket.Name != "bucket" {
				t.Errorf("bucket %q", r.S3.Bucket.Name)
			}
			out = append(out, note{r.EventName, r.S3.Object.Key, r.S3.Object.ETag, r.S3.Object.Size, r.S3.Object.Sequencer})
		}
	}
	return out
}
