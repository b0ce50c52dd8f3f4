package lockd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/coder/websocket"
)

// word is what a Server says on the connection of a mutex.
type word struct {
	Type      string     `json:"type"` // acquired, held, lost or error
	Token     int64      `json:"token,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	HeldBy    string     `json:"held_by,omitempty"`
	Detail    string     `json:"detail,omitempty"`
}

const (
	sayWithin = 10 * time.Second // a peer that takes nothing in so long is gone
	pingEvery = 15 * time.Second // so that a peer that vanished is noticed
)

// mutex serves a mutex: a lease for as long as the connection is open, MutexFor
// at most. A lockd that dies leaves the lease to end by itself.
func (s *Server) mutex(w http.ResponseWriter, r *http.Request, name string) {
	c := claim{name: name, owner: r.URL.Query().Get("owner"), ttl: s.cfg.MutexFor}
	var err error
	if v := r.URL.Query().Get("wait_s"); v != "" {
		c.wait, err = readSeconds(v)
	}
	if err = cmp.Or(err, c.check()); err != nil {
		s.reply(w, name, nil, err)
		return
	}
	ctx, cancel, err := s.waiting(context.WithoutCancel(r.Context()))
	if err != nil {
		s.reply(w, name, nil, err)
		return
	}
	defer cancel()
	s.mutexes.Add(1)
	defer s.mutexes.Done()
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // it has answered
	}
	defer conn.CloseNow() //nolint:errcheck // whatever it is, it is over
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	// Reading goes on when the server is stopped: the peer is to be told.
	defer context.AfterFunc(conn.CloseRead(context.Background()), leave)()
	s.hold(ctx, conn, c)
}

// hold takes the lease and keeps it until ctx ends, which it does when the peer
// closes or vanishes, or until its time is over.
func (s *Server) hold(ctx context.Context, conn *websocket.Conn, c claim) {
	ctx, cancel := context.WithCancel(ctx)
	pinged := make(chan struct{})
	go func() { defer close(pinged); ping(ctx, cancel, conn) }()
	defer func() { cancel(); <-pinged }()
	lease, err := s.leases.acquire(ctx, c)
	if err != nil {
		s.refuse(conn, err)
		return
	}
	at := lease.ExpiresAt().UTC()
	if say(conn, word{Type: "acquired", Token: lease.Token(), ExpiresAt: &at}) == nil {
		select {
		case <-ctx.Done(): // closed by the peer, which has it no longer
			if errors.Is(context.Cause(ctx), errClosing) {
				_ = say(conn, word{Type: "lost", Token: lease.Token(), Detail: errClosing.Error()})
			}
		case <-time.After(lease.Remaining()):
			_ = say(conn, word{Type: "lost", Token: lease.Token(), Detail: "a mutex is held for " + s.cfg.MutexFor.String() + " at most"})
		}
	}
	if err := lease.Release(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, ErrLost) {
		s.log.Warn("mutex is left to end by itself", "lease", c.name, "err", err)
	}
	_ = conn.Close(websocket.StatusNormalClosure, "")
}

func (s *Server) refuse(conn *websocket.Conn, err error) {
	var h *HeldError
	switch {
	case errors.As(err, &h):
		wd := word{Type: "held", HeldBy: h.HeldBy, Detail: err.Error()}
		if !h.ExpiresAt.IsZero() {
			at := h.ExpiresAt.UTC()
			wd.ExpiresAt = &at
		}
		_ = say(conn, wd)
		_ = conn.Close(websocket.StatusTryAgainLater, "held")
	default:
		_ = say(conn, word{Type: "error", Detail: err.Error()})
		_ = conn.Close(websocket.StatusInternalError, "")
	}
}

func say(conn *websocket.Conn, wd word) error {
	ctx, cancel := context.WithTimeout(context.Background(), sayWithin)
	defer cancel()
	b, err := json.Marshal(wd)
	if err != nil {
		return err
	}
	return conn.Write(ctx, websocket.MessageText, b)
}

func ping(ctx context.Context, gone context.CancelFunc, conn *websocket.Conn) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		in, cancel := context.WithTimeout(ctx, sayWithin)
		err := conn.Ping(in)
		cancel()
		if err != nil {
			gone()
			return
		}
	}
}
