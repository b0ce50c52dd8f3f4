package lockd_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/lockd"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

// wire is a network within the process, so that time can be virtual.
type wire struct {
	conns chan net.Conn
	once  sync.Once
	gone  chan struct{}

	mu   sync.Mutex
	cut  func(n int) bool // whether the answers of the n-th connection are lost
	made int
}

func newWire() *wire { return &wire{conns: make(chan net.Conn), gone: make(chan struct{})} }

func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.gone:
		return nil, net.ErrClosed
	}
}
func (w *wire) Close() error   { w.once.Do(func() { close(w.gone) }); return nil }
func (w *wire) Addr() net.Addr { return &net.UnixAddr{Name: "wire"} }

// deaf is a connection whose answers are lost, and which breaks when the first
// is due.
type deaf struct{ net.Conn }

func (d deaf) Read([]byte) (int, error) {
	b := make([]byte, 1)
	_, _ = d.Conn.Read(b)
	d.Close()
	return 0, io.ErrUnexpectedEOF
}

func (w *wire) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case w.conns <- theirs:
	case <-w.gone:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made++
	if w.cut != nil && w.cut(w.made) {
		return deaf{mine}, nil
	}
	return mine, nil
}

// served is a Server at one end of a wire, and what asks it at the other.
type served struct {
	*wire
	http *http.Client
	stop func()
}

func serve(t *testing.T, l *lockd.Leases, cfg lockd.ServerConfig) *served {
	t.Helper()
	s := &served{wire: newWire()}
	tr := &http.Transport{DialContext: s.dial}
	s.http = &http.Client{Transport: tr}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- lockd.NewServer(l, nil, cfg, slog.New(slog.DiscardHandler)).Run(ctx, s.wire)
	}()
	s.stop = sync.OnceFunc(func() {
		tr.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		tr.CloseIdleConnections()
	})
	t.Cleanup(s.stop)
	return s
}

func (s *served) client(t *testing.T, token string) *lockd.Client {
	t.Helper()
	c, err := lockd.NewClient(lockd.ClientConfig{URL: "http://lockd", Token: token, HTTP: s.http})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask sends a request as any program would.
func (s *served) ask(t *testing.T, method, path, body string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://lockd"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		t.Fatalf("%s %s: %s: %v", method, path, resp.Status, err)
	}
	return resp.StatusCode, out
}

// api is what Leases and a Client have in common.
type api interface {
	Acquire(ctx context.Context, name, owner string, ttl, wait time.Duration, meta json.RawMessage) (*lockd.Lease, error)
	Renew(ctx context.Context, name string, token int64, ttl time.Duration) (lockd.Status, error)
	Release(ctx context.Context, name string, token int64) error
	ForceRelease(ctx context.Context, name, by string) (lockd.Status, error)
	Show(ctx context.Context, name string) (lockd.Status, error)
}

func TestLeasesAndAClientDoTheSame(t *testing.T) {
	for what, make := range map[string]func(t *testing.T, l *lockd.Leases) api{
		"leases": func(_ *testing.T, l *lockd.Leases) api { return l },
		"client": func(t *testing.T, l *lockd.Leases) api { return serve(t, l, lockd.ServerConfig{}).client(t, "") },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testAPI(t, make(t, open(toTheSecond()))) })
		})
	}
}

func testAPI(t *testing.T, l api) {
	const name = "D+é 50%/annotations/A b/.temp/.lock"
	ctx := t.Context()
	_, err := l.Show(ctx, name)
	is(t, "what there is not", err, lockd.ErrNoLease)
	a, err := l.Acquire(ctx, name, "a ü", time.Minute, 0, json.RawMessage(`{"pid":1}`))
	if err != nil || a.Remaining() != time.Minute || a.Name() != name || a.Owner() != "a ü" {
		t.Fatalf("%+v, %v", a, err)
	}
	if d := time.Until(a.ExpiresAt()); d < 59*time.Second || d > time.Minute {
		t.Errorf("it ends in %s", d)
	}
	<-time.After(10 * time.Second) // of virtual time
	_, err = l.Acquire(ctx, name, "b", time.Minute, 0, nil)
	is(t, "a second", err, lockd.ErrHeld)
	var h *lockd.HeldError
	if !errors.As(err, &h) || h.HeldBy != "a ü" || h.In != 50*time.Second || h.Name != name {
		t.Errorf("%+v", h)
	}
	if err := a.Renew(ctx, 2*time.Minute); err != nil || a.Remaining() != 2*time.Minute {
		t.Errorf("%v, %s remain", err, a.Remaining())
	}
	st, err := l.Show(ctx, name)
	if err != nil || st.State != lockd.Held || st.Owner != "a ü" || st.Token != a.Token() || string(st.Meta) != `{"pid":1}` || st.Left() != 2*time.Minute {
		t.Errorf("%+v, %v", st, err)
	}
	if st, err := l.Renew(ctx, name, a.Token(), time.Minute); err != nil || st.ExpiresAt == nil || st.Owner != "a ü" {
		t.Errorf("%+v, %v", st, err)
	}
	_, err = l.Renew(ctx, name, a.Token()+1, time.Minute)
	is(t, "a wrong token", err, lockd.ErrLost)
	is(t, "a wrong token", l.Release(ctx, name, a.Token()-1), lockd.ErrLost)
	for range 2 { // released is released
		if err := l.Release(ctx, name, a.Token()); err != nil {
			t.Error(err)
		}
	}
	_, err = l.Renew(ctx, name, a.Token(), time.Minute)
	is(t, "after the release", err, lockd.ErrLost)
	b, err := l.Acquire(ctx, name, "b", time.Minute, 0, nil)
	if err != nil || b.Token() <= a.Token() {
		t.Fatalf("%+v, %v", b, err)
	}
	if st, err := l.ForceRelease(ctx, name, "admin"); err != nil || st.State != lockd.Free || len(st.Forced) != 1 || st.Forced[0].By != "admin" {
		t.Errorf("%+v, %v", st, err)
	}
	err = b.Renew(ctx, time.Minute)
	is(t, "after force", err, lockd.ErrLost)
	if err == nil || strings.Count(err.Error(), "no longer yours") != 1 || !strings.Contains(err.Error(), "admin released it by force") {
		t.Errorf("%v", err)
	}
	is(t, "after force", b.Release(ctx), lockd.ErrLost)
	for what, err := range map[string]error{
		"a name":  func() error { _, err := l.Show(ctx, "D/b/manifest.yaml"); return err }(),
		"a ttl":   func() error { _, err := l.Acquire(ctx, name, "c", time.Millisecond, 0, nil); return err }(),
		"a ttl 2": func() error { _, err := l.Renew(ctx, name, 1, 0); return err }(),
	} {
		if !errors.Is(err, lockd.ErrInvalid) && !errors.Is(err, lockd.ErrName) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAClientCountsFromBeforeItAskedAndNotTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(toTheSecond())
		s := serve(t, l, lockd.ServerConfig{})
		a := take(t, l, "a", time.Hour)
		time.AfterFunc(5*time.Minute, func() { _ = a.Release(context.WithoutCancel(t.Context())) })
		b, err := s.client(t, "").Acquire(t.Context(), name, "b", time.Minute, time.Hour, nil)
		if err != nil || b.Remaining() != time.Minute {
			t.Fatalf("%v, %s remain", err, b.Remaining())
		}
		if err := b.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAnAnswerLostOnTheWayFromLockdIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for n := 1; n <= 3; n++ {
			l := open(toTheSecond())
			s := serve(t, l, lockd.ServerConfig{})
			s.http.Transport.(*http.Transport).DisableKeepAlives = true
			s.cut = func(made int) bool { return made == n }
			a, err := s.client(t, "").Acquire(t.Context(), name, "a", time.Minute, 0, nil)
			if err != nil {
				t.Fatalf("answer %d lost: %v", n, err)
			}
			if err := a.Renew(t.Context(), time.Minute); err != nil {
				t.Errorf("answer %d lost: %v", n, err)
			}
			if st, err := l.Show(t.Context(), name); err != nil || st.Token != a.Token() || st.State != lockd.Held {
				t.Errorf("answer %d lost: %+v, %v", n, st, err)
			}
			if err := a.Release(t.Context()); err != nil {
				t.Errorf("answer %d lost: %v", n, err)
			}
			if st, err := l.Show(t.Context(), name); err != nil || st.State != lockd.Free {
				t.Errorf("answer %d lost: %+v, %v", n, st, err)
			}
			s.stop()
		}
	})
}

func TestALockdThatIsGoneIsNoLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, open(toTheSecond()), lockd.ServerConfig{})
		c := s.client(t, "")
		a, err := c.Acquire(t.Context(), name, "a", time.Minute, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.stop()
		is(t, "without lockd", a.Renew(t.Context(), time.Minute), lockd.ErrUnreachable)
		if r := a.Remaining(); r <= 0 || r > 6*time.Second {
			t.Errorf("%s remain", r)
		}
		_, err = c.Acquire(t.Context(), name, "b", time.Minute, 0, nil)
		is(t, "without lockd", err, lockd.ErrUnreachable)
	})
}

func TestLockdTellsAStoreThatIsAwayFromALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("connection refused")
		down := objtest.NewFaulty(t, toTheSecond(), objtest.On(objtest.Get, objtest.List).Fail(away))
		s := serve(t, open(down), lockd.ServerConfig{})
		_, err := s.client(t, "").Acquire(t.Context(), name, "a", time.Minute, 0, nil)
		is(t, "without a store", err, lockd.ErrUnreachable)
		status, out := s.ask(t, "GET", "/v1/leases", "")
		if status != 503 || !strings.Contains(out["detail"].(string), "connection refused") {
			t.Errorf("%d %v", status, out)
		}
	})
}

func TestWhatIsAskedForWithoutTheTokenIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, open(toTheSecond()), lockd.ServerConfig{Token: "secret"})
		for _, token := range []string{"", "secre", "secret2", "Secret"} {
			c := s.client(t, token)
			_, err := c.Acquire(t.Context(), name, "a", time.Minute, 0, nil)
			if !errors.Is(err, lockd.ErrDenied) {
				t.Errorf("%q: %v", token, err)
			}
			for _, err := range c.List(t.Context(), "") {
				if !errors.Is(err, lockd.ErrDenied) {
					t.Errorf("%q: list: %v", token, err)
				}
			}
		}
		c := s.client(t, "secret")
		if _, err := c.Acquire(t.Context(), name, "a", time.Minute, 0, nil); err != nil {
			t.Error(err)
		}
		if _, _, err := websocket.Dial(t.Context(), "ws://lockd/v1/mutex/_locks/m?owner=o", &websocket.DialOptions{HTTPClient: s.http}); err == nil {
			t.Error("a mutex without a token")
		}
	})
}

func TestTheAPIAnswersAsItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, open(toTheSecond()), lockd.ServerConfig{})
		status, out := s.ask(t, "POST", "/v1/leases/_locks/x/acquire", `{"owner":"me","ttl_s":60,"wait_s":0,"meta":{"a":1}}`)
		if status != 200 || out["name"] != "_locks/x" || out["owner"] != "me" || out["token"] == nil || out["expires_at"] == nil {
			t.Errorf("%d %v", status, out)
		}
		token := int64(out["token"].(float64))
		status, out = s.ask(t, "POST", "/v1/leases/_locks%2Fx/acquire", `{"owner":"you","ttl_s":60}`)
		if status != 409 || out["held_by"] != "me" || out["expires_at"] == nil || out["name"] != "_locks/x" {
			t.Errorf("%d %v", status, out)
		}
		status, out = s.ask(t, "POST", "/v1/leases/_locks/x/renew", fmt.Sprintf(`{"token":%d,"ttl_s":90.5}`, token))
		if status != 200 || out["ttl_s"] != 90.5 {
			t.Errorf("%d %v", status, out)
		}
		status, out = s.ask(t, "GET", "/v1/leases/_locks/x", "")
		if status != 200 || out["state"] != "held" || out["expires_in_s"] != 90.5 {
			t.Errorf("%d %v", status, out)
		}
		status, out = s.ask(t, "GET", "/v1/leases?prefix=_locks/", "")
		if list, ok := out["leases"].([]any); status != 200 || !ok || len(list) != 1 {
			t.Errorf("%d %v", status, out)
		}
		status, out = s.ask(t, "GET", "/v1/leases?prefix=zz", "")
		if list, ok := out["leases"].([]any); status != 200 || !ok || len(list) != 0 {
			t.Errorf("%d %v", status, out)
		}
		status, _ = s.ask(t, "POST", "/v1/leases/_locks/x/release", fmt.Sprintf(`{"token":%d}`, token))
		if status != 200 {
			t.Errorf("release: %d", status)
		}
		for _, c := range []struct {
			method, path, body string
			status             int
		}{
			{"POST", "/v1/leases/_locks/x/renew", fmt.Sprintf(`{"token":%d,"ttl_s":60}`, token), 409},
			{"POST", "/v1/leases/_locks/x/release", `{"token":1}`, 409},
			{"POST", "/v1/leases/_locks/x/acquire", `{"owner":"me","ttl_s":60,"surprise":1}`, 400},
			{"POST", "/v1/leases/_locks/x/acquire", `{"owner":"me","ttl_s":"60"}`, 400},
			{"POST", "/v1/leases/_locks/x/acquire", `{"owner":"me","ttl_s":1e300}`, 400},
			{"POST", "/v1/leases/_locks/x/acquire", `{"owner":"me","ttl_s":60}{}`, 400},
			{"POST", "/v1/leases/_locks/x/acquire", `{"owner":"me","ttl_s":60,"meta":{"x":"` + strings.Repeat("x", 100_000) + `"}}`, 413},
			{"POST", "/v1/leases/_locks/x/acquire", `{"owner":"","ttl_s":60}`, 400},
			{"POST", "/v1/leases/_locks/x/acquire", `{"owner":"me"}`, 400},
			{"POST", "/v1/leases/_locks/x/acquire", `{"owner":"me","ttl_s":-1}`, 400},
			{"POST", "/v1/leases/_locks/x/acquire", `{"owner":"me","ttl_s":60,"wait_s":-1}`, 400},
			{"POST", "/v1/leases/_locks/x/acquire", `{"owner":"me","ttl_s":60,"wait_s":1e8}`, 400},
			{"POST", "/v1/leases/_locks/x/acquire", `{"owner":"me","ttl_s":60,"meta":[1]}`, 400},
			{"POST", "/v1/leases/_locks/x/acquire", `{"owner":"me","ttl_s":60,"meta":{"x":"` + strings.Repeat("x", 20_000) + `"}}`, 400},
			{"POST", "/v1/leases/_locks/x/acquire", `{"owner":"me","ttl_s":60,"id":"` + strings.Repeat("x", 101) + `"}`, 400},
			{"POST", "/v1/leases/_locks/x/acquire", `{"owner":"` + strings.Repeat("x", 501) + `","ttl_s":60}`, 400},
			{"POST", "/v1/leases/_locks/x/acquire", `null`, 400},
			{"POST", "/v1/leases/_locks/x/acquire", `[]`, 400},
			{"POST", "/v1/leases/_locks/x/renew", `{"token":"1","ttl_s":60}`, 400},
			{"POST", "/v1/leases/_locks/x/renew", `{"token":1.5,"ttl_s":60}`, 400},
			{"POST", "/v1/leases/_locks/x/renew", `{"token":99999999999999999999,"ttl_s":60}`, 400},
			{"POST", "/v1/leases/_locks/x/release", `{}`, 400},
			{"POST", "/v1/leases/_locks/x/release", `null`, 400},
			{"POST", "/v1/leases/_locks/x/release", `{"token":-1}`, 400},
			{"POST", "/v1/leases/_locks/x/force-release", `{}`, 400},
			{"POST", "/v1/leases/_locks/none/force-release", `{"by":"me"}`, 404},
			{"POST", "/v1/leases/_locks/.selftest/x/acquire", `{"owner":"me","ttl_s":60}`, 400},
			{"POST", "/v1/leases/_locks/x%00/acquire", `{"owner":"me","ttl_s":60}`, 400},
			{"POST", "/v1/leases/_locks/" + strings.Repeat("x", 201) + "/acquire", `{"owner":"me","ttl_s":60}`, 400},
			{"POST", "/v1/leases/acquire", `{"owner":"me","ttl_s":60}`, 400},
			{"POST", "/v1/leases/_locks/x/acquire", ``, 400},
			{"POST", "/v1/leases/_locks/x/steal", `{}`, 400},
			{"POST", "/v1/leases/D/b/manifest.yaml/acquire", `{"owner":"me","ttl_s":60}`, 400},
			{"POST", "/v1/leases/_locks/../D/acquire", `{"owner":"me","ttl_s":60}`, 400},
			{"POST", "/v1/leases/_locks//x/acquire", `{"owner":"me","ttl_s":60}`, 400},
			{"GET", "/v1/leases/_locks/none", ``, 404},
			{"GET", "/v1/nothing", ``, 404},
			{"GET", "/v1/leasesx", ``, 404},
			{"DELETE", "/v1/leases/_locks/x", ``, 405},
			{"POST", "/v1/leases", `{}`, 405},
			{"GET", "/v1/mutex/_locks/m", ``, 400},
			{"GET", "/v1/mutex/_locks/m?owner=o&wait_s=-1", ``, 400},
			{"GET", "/v1/mutex/_locks/m?owner=o&wait_s=NaN", ``, 400},
			{"GET", "/v1/mutex/_locks/m?owner=o&wait_s=x1p4", ``, 400},
			{"GET", "/v1/mutex/_locks/m?owner=o&wait_s=1_0", ``, 400},
			{"GET", "/v1/mutex/D/b/x?owner=o", ``, 400},
		} {
			if status, out := s.ask(t, c.method, c.path, c.body); status != c.status || int(out["status"].(float64)) != status || out["detail"] == "" {
				t.Errorf("%s %s %.40s: %d, want %d; %v", c.method, c.path, c.body, status, c.status, out)
			}
		}
	})
}

func TestAPageOfAnotherSiteCannotTakeALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, open(toTheSecond()), lockd.ServerConfig{})
		req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://lockd/v1/leases/_locks/x/acquire", strings.NewReader(`{"owner":"me","ttl_s":60}`))
		req.Header.Set("Origin", "https://evil.example")
		resp, err := s.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Error(resp.Status)
		}
	})
}

func TestAListThatBreaksOffIsNoWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := toTheSecond()
		l := open(s)
		for i := range 100 {
			if _, err := l.Acquire(t.Context(), fmt.Sprintf("_locks/%03d", i), "o", time.Minute, 0, nil); err != nil {
				t.Fatal(err)
			}
		}
		c := serve(t, l, lockd.ServerConfig{}).client(t, "")
		var names []string
		for st, err := range c.List(t.Context(), "_locks/") {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, st.Name)
		}
		if len(names) != 100 || names[7] != "_locks/007" {
			t.Errorf("%d: %v", len(names), names)
		}
		f := objtest.NewFaulty(t, s, objtest.On(objtest.Get).Key("_locks/09*").Fail(errors.New("gone")))
		var last error
		n := 0
		for _, err := range serve(t, open(f), lockd.ServerConfig{}).client(t, "").List(t.Context(), "") {
			if last = err; err == nil {
				n++
			}
		}
		if last == nil || n >= 100 {
			t.Errorf("%d leases, %v", n, last)
		}
	})
}

func TestWhatIsNoLockdIsNamedAndNotAskedAgain(t *testing.T) {
	for _, status := range []int{302, 404, 405, 410} {
		asked := 0
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked++; w.WriteHeader(status) }))
		c, err := lockd.NewClient(lockd.ClientConfig{URL: other.URL})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Acquire(t.Context(), name, "o", time.Minute, 0, nil)
		is(t, "another server", err, lockd.ErrNoLockd)
		if asked != 1 || !strings.Contains(err.Error(), "LOCKD_URL") {
			t.Errorf("asked %d times: %v", asked, err)
		}
		other.Close()
	}
}

func TestThoseWhoWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(toTheSecond())
		s := serve(t, l, lockd.ServerConfig{MaxWaiting: 3})
		take(t, l, "a", time.Hour)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				status, _ := s.ask(t, "POST", "/v1/leases/_locks/job/acquire", `{"owner":"w","ttl_s":60,"wait_s":60}`)
				if status != 409 {
					t.Errorf("status %d", status)
				}
			})
		}
		synctest.Wait()
		if status, out := s.ask(t, "POST", "/v1/leases/_locks/job/acquire", `{"owner":"w","ttl_s":60,"wait_s":60}`); status != 503 {
			t.Errorf("%d %v", status, out)
		}
		wg.Wait()
	})
}

func TestAServerThatIsStoppedLetsNobodyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(toTheSecond())
		s := serve(t, l, lockd.ServerConfig{})
		a := take(t, l, "a", time.Hour)
		done := make(chan error)
		go func() {
			_, err := s.client(t, "").Acquire(t.Context(), name, "w", time.Minute, time.Hour, nil)
			done <- err
		}()
		synctest.Wait()
		began := time.Now()
		s.stop()
		is(t, "a wait that was ended", <-done, lockd.ErrUnreachable)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %s", took)
		}
		if a.Remaining() == 0 {
			t.Error("a lease was lost")
		}
	})
}

// Clients of two lockds and some that go straight to the store want one lease.
func TestTokensGrowWhoeverGivesTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &court{Store: toTheSecond()}
		var takers []api
		for range 2 {
			s := serve(t, open(c), lockd.ServerConfig{})
			takers = append(takers, s.client(t, ""), s.client(t, ""), open(c))
		}
		var wg sync.WaitGroup
		for i, l := range takers {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(1, uint64(i)))
				for range 40 {
					lease, err := l.Acquire(t.Context(), name, fmt.Sprint("taker ", i), 10*time.Second, time.Hour, nil)
					if err != nil {
						t.Errorf("taker %d: %v", i, err)
						return
					}
					c.give(lease)
					pass(time.Duration(rng.Int64N(int64(8 * time.Second))))
					if rng.IntN(4) > 0 { // or else it ends by itself
						if err := lease.Release(t.Context()); err != nil && !errors.Is(err, lockd.ErrLost) {
							t.Error(err)
						}
					}
				}
			})
		}
		wg.Wait()
		if c.granted != 40*len(takers) || len(c.wrong) > 0 {
			t.Errorf("%d leases; %s", c.granted, strings.Join(c.wrong, "\n"))
		}
	})
}

// A lockd keeps nothing that its successor does not find in the store.
func TestALockdThatIsStartedAgainKnowsEveryLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := toTheSecond()
		s := serve(t, open(store), lockd.ServerConfig{})
		a, err := s.client(t, "").Acquire(t.Context(), name, "a", time.Minute, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		s.stop()
		c := serve(t, open(store), lockd.ServerConfig{}).client(t, "")
		_, err = c.Acquire(t.Context(), name, "b", time.Minute, 0, nil)
		is(t, "another, at the next lockd", err, lockd.ErrHeld)
		if st, err := c.Renew(t.Context(), name, a.Token(), time.Minute); err != nil || st.Owner != "a" {
			t.Errorf("the holder, at the next lockd: %+v, %v", st, err)
		}
		began := time.Now()
		b, err := c.Acquire(t.Context(), name, "b", time.Minute, time.Hour, nil)
		if took := time.Since(began); err != nil || b.Token() <= a.Token() || took < time.Minute {
			t.Errorf("after its end: %v after %s", err, took)
		}
	})
}

// A request whose body does not come keeps nobody busy.
func TestABodyThatDoesNotComeIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, open(toTheSecond()), lockd.ServerConfig{})
		conn, err := s.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		began := time.Now()
		if _, err := fmt.Fprint(conn, "POST /v1/leases/_locks/m/acquire HTTP/1.1\r\nHost: lockd\r\nContent-Length: 50\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if took := time.Since(began); resp.StatusCode != http.StatusBadRequest || took > time.Minute {
			t.Errorf("%s after %s", resp.Status, took)
		}
	})
}

// A peer that takes nothing does not keep a lockd from being stopped.
func TestAStoppedLockdDoesNotHangOnAMutexThatReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(toTheSecond())
		s := serve(t, l, lockd.ServerConfig{})
		mutex(t, s, "owner=a") // and reads no more
		began := time.Now()
		s.stop()
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("it took %s", took)
		}
		if st, err := l.Show(t.Context(), "_locks/m"); err != nil || st.State != lockd.Free {
			t.Errorf("%+v, %v", st, err)
		}
	})
}

func mutex(t *testing.T, s *served, query string) (*websocket.Conn, map[string]any) {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), "ws://lockd/v1/mutex/_locks/m?"+query, &websocket.DialOptions{HTTPClient: s.http})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	return conn, hear(t, conn)
}

func hear(t *testing.T, conn *websocket.Conn) map[string]any {
	t.Helper()
	_, b, err := conn.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAMutexIsHeldWhileItsConnectionIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(toTheSecond())
		s := serve(t, l, lockd.ServerConfig{})
		a, said := mutex(t, s, "owner=a")
		if said["type"] != "acquired" || said["token"] == nil || said["expires_at"] == nil {
			t.Fatalf("%v", said)
		}
		_, held := mutex(t, s, "owner=b")
		if held["type"] != "held" || held["held_by"] != "a" || held["expires_at"] == nil {
			t.Errorf("%v", held)
		}
		a.CloseRead(t.Context()) // which answers pings
		got := make(chan map[string]any)
		go func() {
			_, said := mutex(t, s, "owner=c&wait_s=50")
			got <- said
		}()
		time.Sleep(30 * time.Second)
		if err := a.Close(websocket.StatusNormalClosure, ""); err != nil {
			t.Error(err)
		}
		began := time.Now()
		next := <-got
		if next["type"] != "acquired" || next["token"].(float64) <= said["token"].(float64) || time.Since(began) > time.Second {
			t.Errorf("%v after %s", next, time.Since(began))
		}
		s.stop()
		if st, err := l.Show(t.Context(), "_locks/m"); err != nil || st.State != lockd.Free {
			t.Errorf("after the end of lockd: %+v, %v", st, err)
		}
	})
}

func TestAMutexIsLostAfterAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(toTheSecond())
		s := serve(t, l, lockd.ServerConfig{})
		began := time.Now()
		a, said := mutex(t, s, "owner=a")
		next := make(chan map[string]any)
		go func() { _, said := mutex(t, s, "owner=b&wait_s=300"); next <- said }()
		lost := hear(t, a)
		if lost["type"] != "lost" || lost["token"] != said["token"] || time.Since(began) != time.Minute {
			t.Errorf("%v after %s", lost, time.Since(began))
		}
		if _, _, err := a.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
			t.Errorf("it is not closed: %v", err)
		}
		if said := <-next; said["type"] != "acquired" || time.Since(began) > 61*time.Second {
			t.Errorf("%v after %s", said, time.Since(began))
		}
	})
}

func TestAMutexOfOneThatVanishedIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, open(toTheSecond()), lockd.ServerConfig{})
		a, _ := mutex(t, s, "owner=a") // and reads no more: no pong comes
		began := time.Now()
		_, said := mutex(t, s, "owner=b&wait_s=50")
		if said["type"] != "acquired" || time.Since(began) > 30*time.Second {
			t.Errorf("%v after %s", said, time.Since(began))
		}
		_ = a
	})
}

func TestAMutexOfAStoppedLockdIsSaidToBeLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, open(toTheSecond()), lockd.ServerConfig{})
		a, said := mutex(t, s, "owner=a")
		go s.stop()
		if lost := hear(t, a); lost["type"] != "lost" || lost["token"] != said["token"] {
			t.Errorf("%v", lost)
		}
		_, _, _ = a.Read(t.Context())
	})
}

func TestWhatIsBesideLeasesNeedsNoToken(t *testing.T) {
	beside := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) })
	h := lockd.NewServer(open(toTheSecond()), beside, lockd.ServerConfig{Token: "secret"}, slog.New(slog.DiscardHandler)).Handler()
	var got []string
	for _, path := range []string{"/healthz", "/metrics", "/v1/leases"} {
		w := &recorder{header: http.Header{}}
		req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://lockd"+path, nil)
		h.ServeHTTP(w, req)
		got = append(got, fmt.Sprint(path, w.status))
	}
	if diff := cmp.Diff([]string{"/healthz0", "/metrics0", "/v1/leases401"}, got); diff != "" {
		t.Error(diff)
	}
}

type recorder struct {
	header http.Header
	status int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }
func (r *recorder) WriteHeader(s int)           { r.status = s }

var _ objstore.Store = (*court)(nil)
