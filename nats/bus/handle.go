package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/siltstone-data/siltstone/dataset"
)

// prefetch bounds how many events a durable holds in this process.
const prefetch = 32

// HandleEvents gives the durable's events to fn, one after the other, until ctx
// ends; it returns nil then. nil from fn means done; an error brings the event
// again with a growing delay and, after many deliveries or when it is marked by
// Give, sends it to the dead letters, so that none blocks the others. Events
// come at least once and, after an error, out of order. Several processes may
// handle one durable and share its events.
//
// types narrows what fn sees. A durable of the topology must be subscribed to
// them; any other durable is made here.
func (b *Bus) HandleEvents(ctx context.Context, durable string, fn func(context.Context, dataset.Event) error, types ...dataset.EventType) error {
	stream := b.names.stream(Events)
	if err := b.checkTypes(stream, durable, types); err != nil {
		return err
	}
	filters := []string{b.names.subject("event", ">")}
	if len(types) > 0 {
		filters = nil
		for _, t := range types {
			filters = append(filters, b.names.eventType(dataset.Token(string(t))))
		}
	}
	return b.handleEvents(ctx, &puller{b: b, stream: stream, durable: durable, filters: filters, batch: prefetch}, fn, types)
}

// abandoned is how long the durable of one dataset stays while nobody asks for
// it: those who made it may never come back.
const abandoned = 30 * 24 * time.Hour

// HandleDataset is HandleEvents for the events of one dataset, of these types. A
// durable that is not there begins with the last event of each type and batch,
// and is forgotten when nobody has used it for 30 days.
func (b *Bus) HandleDataset(ctx context.Context, durable, ds string, fn func(context.Context, dataset.Event) error, types ...dataset.EventType) error {
	p := &puller{b: b, stream: b.names.stream(Events), durable: durable, batch: prefetch, idle: abandoned, deliver: jetstream.DeliverLastPerSubjectPolicy}
	for _, t := range types {
		p.filters = append(p.filters, b.names.subject("event", dataset.Token(ds), "*", dataset.Token(string(t))))
	}
	return b.handleEvents(ctx, p, fn, types)
}

func (b *Bus) handleEvents(ctx context.Context, p *puller, fn func(context.Context, dataset.Event) error, types []dataset.EventType) error {
	durable := p.durable
	p.handle = func(ctx context.Context, m jetstream.Msg) {
		e, err := dataset.ParseEvent(m.Data())
		if err != nil {
			b.settle(ctx, durable, m, Give(err))
			return
		}
		if len(types) > 0 && !slices.Contains(types, e.Type) {
			b.settle(ctx, durable, m, nil)
			return
		}
		b.settle(ctx, durable, m, guard(b.log, durable, func() error { return fn(ctx, e) }))
	}
	return p.run(ctx)
}

// checkTypes refuses types that the topology's durable would never deliver.
func (b *Bus) checkTypes(stream, durable string, types []dataset.EventType) error {
	d := b.known(stream, durable)
	if d == nil {
		return nil
	}
	for _, t := range types {
		if !slices.Contains(filtersOf(d.Config), b.names.eventType(dataset.Token(string(t)))) {
			return fmt.Errorf("bus: durable %s is not subscribed to %s: add the type to the topology", durable, t)
		}
	}
	return nil
}

// HandleNotifications is HandleEvents for the notifications of the object
// store, as they came.
func (b *Bus) HandleNotifications(ctx context.Context, durable string, fn func(context.Context, []byte) error) error {
	p := &puller{b: b, stream: b.names.stream(Notifications), durable: durable,
		filters: []string{b.names.subject("notify", ">")}, batch: prefetch}
	p.handle = func(ctx context.Context, m jetstream.Msg) {
		b.settle(ctx, durable, m, guard(b.log, durable, func() error { return fn(ctx, m.Data()) }))
	}
	return p.run(ctx)
}

// guard turns a panic of a handler into an error, so that one message cannot
// take the process down again and again.
func guard(log *slog.Logger, durable string, fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v)
			log.Error("handler panicked", keyDurable, durable, keyErr, err, keyStack, string(debug.Stack()))
		}
	}()
	return fn()
}

// settle acknowledges a message by what its handler returned.
func (b *Bus) settle(ctx context.Context, durable string, m jetstream.Msg, err error) {
	log := b.log.With(keyDurable, durable, keySubject, m.Subject())
	deliveries, seq := uint64(1), uint64(0)
	if meta, merr := m.Metadata(); merr == nil {
		deliveries, seq = meta.NumDelivered, meta.Sequence.Stream
	}
	if deliveries > 1 {
		b.metrics.redelivered.WithLabelValues(durable).Inc()
	}
	if err == nil {
		b.metrics.handled.WithLabelValues(durable).Inc()
		if err := m.Ack(); err != nil {
			log.Warn("cannot acknowledge, it will come again", keySeq, seq, keyErr, err)
		}
		return
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		_ = m.Nak() // we stop; nothing is wrong with the message
		return
	}
	b.metrics.failed.WithLabelValues(durable).Inc()
	wait := backoff(int(min(deliveries, 64))-1, b.t.Wait, b.t.MaxWait, 2, b.jitter)
	if given(err) || deliveries >= uint64(b.t.Deliveries) {
		if derr := b.bury(ctx, durable, m, int(deliveries), err); derr == nil {
			return
		} else {
			log.Error("cannot store the dead letter, trying again", keySeq, seq, keyErr, derr)
		}
	} else {
		log.Warn("handler failed, trying again", keySeq, seq, keyDeliveries, deliveries, keyWait, wait.Round(time.Millisecond), keyErr, err)
	}
	if err := m.NakWithDelay(wait); err != nil {
		log.Warn("cannot send a message back, it comes again by itself", keySeq, seq, keyErr, err)
	}
}
