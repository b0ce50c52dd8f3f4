package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// message is what a follower reads.
type message struct {
	subject string
	header  nats.Header
	data    []byte
	seq     uint64 // of the stream
	pending uint64 // how many matching messages come after it
	at      time.Time
}

var errGap = errors.New("a message was skipped on the way here")

// follower reads a stream in order over short-lived pull consumers, and goes on
// behind the last message when the connection or the server went away.
//
// The library's own ordered consumer does the same, but when the stream was
// made anew it waits for a sequence number that is far off, silently; and it
// cannot be stopped while the server is away. Here the stream is looked at each
// time a consumer is opened.
type follower struct {
	b      *Bus
	log    *slog.Logger
	stream string
	filter []string

	// Where to start: a policy and, for it, a sequence or time.
	policy jetstream.DeliverPolicy
	seq    uint64
	since  time.Time

	cursor uint64 // last sequence that was read; 0 before the first
	// opened is called whenever a consumer has been opened, with the stream's
	// state before that and the number of messages that it has to give. It
	// looks may call restart before.
	looked func(*jetstream.StreamInfo) error
	opened func(info *jetstream.StreamInfo, pending uint64) error
	each   func(message) error
}

// callback marks an error of the callbacks, which ends the following.
type callback struct{ error }

func (c callback) Unwrap() error { return c.error }

// run reads until ctx ends, which gives nil, or a callback returns an error,
// which it returns.
func (f *follower) run(ctx context.Context) error {
	for n := 0; ctx.Err() == nil; {
		before := f.cursor
		err := f.session(ctx)
		var own callback
		switch {
		case errors.As(err, &own):
			return own.error
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, nats.ErrConnectionClosed):
			return fmt.Errorf("follow stream %s: %w", f.stream, err)
		}
		f.b.metrics.resets.WithLabelValues(f.stream).Inc()
		if f.cursor != before {
			n = 0
		}
		if errors.Is(err, context.Canceled) || errors.Is(err, errGap) && n == 0 { // reconnected
			n++
			continue
		}
		wait := backoff(n, 20*time.Millisecond, 5*time.Second, 2, f.b.jitter)
		if n++; n > 3 {
			f.log.Warn("cannot follow, trying again", keyStream, f.stream, keyErr, f.b.explain(f.stream, err), keyWait, wait)
		}
		pause(ctx, wait)
	}
	return nil
}

func (f *follower) session(ctx context.Context) error {
	conn, cancel := f.b.connection(ctx)
	defer cancel()
	cons, info, err := f.open(conn)
	if err != nil {
		return err
	}
	defer f.forget(cons.CachedInfo().Name)
	if f.opened != nil {
		if err := f.opened(info, cons.CachedInfo().NumPending); err != nil {
			return callback{err}
		}
	}
	for next := uint64(1); conn.Err() == nil; {
		if next, err = f.fetch(conn, cons, next); err != nil {
			return err
		}
	}
	return conn.Err()
}

// fetchMessages is how many messages a follower asks for at once. The library
// holds twice as many, so a slow reader never makes it drop one; its endless
// iterator holds just as many, and drops.
const fetchMessages = 256

// fetch asks once and reads what comes; next is the number that the consumer
// gives to its next message.
func (f *follower) fetch(conn context.Context, cons jetstream.Consumer, next uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(conn, 30*time.Second)
	defer cancel()
	batch, err := cons.Fetch(fetchMessages, jetstream.FetchContext(ctx), jetstream.FetchHeartbeat(5*time.Second))
	if err != nil {
		return next, err
	}
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return next, err
		}
		if meta.Sequence.Consumer != next {
			return next, errGap
		}
		next++
		f.cursor = meta.Sequence.Stream
		err = f.each(message{subject: m.Subject(), header: m.Headers(), data: m.Data(),
			seq: meta.Sequence.Stream, pending: meta.NumPending, at: meta.Timestamp})
		if err != nil {
			return next, callback{err}
		}
	}
	if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, context.DeadlineExceeded) {
		return next, err
	}
	return next, nil
}

func (f *follower) open(ctx context.Context) (jetstream.Consumer, *jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s, err := f.b.js.Stream(ctx, f.stream)
	if err != nil {
		return nil, nil, err
	}
	info := s.CachedInfo()
	if f.looked != nil {
		if err := f.looked(info); err != nil {
			return nil, nil, callback{err}
		}
	}
	cfg := jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1,
		// One that is not deleted, because its process died, goes by itself.
		InactiveThreshold: 30 * time.Second,
		FilterSubjects:    f.filter,
		DeliverPolicy:     f.policy,
	}
	switch {
	case f.cursor > 0:
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, f.cursor+1
	case f.policy == jetstream.DeliverByStartSequencePolicy:
		cfg.OptStartSeq = f.seq
	case f.policy == jetstream.DeliverByStartTimePolicy:
		cfg.OptStartTime = &f.since
	}
	cons, err := s.CreateConsumer(ctx, cfg)
	return cons, info, err
}

// forget removes a consumer, as far as the server can be reached.
func (f *follower) forget(name string) {
	if !f.b.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = f.b.js.DeleteConsumer(ctx, f.stream, name)
}
