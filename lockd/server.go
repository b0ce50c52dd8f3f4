package lockd

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// ServerConfig holds the settings of a Server; the zero value is usable.
type ServerConfig struct {
	Token      string        // that callers bear; none is asked for when empty
	MutexFor   time.Duration // longest that a mutex is held; 60 s when 0
	MaxWaiting int           // requests and mutexes that wait at once; 4096 when 0
}

// Server gives leases and mutexes to others over HTTP:
//
//	POST /v1/leases/NAME/acquire        {"owner","ttl_s","wait_s","meta","id"}
//	POST /v1/leases/NAME/renew          {"token","ttl_s"}
//	POST /v1/leases/NAME/release        {"token"}
//	POST /v1/leases/NAME/force-release  {"by"}
//	GET  /v1/leases[?prefix=]
//	GET  /v1/leases/NAME
//	GET  /v1/mutex/NAME?owner=&wait_s=  a WebSocket
//
// Any number may serve one store. Those who wait at one of them are served in
// their order.
type Server struct {
	leases *Leases
	cfg    ServerConfig
	beside http.Handler
	log    *slog.Logger

	closing chan struct{} // closed when nobody shall wait any more
	close   func()
	mutexes sync.WaitGroup
	waits   chan struct{} // one place for each that may wait
}

// NewServer serves leases, and beside them, where nothing is asked of whoever
// comes, what beside serves; it may be nil.
func NewServer(leases *Leases, beside http.Handler, cfg ServerConfig, log *slog.Logger) *Server {
	cfg.MutexFor = cmp.Or(cfg.MutexFor, time.Minute)
	cfg.MaxWaiting = cmp.Or(cfg.MaxWaiting, 4096)
	if beside == nil {
		beside = http.NotFoundHandler()
	}
	closing := make(chan struct{})
	return &Server{
		leases: leases, cfg: cfg, beside: beside, log: log,
		closing: closing, close: sync.OnceFunc(func() { close(closing) }),
		waits: make(chan struct{}, cfg.MaxWaiting),
	}
}

// closeWithin is how long requests that are under way may still take.
const closeWithin = 10 * time.Second

// Run serves until ctx ends. Then nobody waits any more, mutexes are released,
// and what is under way is finished.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	srv := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		s.close()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
		defer cancel()
		if srv.Shutdown(end) != nil {
			_ = srv.Close() // of those who do not take their answers
		}
		s.mutexes.Wait()
	})
	err := srv.Serve(l)
	if !stop() {
		<-done
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve leases: %w", err)
	}
	return nil
}

// Handler answers requests.
func (s *Server) Handler() http.Handler {
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.route))
}

// route tells requests apart by hand: names have slashes, and a mux would clean
// them.
func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	path, ours := strings.CutPrefix(r.URL.Path, "/v1/")
	if !ours {
		s.beside.ServeHTTP(w, r)
		return
	}
	if !s.allowed(r) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="lockd"`)
		answer(w, http.StatusUnauthorized, problem{Type: "about:blank", Title: "Unauthorized", Status: http.StatusUnauthorized,
			Detail: "lockd wants its token: Authorization: Bearer …"})
		return
	}
	rest, isLease := strings.CutPrefix(path, "leases")
	name, hasName := strings.CutPrefix(rest, "/")
	mutex, isMutex := strings.CutPrefix(path, "mutex/")
	switch {
	case r.Method == http.MethodGet && isMutex:
		s.mutex(w, r, mutex)
	case r.Method == http.MethodGet && isLease && rest == "":
		s.list(w, r)
	case r.Method == http.MethodGet && isLease && hasName:
		s.show(w, r, name)
	case r.Method == http.MethodPost && isLease && hasName:
		s.post(w, r, name)
	case isMutex || isLease && (rest == "" || hasName):
		answer(w, http.StatusMethodNotAllowed, problem{Type: "about:blank", Title: "Method Not Allowed", Status: http.StatusMethodNotAllowed,
			Detail: r.Method + " is nothing that can be done here"})
	default:
		answer(w, http.StatusNotFound, problem{Type: "about:blank", Title: "Not Found", Status: http.StatusNotFound, Detail: "there is no " + r.URL.Path})
	}
}

func (s *Server) allowed(r *http.Request) bool {
	if s.cfg.Token == "" {
		return true
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(token), []byte(s.cfg.Token)) == 1
}

func (s *Server) post(w http.ResponseWriter, r *http.Request, path string) {
	i := strings.LastIndexByte(path, '/')
	name, verb := path[:max(i, 0)], path[i+1:]
	var out any
	var err error
	switch verb {
	case "acquire":
		var in acquireBody
		came := s.leases.now()
		if err = readBody(w, r, &in); err == nil {
			out, err = s.acquire(r.Context(), came, name, in)
		}
	case "renew":
		var in renewBody
		if err = readBody(w, r, &in); err == nil {
			out, err = s.renew(r.Context(), name, in)
		}
	case "release":
		var in releaseBody
		if err = readBody(w, r, &in); err == nil {
			out, err = struct{}{}, s.leases.Release(context.WithoutCancel(r.Context()), name, in.Token)
		}
	case "force-release":
		var in forceBody
		if err = readBody(w, r, &in); err == nil {
			out, err = s.leases.ForceRelease(context.WithoutCancel(r.Context()), name, in.By)
		}
	default:
		err = invalid("%q is nothing to do with a lease; it is acquire, renew, release or force-release", verb)
	}
	s.reply(w, name, out, err)
}

// bodyWithin is how long the body of a request may take to come.
const bodyWithin = 20 * time.Second

func readBody(w http.ResponseWriter, r *http.Request, v any) error {
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(bodyWithin))
	if err := decodeBody(http.MaxBytesReader(w, r.Body, maxBody), v); err != nil {
		return err // and the rest of the body is not waited for either
	}
	_ = conn.SetReadDeadline(time.Time{}) // for as long as it takes to answer
	return nil
}

func (s *Server) acquire(asked context.Context, came time.Time, name string, in acquireBody) (any, error) {
	ctx, cancel, err := s.waiting(asked)
	if err != nil {
		return nil, err
	}
	defer cancel()
	c := claim{name: name, owner: in.Owner, ttl: time.Duration(in.TTL), wait: time.Duration(in.Wait), meta: in.Meta, id: in.ID}
	lease, err := s.leases.acquire(ctx, c)
	if err != nil {
		return nil, err
	}
	if asked.Err() != nil { // nobody is there to have it
		return nil, errors.Join(context.Cause(asked), lease.Release(context.WithoutCancel(ctx)))
	}
	// Cut to the millisecond, and never later than the truth.
	began := s.leases.now().Add(lease.Remaining() - c.ttl)
	waited := max(began.Sub(came), 0).Truncate(time.Millisecond)
	return grant{Name: name, Owner: in.Owner, Token: lease.Token(), ExpiresAt: lease.ExpiresAt().UTC(), TTL: in.TTL, Waited: Seconds(waited)}, nil
}

// errBusy: more requests wait than may.
var errBusy = errors.New("too many requests wait already; try again in a moment")

// errClosing: a request waited when the server was stopped.
var errClosing = errors.New("lockd is being stopped")

// waiting is the context of a request that may wait: it ends when the server is
// stopped.
func (s *Server) waiting(ctx context.Context) (context.Context, func(), error) {
	select {
	case s.waits <- struct{}{}:
	default:
		return nil, nil, errBusy
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-s.closing:
			cancel(errClosing)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil); <-stopped; <-s.waits }, nil
}

func (s *Server) renew(ctx context.Context, name string, in renewBody) (any, error) {
	st, err := s.leases.Renew(context.WithoutCancel(ctx), name, in.Token, time.Duration(in.TTL))
	if err != nil {
		return nil, err
	}
	return grant{Name: name, Owner: st.Owner, Token: st.Token, ExpiresAt: *st.ExpiresAt, TTL: in.TTL}, nil
}

func (s *Server) show(w http.ResponseWriter, r *http.Request, name string) {
	st, err := s.leases.Show(r.Context(), name)
	s.reply(w, name, st, err)
}

// takeWithin is how long the reader of a list may take nothing.
const takeWithin = 30 * time.Second

// list streams. An error after the first lease ends the connection, so that a
// part cannot be taken for the whole.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	n := 0
	conn := http.NewResponseController(w)
	enc := json.NewEncoder(w)
	for st, err := range s.leases.List(r.Context(), r.URL.Query().Get("prefix")) {
		switch {
		case err != nil && n == 0:
			s.reply(w, "", nil, err)
			return
		case err != nil:
			s.log.Warn("list of leases broke off", "err", err)
			panic(http.ErrAbortHandler)
		case n == 0:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"leases":[`)
		default:
			fmt.Fprint(w, ",")
		}
		n++
		_ = conn.SetWriteDeadline(time.Now().Add(takeWithin))
		if err := enc.Encode(st); err != nil {
			return
		}
	}
	if n == 0 {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"leases":[`)
	}
	fmt.Fprintln(w, "]}")
}

func (s *Server) reply(w http.ResponseWriter, name string, out any, err error) {
	if err == nil {
		answer(w, http.StatusOK, out)
		return
	}
	p := problemOf(err, name)
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if p.Status >= 500 && !errors.Is(err, context.Canceled) && !errors.Is(err, errClosing) {
		s.log.Warn("request failed", "lease", name, "err", err)
	}
	answer(w, p.Status, p)
}

func answer(w http.ResponseWriter, status int, v any) {
	kind := "application/json"
	if _, is := v.(problem); is {
		kind = "application/problem+json"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
