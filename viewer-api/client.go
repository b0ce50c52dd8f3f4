package viewerapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/siltstone-data/siltstone/nats/bus"
)

const (
	// maxWaiting is how many events may wait for a client.
	maxWaiting = 64
	// writeTime is how long a client may take nothing.
	writeTime = 10 * time.Second
	beatTime  = 15 * time.Second
	// sendBuffer bounds what the kernel holds for a client: one that never reads
	// is noticed when this, and its own buffer, are full.
	sendBuffer = 16 << 10
	// maxMissed is how many events a client may have missed: with more, reading
	// the state anew is cheaper for both.
	maxMissed = 50_000
)

// client is one listener to the events.
type client struct {
	hub      *hub
	replays  chan struct{} // one slot for each that is read from the stream at once
	conn     net.Conn
	datasets map[string]struct{} // nil: all
	after    bus.Position        // events up to here are not for it; guarded by the hub
	queue    chan *frame
	cut      func() // ends the connection, however it stands
}

func newClient(h *hub, replays chan struct{}, conn net.Conn, datasets map[string]struct{}) *client {
	c := &client{hub: h, replays: replays, conn: conn, datasets: datasets, queue: make(chan *frame, maxWaiting)}
	c.cut = sync.OnceFunc(func() {
		if t, ok := conn.(*net.TCPConn); ok {
			_ = t.SetLinger(0) // what the kernel still holds for it is given up
		}
		_ = conn.Close()
	})
	if t, ok := conn.(*net.TCPConn); ok {
		_ = t.SetWriteBuffer(sendBuffer)
	}
	return c
}

func (c *client) wants(f *frame) bool {
	if f.seq <= c.after.Seq {
		return false
	}
	if c.datasets == nil {
		return true
	}
	_, ok := c.datasets[f.dataset]
	return ok
}

// serve writes the stream until the client has gone or ctx ends. head is the
// head of the HTTP answer. seen is the position that the client came back with,
// lost that it came back with one that says nothing.
func (c *client) serve(ctx context.Context, head []byte, seen *bus.Position, isLost bool) error {
	c.hub.m.clients.Inc()
	defer c.hub.m.clients.Dec()
	defer c.hub.leave(c)
	if err := c.begin(ctx, head, seen, isLost); err != nil {
		return err
	}
	beat := time.NewTicker(beatTime)
	defer beat.Stop()
	for {
		select {
		case f := <-c.queue:
			if err := c.drain(f); err != nil {
				return err
			}
		case <-beat.C:
			if err := c.beat(); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// begin says hello, gives what the client missed and lets it in.
func (c *client) begin(ctx context.Context, head []byte, seen *bus.Position, isLost bool) error {
	var hello bus.Position
	if seen != nil {
		hello = *seen
	} else if !isLost {
		hello = c.hub.position()
		seen = &hello // what happens from now on
	}
	if err := c.write(append(head, connectedFrame(hello)...)); err != nil {
		return err
	}
	if isLost {
		seen = &bus.Position{} // of no epoch
	}
	how, missed, at := c.hub.join(c, seen)
	for tries := 0; how == behind || how == ahead; tries++ {
		var err error
		switch {
		case tries > 5 || how == behind && at.Seq-seen.Seq > maxMissed:
			err = bus.ErrReset
		case how == ahead:
			err = c.early(ctx, *seen)
			if err == nil {
				return nil
			}
		default:
			err = c.replay(ctx, seen)
		}
		if errors.Is(err, bus.ErrReset) {
			seen = &bus.Position{}
		} else if err != nil {
			return err // it comes back with what it has seen
		}
		how, missed, at = c.hub.join(c, seen)
	}
	switch {
	case how == shut:
		return errors.New("shutting down")
	case how == lost:
		c.hub.m.resets.Inc()
		return c.write(resetFrame(at))
	case len(missed) > 0:
		c.hub.m.replays.WithLabelValues(replayMemory).Inc()
	}
	for _, f := range missed {
		if err := c.write(f.bytes); err != nil {
			return err
		}
		c.hub.m.sent.Inc()
	}
	return nil
}

// early lets in a client that has seen more than this process: another one that
// serves the same viewer may be a moment ahead.
func (c *client) early(ctx context.Context, seen bus.Position) error {
	end, err := c.hub.events.Position(ctx)
	if err != nil {
		return err
	}
	if end.Epoch != seen.Epoch || end.Seq < seen.Seq || !c.hub.joinAt(c, seen) {
		return bus.ErrReset
	}
	return nil
}

// replay gives what the stream holds behind seen, and moves it on.
func (c *client) replay(ctx context.Context, seen *bus.Position) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	select {
	case c.replays <- struct{}{}:
		defer func() { <-c.replays }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.hub.m.replays.WithLabelValues(replayStream).Inc()
	at := *seen
	for t, err := range c.hub.events.Tail(ctx, bus.TailFrom{After: *seen}, false) {
		if err != nil {
			return err
		}
		if f, err := eventFrame(t, time.Now()); err == nil && f != nil && c.wants(f) {
			if err := c.send(f); err != nil {
				return err
			}
		}
		at = t.Position
	}
	if at == *seen && ctx.Err() == nil {
		// Nothing that can be read lies behind it.
		end, err := c.hub.events.Position(ctx)
		if err != nil {
			return err
		}
		at = end
	}
	*seen = at
	return context.Cause(ctx)
}

// drain writes a frame and all that wait behind it.
func (c *client) drain(f *frame) error {
	for {
		if err := c.send(f); err != nil {
			return err
		}
		select {
		case f = <-c.queue:
		default:
			return nil
		}
	}
}

func (c *client) send(f *frame) error {
	if err := c.write(f.bytes); err != nil {
		return err
	}
	c.hub.m.sent.Inc()
	c.hub.m.latency.Observe(time.Since(f.at).Seconds())
	return nil
}

// beat writes a heartbeat. All events up to the position that it carries must
// have been sent: they were queued before the hub took that position, so it is
// read before the queue is.
func (c *client) beat() error {
	at := c.hub.standing(c)
	select {
	case f := <-c.queue:
		if err := c.drain(f); err != nil {
			return err
		}
		at = bus.Position{} // the events have moved it on
	default:
	}
	return c.write(heartbeat(at))
}

func (c *client) write(b []byte) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return err
	}
	if _, err := c.conn.Write(b); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.hub.m.cut.WithLabelValues(cutStalled).Inc()
			c.cut()
		}
		return fmt.Errorf("write to a client: %w", err)
	}
	return nil
}
