package bus

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siltstone-data/siltstone/dataset"
)

// Job is work that a batch needs. Its message has no body: what is to be done
// follows from the present state of the batch.
type Job struct {
	Kind  string // KindMerge, KindIndex or KindConvert
	Batch dataset.BatchID
}

// String is KIND/D/B or KIND/D/B/A, the id that Retry takes.
func (j Job) String() string { return j.Kind + "/" + j.Batch.String() }

// Check reports a kind that does not exist or a name that breaks a rule.
func (j Job) Check() error {
	if err := checkKind(j.Kind); err != nil {
		return err
	}
	return j.Batch.Check()
}

// key is the job's key in the claims and tries buckets.
func (j Job) key() string { return j.Kind + "." + j.Batch.Tokens() }

// Enqueue makes the job due at once and sets its count of tries back. A job
// that waits already waits once; a worker that runs it now runs it again.
func (b *Bus) Enqueue(ctx context.Context, j Job) error {
	if err := j.Check(); err != nil {
		return err
	}
	if err := b.triggered(ctx, j, true); err != nil {
		return fmt.Errorf("bus: enqueue %s: %w", j, err)
	}
	if _, err := b.publish(ctx, JobQueue, nats.NewMsg(b.names.job(j))); err != nil {
		return fmt.Errorf("bus: enqueue %s: %w", j, err)
	}
	return nil
}

// Debounce makes the job due when no more triggers come for the time quiet,
// and after the time most although they do come. The server keeps the time, so
// a trigger outlives its process. It sets the count of tries back.
//
// The second schedule may fire after the first one did: the job then finds
// nothing to do.
func (b *Bus) Debounce(ctx context.Context, j Job, quiet, most time.Duration) error {
	if quiet <= 0 {
		return b.Enqueue(ctx, j)
	}
	if err := j.Check(); err != nil {
		return err
	}
	if err := b.triggered(ctx, j, false); err != nil {
		return fmt.Errorf("bus: debounce %s: %w", j, err)
	}
	now := time.Now()
	if _, err := b.publish(ctx, JobQueue, b.schedule(j, Quiet, now.Add(quiet))); err != nil {
		return fmt.Errorf("bus: debounce %s: quiet: %w", j, err)
	}
	if most <= 0 {
		most = quiet
	}
	_, err := b.publish(ctx, JobQueue, b.schedule(j, Max, now.Add(most)), jetstream.WithExpectLastSequencePerSubject(0))
	if err != nil && !wrongSequence(err) {
		return fmt.Errorf("bus: debounce %s: max: %w", j, err)
	}
	return nil
}

// schedule is a message that the server keeps and turns into the job at the
// given time. The header is set by hand: the library's option cuts the time to
// whole seconds.
func (b *Bus) schedule(j Job, which string, at time.Time) *nats.Msg {
	m := nats.NewMsg(b.names.when(which, j))
	m.Header.Set(jetstream.ScheduleHeader, "@at "+at.UTC().Format(time.RFC3339Nano))
	m.Header.Set(jetstream.ScheduleTargetHeader, b.names.job(j))
	return m
}

// ParseJob reads the text that Job.String gives.
func ParseJob(s string) (Job, error) {
	kind, batch, _ := strings.Cut(s, "/")
	id, err := dataset.ParseBatchID(batch)
	if err != nil {
		return Job{}, err
	}
	j := Job{Kind: kind, Batch: id}
	return j, j.Check()
}

func checkKind(kind string) error {
	if !slices.Contains(Kinds(), kind) {
		return fmt.Errorf("bus: no job of kind %q, there are %v", kind, Kinds())
	}
	return nil
}
