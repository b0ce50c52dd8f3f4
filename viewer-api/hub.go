package viewerapi

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/siltstone-data/siltstone/nats/bus"
)

const (
	// ringFrames is how many events are kept for clients that come back.
	ringFrames = 4096
	// history is how far back events are read at the start: clients of a process
	// that was started again come back at once, all of them.
	history = 2 * time.Minute
)

// hub follows the events and hands them to the clients. What it remembers begins
// behind the position from and ends at the position at.
type hub struct {
	events Events
	log    *slog.Logger
	m      *metrics
	ready  chan struct{} // closed once the hub knows where it is

	mu       sync.Mutex
	from, at bus.Position
	ring     ring
	clients  map[*client]struct{}
	closed   bool
}

func newHub(events Events, log *slog.Logger, m *metrics) *hub {
	return &hub{events: events, log: log, m: m, ready: make(chan struct{}), clients: map[*client]struct{}{}}
}

// Run follows until ctx ends, and then cuts off every client.
func (h *hub) Run(ctx context.Context) error {
	defer h.close()
	wait := 50 * time.Millisecond
	for {
		began := time.Now()
		err := h.follow(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Since(began) > time.Minute {
			wait = 50 * time.Millisecond
		}
		h.log.Warn("cannot follow the events, trying again", keyErr, err, keyWait, wait)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
		wait = min(2*wait, 5*time.Second)
	}
}

// follow goes on from where the hub is. It returns when it cannot.
func (h *hub) follow(ctx context.Context) error {
	h.mu.Lock()
	at := h.at
	h.mu.Unlock()
	if at == (bus.Position{}) {
		var err error
		if at, err = h.start(ctx); err != nil {
			return err
		}
	}
	for {
		err := h.tail(ctx, at)
		if !errors.Is(err, bus.ErrReset) {
			return err
		}
		h.log.Warn("the events do not go on where they were: every client reads anew", keyErr, err)
		if at, err = h.events.Position(ctx); err != nil {
			return errors.Join(errors.New("find the new end of the events"), err)
		}
		h.reset(at)
	}
}

// tail hands on what comes behind a position.
func (h *hub) tail(ctx context.Context, at bus.Position) error {
	for t, err := range h.events.Tail(ctx, bus.TailFrom{After: at}, true) {
		if err != nil {
			return err
		}
		h.publish(t)
	}
	return errors.New("the events ended")
}

// start reads the latest history into the ring.
func (h *hub) start(ctx context.Context) (bus.Position, error) {
	end, err := h.events.Position(ctx)
	if err != nil {
		return end, err
	}
	var past ring
	from, at := end, end
	for t, err := range h.events.Tail(ctx, bus.TailFrom{Since: time.Now().Add(-history)}, false) {
		if err != nil || t.Epoch != end.Epoch {
			// Its limits, or a hand, have taken events away: what is left begins here.
			past, from, at = ring{}, end, end
			break
		}
		if past.empty() && from == end {
			from.Seq = min(from.Seq, t.Seq-1)
		}
		if f, err := eventFrame(t, time.Now()); err == nil && f != nil {
			from.Seq = max(from.Seq, past.add(f))
		}
		at.Seq = max(at.Seq, t.Seq)
	}
	if err := ctx.Err(); err != nil {
		return end, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ring, h.from, h.at = past, from, at
	close(h.ready)
	return at, nil
}

// publish remembers an event and hands it to every client that wants it. A
// client that has too many waiting is cut off: it comes back for the rest.
func (h *hub) publish(t bus.Tailed) {
	f, err := eventFrame(t, time.Now())
	if err != nil {
		h.log.Error("an event cannot be sent", keySeq, t.Seq, keyErr, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if f != nil {
		h.from.Seq = max(h.from.Seq, h.ring.add(f))
		for c := range h.clients {
			if c.wants(f) {
				h.hand(c, f)
			}
		}
	}
	h.at = t.Position
}

// hand queues a frame. It must be called with the lock.
func (h *hub) hand(c *client, f *frame) {
	select {
	case c.queue <- f:
	default:
		h.m.cut.WithLabelValues(cutBehind).Inc()
		delete(h.clients, c)
		c.cut()
	}
}

// reset begins anew at a position and tells everybody.
func (h *hub) reset(at bus.Position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ring, h.from, h.at = ring{}, at, at
	f := &frame{bytes: resetFrame(at), at: time.Now()}
	for c := range h.clients {
		c.after = bus.Position{}
		h.m.resets.Inc()
		h.hand(c, f)
	}
}

func (h *hub) position() bus.Position {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

// standing is the position up to which everything for the client is queued. One
// that has seen more than this process does not go back.
func (h *hub) standing(c *client) bus.Position {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.after.Epoch == h.at.Epoch && c.after.Seq > h.at.Seq {
		return c.after
	}
	return h.at
}

// joined says how a client came in.
type joined int

const (
	live   joined = iota // it is in, and has got what it missed
	behind               // what it missed is no longer in memory; it is not in
	ahead                // it has seen more than this process; it is not in
	lost                 // it is in, and has to read anew
	shut                 // the hub has ended; it is not in
)

// join lets a client in that has seen the events up to after; nil: it wants
// only what comes. It gives the frames that the client missed, and where it
// then stands.
func (h *hub) join(c *client, after *bus.Position) (how joined, missed []*frame, at bus.Position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return shut, nil, h.at
	case after == nil:
	case after.Epoch != h.at.Epoch:
		how = lost
	case after.Seq > h.at.Seq:
		return ahead, nil, h.at
	case after.Seq < h.from.Seq:
		return behind, nil, h.at
	default:
		missed = h.ring.since(after.Seq, c)
	}
	h.clients[c] = struct{}{}
	return how, missed, h.at
}

// joinAt lets a client in from a position that this process has yet to come to.
func (h *hub) joinAt(c *client, after bus.Position) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.at.Epoch != after.Epoch {
		return false
	}
	c.after = after
	h.clients[c] = struct{}{}
	for _, f := range h.ring.since(after.Seq, c) {
		h.hand(c, f) // it came meanwhile
	}
	return true
}

func (h *hub) leave(c *client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.clients, c)
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for c := range h.clients {
		c.cut()
	}
	clear(h.clients)
}
