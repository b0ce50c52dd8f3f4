package s3_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/embedded"
	"github.com/siltstone-data/siltstone/objstore/s3"
)

const accessKey, secretKey = "faults", "faults-secret"

var (
	server *embedded.Server
	lanes  atomic.Int64
)

func TestMain(m *testing.M) {
	code, err := serve(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func serve(m *testing.M) (code int, err error) {
	root, err := os.MkdirTemp("", "s3")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(root)
	server, err = embedded.Open(context.Background(), embedded.Config{
		Dir: filepath.Join(root, "store"), Bucket: "bucket", AccessKey: accessKey, SecretKey: secretKey,
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		return 1, err
	}
	return m.Run(), server.Close()
}

// The operations that a script tells apart.
const (
	opGet      = "GET"
	opHead     = "HEAD"
	opPut      = "PUT"
	opDelete   = "DELETE"
	opList     = "LIST"
	opCreate   = "CREATE UPLOAD"
	opPart     = "PART"
	opComplete = "COMPLETE"
	opAbort    = "ABORT"
)

func opOf(r *http.Request) string {
	q := r.URL.Query()
	switch {
	case q.Has("list-type"):
		return opList
	case q.Has("uploads"):
		return opCreate
	case q.Has("partNumber"):
		return opPart
	case q.Has("uploadId") && r.Method == http.MethodPost:
		return opComplete
	case q.Has("uploadId"):
		return opAbort
	}
	return r.Method
}

// trouble is a transport with a script: for each request, numbered from 1 for
// each operation, the script says what goes wrong. Nil is nothing.
type trouble struct {
	base   http.RoundTripper
	script func(op string, n int) fault

	mu    sync.Mutex
	count map[string]int
	seen  []*http.Request
}

// fault handles a request in place of the transport.
type fault func(t *trouble, r *http.Request) (*http.Response, error)

func (t *trouble) RoundTrip(r *http.Request) (*http.Response, error) {
	op := opOf(r)
	t.mu.Lock()
	t.count[op]++
	n := t.count[op]
	t.seen = append(t.seen, r)
	t.mu.Unlock()
	if t.script != nil {
		if f := t.script(op, n); f != nil {
			return f(t, r)
		}
	}
	return t.base.RoundTrip(r)
}

func (t *trouble) requests(op string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count[op]
}

// answers gives an answer of its own; the store sees no request.
func answers(status int, code string) fault {
	return func(_ *trouble, r *http.Request) (*http.Response, error) {
		return response(r, status, code), nil
	}
}

func response(r *http.Request, status int, code string) *http.Response {
	body := ""
	if code != "" {
		body = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>` + code + `</Code><Message>planned</Message></Error>`
	}
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/xml"}}, Body: io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)), Request: r,
	}
}

// refuses finds no connection.
func refuses(*trouble, *http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED }

// loses lets the store do what it was asked, and loses its answer.
func loses(t *trouble, r *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(r)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	return nil, syscall.ECONNRESET
}

// overrides lets the store do what it was asked, and gives another answer.
func overrides(status int, code string) fault {
	return func(t *trouble, r *http.Request) (*http.Response, error) {
		resp, err := t.base.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return response(&http.Request{}, status, code), nil
	}
}

// cuts ends the body of an answer after n bytes: with a clean end when err is
// io.EOF, as a FIN looks below HTTP.
func cuts(n int64, err error) fault {
	return func(t *trouble, r *http.Request) (*http.Response, error) {
		resp, rerr := t.base.RoundTrip(r)
		if rerr != nil {
			return nil, rerr
		}
		resp.Body = &cutBody{ReadCloser: resp.Body, left: n, err: err}
		return resp, nil
	}
}

type cutBody struct {
	io.ReadCloser
	left int64
	err  error
}

func (c *cutBody) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, c.err
	}
	n, err := c.ReadCloser.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// hangs never answers.
func hangs(_ *trouble, r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// first lets something else happen before the request goes on.
func first(do func(), then fault) fault {
	return func(t *trouble, r *http.Request) (*http.Response, error) {
		do()
		if then != nil {
			return then(t, r)
		}
		return t.base.RoundTrip(r)
	}
}

// on is a script for one operation.
func on(op string, faults ...fault) func(string, int) fault {
	return func(o string, n int) fault {
		if o == op && n <= len(faults) {
			return faults[n-1]
		}
		return nil
	}
}

// open gives a store whose requests follow the script, one without faults on the
// same keys, and the transport.
func open(t *testing.T, cfg s3.Config, script func(op string, n int) fault) (faulty, clean objstore.Store, tr *trouble) {
	t.Helper()
	tr = &trouble{base: http.DefaultTransport.(*http.Transport).Clone(), script: script, count: map[string]int{}}
	t.Cleanup(tr.base.(*http.Transport).CloseIdleConnections)
	prefix := fmt.Sprintf("lane%d/", lanes.Add(1))
	cfg.Bucket, cfg.Endpoint, cfg.AccessKey, cfg.SecretKey = "bucket", server.Endpoint(), accessKey, secretKey
	cfg.Retry.Base, cfg.Retry.Max = time.Millisecond, 5*time.Millisecond
	var stores [2]objstore.Store
	for i, rt := range []http.RoundTripper{tr, tr.base} {
		cfg.Transport = rt
		s, err := s3.Open(t.Context(), cfg, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		s3.SmallParts(s)
		stores[i] = objstore.WithPrefix(s, prefix)
	}
	return stores[0], stores[1], tr
}

func put(t *testing.T, s objstore.Store, key, body string) objstore.Info {
	t.Helper()
	info, err := s.Put(t.Context(), key, []byte(body), objstore.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func want(t *testing.T, s objstore.Store, key string, body []byte) objstore.Info {
	t.Helper()
	got, info, err := objstore.ReadAll(t.Context(), s, key)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, body) {
		t.Fatalf("%s holds %d bytes, not the %d expected", key, len(got), len(body))
	}
	return info
}
