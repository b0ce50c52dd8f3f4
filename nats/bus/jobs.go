package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// State says how it stands with a job.
type State string

// The states of a job.
const (
	Scheduled State = "scheduled" // the server makes it due at Due
	Waiting   State = "waiting"   // for a worker
	Running   State = "running"   // Worker has it, since Since
	Failing   State = "failing"   // it failed with Error, and is tried again at Due
	Dead      State = "dead"      // given up with Error, until it is triggered
)

// JobState is a job and how it stands with it.
type JobState struct {
	Job      Job
	State    State
	Schedule string    // Quiet or Max, of a scheduled one
	Since    time.Time // when it was triggered, claimed, failed or given up
	Due      time.Time // not before; zero: at once
	Worker   string    // who runs it
	Tries    int       // runs begun since the last trigger
	Error    string    // of the last failure
}

// Jobs lists what is scheduled, waits, runs, failed and was given up. The same
// job may be running and scheduled again. It holds one job at a time.
func (b *Bus) Jobs(ctx context.Context) iter.Seq2[JobState, error] {
	return func(yield func(JobState, error) bool) {
		err := b.queued(ctx, yield)
		if err == nil {
			err = b.givenUp(ctx, yield)
		}
		if err != nil && !errors.Is(err, errStop) {
			yield(JobState{}, fmt.Errorf("bus: jobs: %w", err))
		}
	}
}

// queued lists the messages of the queue with what is known about their jobs.
func (b *Bus) queued(ctx context.Context, yield func(JobState, error) bool) error {
	stream := b.names.stream(JobQueue)
	give := func(s JobState) error {
		if !yield(s, nil) {
			return errStop
		}
		return nil
	}
	err := b.scan(ctx, stream, b.names.subject("job", ">"), func(m *jetstream.RawStreamMsg) error {
		j, err := b.names.parseJob(m.Subject)
		if err != nil {
			return nil // a stranger's message; its durable gives it up
		}
		s, err := b.stateOf(ctx, j, m.Time)
		if err != nil {
			return err
		}
		return give(s)
	})
	if err != nil {
		return err
	}
	return b.scan(ctx, stream, b.names.subject("when", ">"), func(m *jetstream.RawStreamMsg) error {
		which, j, err := b.names.parseWhen(m.Subject)
		if err != nil {
			return nil
		}
		s := JobState{Job: j, State: Scheduled, Schedule: which, Since: m.Time}
		if at, ok := strings.CutPrefix(m.Header.Get(jetstream.ScheduleHeader), "@at "); ok {
			s.Due, _ = time.Parse(time.RFC3339Nano, at)
		}
		return give(s)
	})
}

func (b *Bus) stateOf(ctx context.Context, j Job, queued time.Time) (JobState, error) {
	s := JobState{Job: j, State: Waiting, Since: queued}
	rec, rev, err := b.tries(ctx, j)
	if err != nil {
		return s, err
	}
	if rev != 0 {
		s.Tries, s.Error = rec.Tries, rec.Error
		if rec.Next.After(time.Now()) {
			s.State, s.Due, s.Since = Failing, rec.Next, rec.At
		}
	}
	e, err := b.KV(Claims).Get(ctx, j.key())
	if errors.Is(err, ErrNoKey) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	var c claimValue
	if json.Unmarshal(e.Value, &c) == nil {
		s.State, s.Worker, s.Since, s.Due = Running, c.Worker, c.Since, time.Time{}
	}
	return s, nil
}

// givenUp lists the jobs that are marked as dead: they have no message.
func (b *Bus) givenUp(ctx context.Context, yield func(JobState, error) bool) error {
	for e, err := range b.KV(Tries).List(ctx, ">") {
		if err != nil {
			return err
		}
		j, err := parseJobTokens(e.Key)
		var r tryRecord
		if err != nil || json.Unmarshal(e.Value, &r) != nil || !r.Dead {
			continue
		}
		if !yield(JobState{Job: j, State: Dead, Since: r.At, Tries: r.Tries, Error: r.Error}, nil) {
			return errStop
		}
	}
	return nil
}
