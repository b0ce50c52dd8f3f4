package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// puller takes messages from a durable, a few at a time, and keeps those that
// it holds alive until they are settled. Each request to the server ends after
// 30 s at the latest and with the connection, so that a consumer of which the
// server has lost sight is asked anew instead of waited for.
type puller struct {
	b       *Bus
	stream  string // full name
	durable string
	filters []string      // for a durable that is not part of the topology
	idle    time.Duration // after which such a durable goes; 0: never
	deliver jetstream.DeliverPolicy
	batch   int // how many messages are held here at once
	handle  func(ctx context.Context, m jetstream.Msg)
}

// run pulls until ctx ends.
func (p *puller) run(ctx context.Context) error {
	log := p.b.log.With(keyStream, p.stream, keyDurable, p.durable)
	var idle time.Time
	for n := 0; ctx.Err() == nil; {
		got, err := p.session(ctx, &idle)
		if ctx.Err() != nil {
			break
		}
		if got > 0 {
			n = 0
		}
		if errors.Is(err, nats.ErrConnectionClosed) {
			return fmt.Errorf("bus: durable %s of stream %s: %w", p.durable, p.stream, err)
		}
		if err == nil || errors.Is(err, context.Canceled) { // reconnected
			continue
		}
		wait := backoff(n, 50*time.Millisecond, 5*time.Second, 2, p.b.jitter)
		if n++; n > 2 {
			log.Warn("cannot take messages, trying again", keyErr, err, keyWait, wait)
		}
		pause(ctx, wait)
	}
	return nil
}

// session pulls until something goes wrong; it returns nil to be called again.
func (p *puller) session(ctx context.Context, idle *time.Time) (got int, err error) {
	conn, cancel := p.b.connection(ctx)
	defer cancel()
	cons, err := p.bind(conn)
	if err != nil {
		return 0, p.b.explain(p.stream, err)
	}
	for conn.Err() == nil {
		n, err := p.fetch(ctx, conn, cons)
		got += n
		if n > 0 {
			*idle = time.Time{}
		} else if idle.IsZero() {
			*idle = time.Now()
		}
		if err != nil && !errors.Is(err, nats.ErrTimeout) {
			return got, err
		}
		if n == 0 && time.Since(*idle) > p.b.t.Watch {
			*idle = time.Time{}
			if err := p.watch(conn, cons); err != nil {
				return got, err
			}
		}
	}
	return got, conn.Err()
}

// bind opens the durable. One that is missing is made: its stream was made
// anew, or nobody has made the topology yet.
func (p *puller) bind(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cons, err := p.b.js.Consumer(ctx, p.stream, p.durable)
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return cons, err
	}
	d := Durable{Config: jetstream.ConsumerConfig{
		Durable: p.durable, AckPolicy: jetstream.AckExplicitPolicy, AckWait: p.b.t.AckWait,
		MaxDeliver: -1, MaxAckPending: 1024, FilterSubjects: p.filters,
		DeliverPolicy: p.deliver, InactiveThreshold: p.idle,
	}}
	if known := p.b.known(p.stream, p.durable); known != nil {
		d = *known
	}
	level := slog.LevelWarn
	if p.idle > 0 {
		level = slog.LevelDebug // it is made for whoever asks first
	}
	p.b.log.Log(ctx, level, "durable is missing, making it", keyStream, p.stream, keyDurable, p.durable)
	return p.b.js.CreateOrUpdateConsumer(ctx, p.stream, d.Config)
}

// known is the durable of the topology, or nil.
func (b *Bus) known(stream, durable string) *Durable {
	for _, d := range durables(b.names, b.t) {
		if d.Stream == stream && d.Config.Durable == durable {
			return &d
		}
	}
	return nil
}

// watch reports a durable that has messages waiting and gives none, so that it
// is opened anew.
func (p *puller) watch(ctx context.Context, cons jetstream.Consumer) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	info, err := cons.Info(ctx)
	if err != nil {
		return err
	}
	if info.NumPending == 0 {
		return nil
	}
	p.b.metrics.stuck.WithLabelValues(p.durable).Inc()
	if most := info.Config.MaxAckPending; most > 0 && info.NumAckPending >= most {
		return fmt.Errorf("%d messages wait, but %d are out and unsettled, the most that is allowed", info.NumPending, info.NumAckPending)
	}
	return fmt.Errorf("%d messages wait and none is delivered", info.NumPending)
}

// fetch asks once and handles what comes. Messages are handled under ctx: a
// reconnect does not disturb a handler.
func (p *puller) fetch(ctx, conn context.Context, cons jetstream.Consumer) (int, error) {
	batch, err := cons.Fetch(p.batch, jetstream.FetchContext(conn))
	if err != nil {
		return 0, err
	}
	held := &held{every: p.b.t.AckWait / 4, messages: map[jetstream.Msg]struct{}{}}
	stop := held.keepAlive()
	defer stop()
	// Everything that was delivered is taken over at once, so that a message
	// that waits for its turn is kept alive too.
	queue := make(chan jetstream.Msg, p.batch)
	go func() {
		defer close(queue)
		for m := range batch.Messages() {
			held.add(m)
			queue <- m
		}
	}()
	n := 0
	for m := range queue {
		n++
		if ctx.Err() != nil {
			_ = m.Nak() // somebody else can have it at once
		} else {
			p.handle(ctx, m)
		}
		held.remove(m)
	}
	return n, batch.Error()
}

// held are delivered messages that are not settled yet.
type held struct {
	every    time.Duration
	mu       sync.Mutex
	messages map[jetstream.Msg]struct{}
}

func (h *held) add(m jetstream.Msg) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.messages[m] = struct{}{}
}

func (h *held) remove(m jetstream.Msg) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.messages, m)
}

// keepAlive tells the server again and again that the messages are being
// worked on; the returned function ends that.
func (h *held) keepAlive() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause(ctx, h.every) {
			h.mu.Lock()
			for m := range h.messages {
				_ = m.InProgress() // fails only for messages settled in this moment
			}
			h.mu.Unlock()
		}
	}()
	return func() { cancel(); <-done }
}
