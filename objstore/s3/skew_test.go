package s3_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/s3"
)

// elsewhen is a store whose clock is ahead of this machine's: to it, this
// machine's is behind. It keeps one object, and refuses what is not signed with
// its own time, within 15 minutes.
type elsewhen struct {
	mu       sync.Mutex
	ahead    time.Duration
	code     string // of a refusal
	denied   bool
	body     []byte
	modified time.Time
	refused  int
	served   int
}

func (e *elsewhen) now() time.Time { return time.Now().Add(e.ahead).UTC() }

func (e *elsewhen) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w.Header().Set("Date", e.now().Format(http.TimeFormat))
	signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if late := e.now().Sub(signed).Abs(); err != nil || late > 15*time.Minute || e.denied {
		e.refused++
		w.WriteHeader(http.StatusForbidden)
		if r.Method != http.MethodHead {
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s off</Message></Error>", e.code, late)
		}
		return
	}
	e.served++
	switch r.Method {
	case http.MethodPut:
		e.body, _ = io.ReadAll(r.Body)
		e.modified = e.now()
		w.Header().Set("ETag", `"e"`)
	case http.MethodGet:
		w.Header().Set("ETag", `"e"`)
		w.Header().Set("Last-Modified", e.modified.Format(http.TimeFormat))
		w.Header().Set("Content-Length", fmt.Sprint(len(e.body)))
		_, _ = w.Write(e.body)
	}
}

func openElsewhen(t *testing.T, e *elsewhen) *s3.Store {
	t.Helper()
	srv := httptest.NewServer(e)
	t.Cleanup(srv.Close)
	s, err := s3.Open(t.Context(), s3.Config{
		Bucket: "bucket", Endpoint: srv.URL, AccessKey: "k", SecretKey: "s",
		Retry: s3.Retry{Attempts: 3, Base: time.Millisecond, Max: time.Millisecond},
	}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestAClockAnHourOffChangesNothing(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, 26 * time.Hour} {
		for _, code := range []string{"RequestTimeTooSkewed", "SignatureDoesNotMatch", "AccessDenied", "RequestExpired"} {
			e := &elsewhen{ahead: ahead, code: code}
			s := openElsewhen(t, e)
			for n := range 3 {
				put, err := s.Put(t.Context(), "k", []byte("v"), objstore.Condition{})
				if err != nil {
					t.Fatalf("%s, %s: put %d: %v", ahead, code, n, err)
				}
				body, got, err := objstore.ReadAll(t.Context(), s, "k")
				if err != nil || string(body) != "v" {
					t.Fatalf("%s, %s: get %d: %q, %v", ahead, code, n, body, err)
				}
				for _, date := range []time.Time{put.Date, got.Date, got.Modified} {
					if off := date.Sub(e.now()).Abs(); off > 5*time.Second {
						t.Errorf("%s: an answer tells %s, the store has %s", ahead, date, e.now())
					}
				}
			}
			if e.refused != 1 || e.served != 6 {
				t.Errorf("%s, %s: %d refused, %d served", ahead, code, e.refused, e.served)
			}
		}
	}
}

func TestAClockThatJumpsIsFollowed(t *testing.T) {
	e := &elsewhen{code: "RequestTimeTooSkewed"}
	s := openElsewhen(t, e)
	for _, ahead := range []time.Duration{0, time.Hour, 0, -time.Hour} {
		e.mu.Lock()
		e.ahead = ahead
		e.mu.Unlock()
		if _, err := s.Put(t.Context(), "k", []byte("v"), objstore.Condition{}); err != nil {
			t.Fatalf("after a jump to %s: %v", ahead, err)
		}
	}
}

func TestAClockThatIsOffIsNoDenialOfABucket(t *testing.T) {
	e := &elsewhen{ahead: time.Hour} // a HEAD is answered without a word
	if err := openElsewhen(t, e).EnsureBucket(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestADenialIsOneWhateverTheClock(t *testing.T) {
	e := &elsewhen{code: "AccessDenied", denied: true, ahead: time.Hour}
	s := openElsewhen(t, e)
	_, err := s.Put(context.Background(), "k", nil, objstore.Condition{})
	if !errors.Is(err, s3.ErrDenied) || e.refused != 2 {
		t.Errorf("%d requests: %v", e.refused, err)
	}
}
