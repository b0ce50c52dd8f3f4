package viewerapi

import (
	"context"
	"net"
	"net/http"
	"runtime/debug"

	"github.com/gofiber/fiber/v3"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
)

// maxDatasets is how many datasets one listener may name.
const maxDatasets = 1000

// events answers GET /api/events with a stream of server-sent events. The
// connection is taken from the server: a listener then costs one goroutine, and
// a write goes straight to it.
func (s *Server) events(c fiber.Ctx) error {
	v, err := values(c, "dataset", "lastEventId")
	if err != nil {
		return err
	}
	var only map[string]struct{}
	for _, d := range v["dataset"] {
		if err := dataset.CheckDataset(d); err != nil {
			return err
		}
		if only == nil {
			only = map[string]struct{}{}
		}
		only[d] = struct{}{}
	}
	if len(only) > maxDatasets {
		return badRequest("%d datasets, at most %d can be listened to by name; leave them out for all", len(only), maxDatasets)
	}
	id := c.Get("Last-Event-ID")
	if id == "" {
		id = v.Get("lastEventId")
	}
	var seen *bus.Position
	lost := false
	if id != "" {
		p, err := bus.ParsePosition(id)
		if err == nil {
			seen = &p
		}
		lost = err != nil // whatever it has seen was not ours
	}
	if err := s.listening(); err != nil {
		return err
	}

	c.Set(fiber.HeaderContentType, "text/event-stream")
	c.Set(fiber.HeaderCacheControl, "no-cache, no-transform")
	c.Set("X-Accel-Buffering", "no")
	if c.Method() == fiber.MethodHead {
		return nil
	}
	ctx := c.RequestCtx()
	ctx.Response.Header.SetContentLength(-2) // until the connection ends
	head := append([]byte(nil), ctx.Response.Header.Header()...)
	conn := ctx.Conn()
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(net.Conn) {
		if !s.admit() {
			return
		}
		defer s.dismiss()
		defer func() {
			if v := recover(); v != nil {
				s.log.Error("an event stream panicked", keyErr, v, "stack", string(debug.Stack()))
			}
		}()
		if err := newClient(s.hub, s.replays, conn, only).serve(s.ctx, head, seen, lost); err != nil {
			s.log.Debug("a listener has gone", keyErr, err)
		}
	})
	return nil
}

// listening waits until the hub knows where it is, and refuses more listeners
// than this process takes.
func (s *Server) listening() error {
	s.mu.Lock()
	full := s.clients >= maxClients
	s.mu.Unlock()
	if full {
		return errBusy
	}
	ctx, cancel := context.WithTimeout(s.ctx, turnTime)
	defer cancel()
	select {
	case <-s.hub.ready:
		return nil
	case <-ctx.Done():
		if s.ctx.Err() != nil {
			return context.Canceled
		}
		return refuse(http.StatusServiceUnavailable, "the events cannot be read: NATS does not answer")
	}
}

func (s *Server) admit() bool {
	if !s.enter() {
		return false
	}
	s.mu.Lock()
	s.clients++
	s.mu.Unlock()
	return true
}

func (s *Server) dismiss() {
	s.mu.Lock()
	s.clients--
	s.mu.Unlock()
	s.leftover.Done()
}
