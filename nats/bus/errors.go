package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The outcomes that callers tell apart, always with errors.Is.
var (
	// ErrNoKey: the bucket has no such key, or it was deleted.
	ErrNoKey = errors.New("no such key")
	// ErrExists: a create found the key taken.
	ErrExists = errors.New("key exists")
	// ErrRevision: the key is no longer at the revision that was read.
	ErrRevision = errors.New("key changed since it was read")
	// ErrReset: a position is of another epoch or is gone, or events were
	// skipped; the reader has to fetch the present state anew.
	ErrReset = errors.New("position is gone, read the state anew")
	// ErrClaimLost is the cause with which a job's context ends when another
	// worker may have taken the job.
	ErrClaimLost = errors.New("claim on the job lost")
	// ErrLeadLost is the cause with which a leader's context ends when another
	// process may lead.
	ErrLeadLost = errors.New("leadership lost")
	// ErrTopology: streams or durables are missing or differ from what is
	// wanted in a way that an update must not settle by itself.
	ErrTopology = errors.New("topology does not fit")
	// ErrNoLetter: no dead letter has that id.
	ErrNoLetter = errors.New("no such dead letter")
)

type giveError struct{ err error }

func (e giveError) Error() string { return e.err.Error() }
func (e giveError) Unwrap() error { return e.err }

// Give marks an error as final: the event or job goes to the dead letters at
// once instead of coming again. Give(nil) is nil.
func Give(err error) error {
	if err == nil {
		return nil
	}
	return giveError{err}
}

func given(err error) bool {
	var g giveError
	return errors.As(err, &g)
}

// wrongSequence reports a lost compare-and-swap: replicated streams answer
// with a code of their own.
func wrongSequence(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
			api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant
	}
	return false
}

// noStream reports that nothing answers for a stream: it does not exist, or
// the server has not opened it yet.
func noStream(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse)
}

// retryable reports whether the same publish may succeed later.
func retryable(err error) bool {
	var api *jetstream.APIError
	switch {
	case noStream(err), errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrReconnectBufExceeded),
		errors.Is(err, nats.ErrConnectionReconnecting):
		return true
	case errors.As(err, &api):
		return api.Code == 503
	}
	return false
}

// backoff grows from base by factor up to most, with a fifth of jitter so that
// those who failed together do not come back together.
func backoff(n int, base, most time.Duration, factor float64, jitter func() float64) time.Duration {
	d := float64(base)
	for range n {
		if d *= factor; d >= float64(most) {
			d = float64(most)
			break
		}
	}
	return time.Duration(d * (0.9 + 0.2*jitter()))
}

// pause waits for d or for ctx, and reports whether ctx still runs.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func panicked(v any) error { return fmt.Errorf("handler panicked: %v", v) }
