package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The headers of a dead letter; docs/formats.md names them.
const (
	hdrReason  = "Silt-Reason"
	hdrSubject = "Silt-Subject"
	hdrDurable = "Silt-Durable"
	hdrStream  = "Silt-Stream"
	hdrSeq     = "Silt-Sequence"
	hdrTries   = "Silt-Tries"
	hdrAt      = "Silt-At"
	hdrCut     = "Silt-Payload-Omitted" // the payload was too large to be kept with headers
)

const maxReason = 2048

// DeadLetter is an event, notification or job that was given up.
type DeadLetter struct {
	ID      string // what Retry takes
	Durable string // who gave up
	Subject string // what the message was published under
	Job     *Job   // set when it was a job
	Reason  string // the last error
	Tries   int
	At      time.Time
	Payload []byte
}

// bury stores a message with the reason among the dead letters, then ends it.
// The id makes a second burial of one message one letter.
func (b *Bus) bury(ctx context.Context, durable string, m jetstream.Msg, tries int, why error) error {
	if err := b.letter(ctx, durable, m, tries, why); err != nil {
		return err
	}
	if err := m.TermWithReason(oneLine(why.Error(), 256)); err != nil {
		return fmt.Errorf("end the message: %w", err)
	}
	return nil
}

// letter stores the dead letter of a message.
func (b *Bus) letter(ctx context.Context, durable string, m jetstream.Msg, tries int, why error) error {
	// A worker that is told to stop still says what it knows.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	var seq uint64
	stream := "unknown"
	if meta, err := m.Metadata(); err == nil {
		seq, stream = meta.Sequence.Stream, meta.Stream
	}
	d := nats.NewMsg(b.names.dead(durable, m.Subject()))
	d.Data = m.Data()
	d.Header.Set(jetstream.MsgIDHeader, fmt.Sprintf("dead:%s:%s@%d", durable, stream, seq))
	d.Header.Set(hdrReason, oneLine(why.Error(), maxReason))
	d.Header.Set(hdrSubject, m.Subject())
	d.Header.Set(hdrDurable, durable)
	d.Header.Set(hdrStream, stream)
	d.Header.Set(hdrSeq, strconv.FormatUint(seq, 10))
	d.Header.Set(hdrTries, strconv.Itoa(tries))
	d.Header.Set(hdrAt, time.Now().UTC().Format(time.RFC3339Nano))
	_, err := b.publish(ctx, DeadLetters, d)
	if errors.Is(err, nats.ErrMaxPayload) {
		d.Data = nil
		d.Header.Set(hdrCut, strconv.Itoa(len(m.Data())))
		_, err = b.publish(ctx, DeadLetters, d)
	}
	if err != nil {
		return fmt.Errorf("dead letter for %s: %w", m.Subject(), err)
	}
	b.metrics.dead.WithLabelValues(durable).Inc()
	b.log.Error("given up", keyDurable, durable, keySubject, m.Subject(), keySeq, seq, keyTries, tries, keyErr, why)
	return nil
}

// oneLine makes a text fit for a header: no line ends, and not endless.
func oneLine(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strings.TrimSpace(s)
}

// Dead lists what was given up, oldest first.
func (b *Bus) Dead(ctx context.Context) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		err := b.scan(ctx, b.names.stream(DeadLetters), b.names.subject("dead", ">"), func(m *jetstream.RawStreamMsg) error {
			if !yield(b.parseLetter(m), nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(DeadLetter{}, fmt.Errorf("bus: dead letters: %w", err))
		}
	}
}

func (b *Bus) parseLetter(m *jetstream.RawStreamMsg) DeadLetter {
	d := DeadLetter{
		ID: strconv.FormatUint(m.Sequence, 10), Durable: m.Header.Get(hdrDurable), Subject: m.Header.Get(hdrSubject),
		Reason: m.Header.Get(hdrReason), Payload: m.Data, At: m.Time,
	}
	d.Tries, _ = strconv.Atoi(m.Header.Get(hdrTries))
	if at, err := time.Parse(time.RFC3339Nano, m.Header.Get(hdrAt)); err == nil {
		d.At = at
	}
	if j, err := b.names.parseJob(d.Subject); err == nil {
		d.Job = &j
	}
	return d
}

// scan gives the stored messages of a subject filter, oldest first, one by one:
// a work queue lets nobody read along with a consumer.
func (b *Bus) scan(ctx context.Context, stream, filter string, each func(*jetstream.RawStreamMsg) error) error {
	s, err := b.stream(ctx, stream)
	if err != nil {
		return err
	}
	for seq := uint64(1); ; {
		call, cancel := context.WithTimeout(ctx, callTime)
		m, err := s.GetMsg(call, seq, jetstream.WithGetMsgSubject(filter))
		cancel()
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err != nil {
			return b.explain(stream, err)
		}
		if err := each(m); err != nil {
			return err
		}
		seq = m.Sequence + 1
	}
}

// Retry gives a dead letter another chance and removes it: a job becomes due
// with its count at zero, an event or notification is published again (to all
// durables: they do not mind). id is a DeadLetter's ID or the text of a Job.
func (b *Bus) Retry(ctx context.Context, id string) error {
	seq, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		kind, batch, _ := strings.Cut(id, "/")
		return b.retryJob(ctx, kind, batch, id)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	s, err := b.stream(ctx, b.names.stream(DeadLetters))
	if err != nil {
		return fmt.Errorf("bus: retry %s: %w", id, err)
	}
	m, err := s.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("bus: retry %s: %w", id, ErrNoLetter)
	}
	if err != nil {
		return fmt.Errorf("bus: retry %s: %w", id, err)
	}
	d := b.parseLetter(m)
	switch {
	case d.Job != nil:
		err = b.Enqueue(ctx, *d.Job)
	case m.Header.Get(hdrCut) != "":
		return fmt.Errorf("bus: retry %s: the payload (%s bytes) was too large to be kept: the reconciler finds what it told", id, m.Header.Get(hdrCut))
	case !strings.HasPrefix(d.Subject, root+"."+b.names.scope+"."):
		return fmt.Errorf("bus: retry %s: subject %q is not of scope %s", id, d.Subject, b.names.scope)
	default:
		again := nats.NewMsg(d.Subject)
		again.Data = d.Payload // without an id: the window would swallow it
		stream := Events
		if strings.HasPrefix(d.Subject, b.names.subject("notify", "")) {
			stream = Notifications
		}
		_, err = b.publish(ctx, stream, again)
	}
	if err != nil {
		return fmt.Errorf("bus: retry %s: %w", id, err)
	}
	if err := s.DeleteMsg(ctx, seq); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("bus: retry %s: tried again, but the letter stays: %w", id, err)
	}
	return nil
}

// retryJob retries a job by name and removes its letters.
func (b *Bus) retryJob(ctx context.Context, kind, batch, id string) error {
	j, err := ParseJob(kind + "/" + batch)
	if err != nil {
		return fmt.Errorf("bus: retry %q: it is neither the id of a dead letter nor KIND/DATASET/BATCH: %w", id, err)
	}
	if err := b.Enqueue(ctx, j); err != nil {
		return err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	s, err := b.stream(ctx, b.names.stream(DeadLetters))
	if err != nil {
		return fmt.Errorf("bus: retry %s: %w", id, err)
	}
	if err := s.Purge(ctx, jetstream.WithPurgeSubject(b.names.dead(jobDurable(j.Kind), b.names.job(j)))); err != nil {
		return fmt.Errorf("bus: retry %s: tried again, but its letters stay: %w", id, err)
	}
	return nil
}
