package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/siltstone-data/siltstone/dataset"
)

// Position is a place in the events: just behind the event with that number,
// of the stream that was made at that time.
type Position struct {
	Epoch uint64 // creation of the stream, Unix nanoseconds
	Seq   uint64
}

// String is EPOCH:SEQ.
func (p Position) String() string {
	return strconv.FormatUint(p.Epoch, 10) + ":" + strconv.FormatUint(p.Seq, 10)
}

// ParsePosition reads what Position.String gives, and nothing else.
func ParsePosition(s string) (Position, error) {
	e, q, _ := strings.Cut(s, ":")
	epoch, err1 := strconv.ParseUint(e, 10, 64)
	seq, err2 := strconv.ParseUint(q, 10, 64)
	p := Position{epoch, seq}
	if err1 != nil || err2 != nil || p.String() != s {
		return Position{}, fmt.Errorf("position %q is not EPOCH:SEQ", s)
	}
	return p, nil
}

// TailFrom says where a tail starts. The zero value starts with the next event.
type TailFrom struct {
	Since time.Time // with the first event stored at or after this time
	After Position  // behind this event
}

// Tailed is an event and its position.
type Tailed struct {
	Position
	Event dataset.Event
}

// Position is the place behind the last event.
func (b *Bus) Position(ctx context.Context) (Position, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	name := b.names.stream(Events)
	s, err := b.js.Stream(ctx, name)
	if err != nil {
		return Position{}, fmt.Errorf("bus: position: %w", b.explain(name, err))
	}
	return Position{epochOf(s.CachedInfo()), s.CachedInfo().State.LastSeq}, nil
}

func epochOf(info *jetstream.StreamInfo) uint64 { return uint64(info.Created.UnixNano()) }

// Tail gives the events in order: with follow until ctx ends, otherwise up to
// the last one that was stored when it began. It goes on through reconnects.
//
// Its last pair holds the error, if there is one: ErrReset when the position is
// of another epoch, lies outside of what is stored, or when events were dropped
// by the limits before they could be read.
func (b *Bus) Tail(ctx context.Context, from TailFrom, follow bool) iter.Seq2[Tailed, error] {
	return func(yield func(Tailed, error) bool) {
		t := &tail{b: b, from: from, follow: follow, yield: yield}
		if err := t.run(ctx); err != nil && !errors.Is(err, errStop) {
			yield(Tailed{}, fmt.Errorf("bus: events: %w", err))
		}
	}
}

var errStop = errors.New("stop")

type tail struct {
	b      *Bus
	from   TailFrom
	follow bool
	yield  func(Tailed, error) bool

	epoch uint64
	prev  uint64 // number of the event before the next one; 0: not known
	last  uint64 // where a tail without follow ends
}

func (t *tail) run(ctx context.Context) error {
	f := &follower{b: t.b, log: t.b.log, stream: t.b.names.stream(Events), policy: jetstream.DeliverByStartSequencePolicy}
	f.looked = func(info *jetstream.StreamInfo) error {
		if t.epoch != 0 {
			return t.check(info)
		}
		return t.start(f, info)
	}
	f.each = t.next
	if err := f.run(ctx); err != nil {
		return err
	}
	if !t.follow {
		return ctx.Err() // cut short
	}
	return nil
}

// start turns the wish into a sequence, at the first look at the stream.
func (t *tail) start(f *follower, info *jetstream.StreamInfo) error {
	t.epoch, t.last = epochOf(info), info.State.LastSeq
	switch {
	case t.from.After != Position{}:
		t.prev = t.from.After.Seq
		if t.from.After.Epoch != t.epoch {
			return fmt.Errorf("%w: %s is of another epoch", ErrReset, t.from.After)
		}
		if err := t.check(info); err != nil {
			return err
		}
		f.seq = t.prev + 1
	case !t.from.Since.IsZero():
		f.policy, f.since = jetstream.DeliverByStartTimePolicy, t.from.Since
		if t.last == 0 || info.State.LastTime.Before(t.from.Since) {
			// Nothing to give: the server would take a time in the future for now.
			f.policy, f.seq = jetstream.DeliverByStartSequencePolicy, t.last+1
			t.prev = t.last
		}
	default:
		f.seq, t.prev = t.last+1, t.last
	}
	if !t.follow && (info.State.Msgs == 0 || t.prev == t.last) {
		return errStop
	}
	return nil
}

// check reports a stream that cannot give what follows prev.
func (t *tail) check(info *jetstream.StreamInfo) error {
	s := info.State
	switch {
	case epochOf(info) != t.epoch:
		return fmt.Errorf("%w: the events were made anew", ErrReset)
	case t.prev > s.LastSeq:
		return fmt.Errorf("%w: %d lies behind the last event, %d", ErrReset, t.prev, s.LastSeq)
	case t.prev > 0 && t.prev+1 < s.FirstSeq:
		return fmt.Errorf("%w: events from %d to %d are gone", ErrReset, t.prev+1, s.FirstSeq-1)
	}
	return nil
}

func (t *tail) next(m message) error {
	if t.prev > 0 && m.seq != t.prev+1 {
		return fmt.Errorf("%w: events from %d to %d are gone", ErrReset, t.prev+1, m.seq-1)
	}
	t.prev = m.seq
	e, err := dataset.ParseEvent(m.data)
	if err != nil {
		t.b.log.Debug("unreadable event passed over", keySeq, m.seq, keyErr, err)
	} else if !t.yield(Tailed{Position{t.epoch, m.seq}, e}, nil) {
		return errStop
	}
	if !t.follow && m.seq >= t.last {
		return errStop
	}
	return nil
}
