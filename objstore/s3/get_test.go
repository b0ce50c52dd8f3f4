package s3_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/s3"
)

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

func reader(b []byte) *bytes.Reader { return bytes.NewReader(b) }

func TestACutBodyIsReadOn(t *testing.T) {
	body := random(900_000)
	for name, err := range map[string]error{"FIN": io.EOF, "RST": syscall.ECONNRESET} {
		t.Run(name, func(t *testing.T) {
			s, clean, tr := open(t, s3.Config{}, on(opGet, cuts(342_000, err), cuts(0, err), cuts(1, err), cuts(100_000, err)))
			if _, err := clean.Put(t.Context(), "k", body, objstore.Condition{}); err != nil {
				t.Fatal(err)
			}
			want(t, s, "k", body)
			if tr.requests(opGet) != 5 {
				t.Errorf("%d requests", tr.requests(opGet))
			}
			for _, r := range tr.seen[1:] {
				if r.Header.Get("If-Match") == "" || r.Header.Get("Range") == "" {
					t.Errorf("a request for the rest has Range %q and If-Match %q", r.Header.Get("Range"), r.Header.Get("If-Match"))
				}
			}
		})
	}
}

func TestACutRangeIsReadOnToItsEnd(t *testing.T) {
	body := random(10_000)
	s, clean, _ := open(t, s3.Config{}, on(opGet, cuts(10, io.EOF), cuts(10, io.EOF)))
	if _, err := clean.Put(t.Context(), "k", body, objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	r, info, err := s.Get(t.Context(), "k", objstore.Span{Offset: 100, Length: 50})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, body[100:150]) || info.Size != 10_000 {
		t.Fatalf("%d bytes, %+v, %v", len(got), info, err)
	}
}

func TestABodyThatIsAlwaysCutIsNeverShort(t *testing.T) {
	s, clean, _ := open(t, s3.Config{}, func(op string, n int) fault {
		if op != opGet || n == 1 {
			return nil
		}
		return cuts(0, io.EOF)
	})
	body := random(3000)
	if _, err := clean.Put(t.Context(), "k", body, objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	want(t, s, "k", body)
	got, _, err := objstore.ReadAll(t.Context(), s, "k")
	if !errors.Is(err, io.ErrUnexpectedEOF) || len(got) != 0 {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
}

func TestAnObjectThatChangesUnderACutReaderIsChanged(t *testing.T) {
	for name, change := range map[string]func(s objstore.Store) error{
		"overwritten": func(s objstore.Store) error {
			_, err := s.Put(t.Context(), "k", random(3000), objstore.Condition{})
			return err
		},
		"deleted": func(s objstore.Store) error { return s.Delete(t.Context(), "k") },
	} {
		t.Run(name, func(t *testing.T) {
			var clean objstore.Store
			s, clean, _ := open(t, s3.Config{}, on(opGet, cuts(1000, io.EOF), first(func() {
				if err := change(clean); err != nil {
					t.Error(err)
				}
			}, nil)))
			if _, err := clean.Put(t.Context(), "k", random(3000), objstore.Condition{}); err != nil {
				t.Fatal(err)
			}
			got, _, err := objstore.ReadAll(t.Context(), s, "k")
			only(t, err, objstore.ErrChanged)
			if len(got) != 1000 {
				t.Errorf("%d bytes", len(got))
			}
		})
	}
}

// stuck gives some bytes and then none until the request is given up.
func stuck(n int64) fault {
	return func(tr *trouble, r *http.Request) (*http.Response, error) {
		resp, err := tr.base.RoundTrip(r)
		if err == nil {
			resp.Body = &stuckBody{ReadCloser: resp.Body, left: n, done: r.Context().Done()}
		}
		return resp, err
	}
}

type stuckBody struct {
	io.ReadCloser
	left int64
	done <-chan struct{}
}

func (b *stuckBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		<-b.done
		return 0, errors.New("request canceled")
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

func TestABodyThatStallsIsReadOn(t *testing.T) {
	s, clean, tr := open(t, s3.Config{Retry: s3.Retry{Stall: 100 * time.Millisecond}}, on(opGet, stuck(1000), stuck(0), hangs))
	body := random(3000)
	if _, err := clean.Put(t.Context(), "k", body, objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	want(t, s, "k", body)
	if tr.requests(opGet) != 4 {
		t.Errorf("%d requests", tr.requests(opGet))
	}
}

func TestAReadIsTriedAgain(t *testing.T) {
	s, clean, _ := open(t, s3.Config{}, on(opGet, refuses, answers(500, "InternalError"), answers(503, "SlowDown"), loses))
	put(t, clean, "k", "v")
	want(t, s, "k", []byte("v"))
}
