package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siltstone-data/siltstone/dataset"
)

// callTime bounds one call to the server where the caller sets no deadline.
const callTime = 30 * time.Second

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, callTime)
}

// Publish stores an event and waits until the server has it. Reports of one
// happening (equal Event.MsgID) within the window become one event. It repeats
// itself under the same id through reconnects for as long as ctx lasts.
func (b *Bus) Publish(ctx context.Context, e dataset.Event) error {
	if err := e.ID().Check(); err != nil {
		return fmt.Errorf("bus: publish %s: %w", e.Type, err)
	}
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("bus: publish %s of %s: %w", e.Type, e.ID(), err)
	}
	m := nats.NewMsg(b.names.event(e))
	m.Data = data
	if id := e.MsgID(); id != "" {
		m.Header.Set(jetstream.MsgIDHeader, id)
	}
	if _, err := b.publish(ctx, Events, m); err != nil {
		return fmt.Errorf("bus: publish %s of %s: %w", e.Type, e.ID(), err)
	}
	return nil
}

// Notify stores a notification of the object store as it came.
func (b *Bus) Notify(ctx context.Context, payload []byte) error {
	m := nats.NewMsg(b.names.notify())
	m.Data = payload
	if _, err := b.publish(ctx, Notifications, m); err != nil {
		return fmt.Errorf("bus: notify: %w", err)
	}
	return nil
}

// publish sends a message that may be stored twice without harm (it has an id,
// or replaces its like, or is a hint) until the server has acknowledged it.
// stream is the stream that is meant to take it, for the error and the metrics.
func (b *Bus) publish(ctx context.Context, stream string, m *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	var unanswered time.Time
	for n := 0; ; n++ {
		// A request that was under way when the connection broke has lost its
		// answer, and is sent again as soon as there is one.
		conn, cancel := b.connection(ctx)
		try, cancelTry := context.WithTimeout(conn, 5*time.Second)
		ack, err := b.js.PublishMsg(try, m, opts...)
		cancelTry()
		cancel()
		if err == nil {
			outcome := "stored"
			if ack.Duplicate {
				outcome = "duplicate"
			}
			b.metrics.published.WithLabelValues(stream, outcome).Inc()
			return ack, nil
		}
		if err = b.again(ctx, stream, m.Subject, err, &unanswered); err != nil {
			if !wrongSequence(err) {
				b.metrics.published.WithLabelValues(stream, "error").Inc()
			}
			return nil, err
		}
		if !pause(ctx, backoff(n, 50*time.Millisecond, 2*time.Second, 2, b.jitter)) {
			b.metrics.published.WithLabelValues(stream, "error").Inc()
			return nil, fmt.Errorf("stream %s: %w", b.names.stream(stream), context.Cause(ctx))
		}
	}
}

// again gives nil when a publish that failed with err should be tried again.
func (b *Bus) again(ctx context.Context, stream, subject string, err error, unanswered *time.Time) error {
	name := b.names.stream(stream)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("stream %s: no acknowledgement: %w", name, b.whyLate(subject, context.Cause(ctx)))
	case errors.Is(err, nats.ErrConnectionClosed):
		return fmt.Errorf("stream %s: %w", name, err)
	case errors.Is(err, context.Canceled): // reconnected
		return nil
	case errors.Is(err, context.DeadlineExceeded) && b.deniedFor(subject) != nil:
		return fmt.Errorf("stream %s: %w", name, b.whyLate(subject, err))
	case !retryable(err):
		return fmt.Errorf("stream %s: %w", name, err)
	case noStream(err):
		if unanswered.IsZero() {
			*unanswered = time.Now()
		}
		if time.Since(*unanswered) > b.t.Publish {
			return fmt.Errorf("nothing stores what is published for stream %s, `siltstone topology` creates it: %w", name, errors.Join(ErrTopology, err))
		}
	default:
		*unanswered = time.Time{}
	}
	return nil
}
