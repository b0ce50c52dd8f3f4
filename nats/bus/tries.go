package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// tryRecord is what the tries bucket holds of a job that has not ended well.
// Deliveries do not count: those of a job that another worker holds, or that
// was replaced by a newer one, say nothing about the job.
type tryRecord struct {
	Tries  int       `json:"tries"`             // runs begun since the last trigger
	Fails  int       `json:"fails"`             // failures since the last success: how long to wait
	Next   time.Time `json:"next_try,omitzero"` // not before
	Error  string    `json:"last_error"`        // of the last failure
	Dead   bool      `json:"dead"`              // given up, until a trigger
	At     time.Time `json:"at"`                // last change
	Worker string    `json:"worker,omitempty"`  // who ran it last
}

// tries reads a job's record; a job without one has the zero record at
// revision 0.
func (b *Bus) tries(ctx context.Context, j Job) (tryRecord, uint64, error) {
	e, err := b.KV(Tries).Get(ctx, j.key())
	if errors.Is(err, ErrNoKey) {
		return tryRecord{}, 0, nil
	}
	if err != nil {
		return tryRecord{}, 0, err
	}
	var r tryRecord
	if err := json.Unmarshal(e.Value, &r); err != nil {
		// Somebody's hand was here; the job must run all the same.
		b.log.Warn("unreadable record of tries, starting a new one", keyJob, j.String(), keyErr, err)
	}
	return r, e.Revision, nil
}

// change applies fn to the job's record by compare-and-swap; fn returns false
// when there is nothing to change.
func (b *Bus) changeTries(ctx context.Context, j Job, fn func(*tryRecord) bool) (tryRecord, error) {
	kv := b.KV(Tries)
	for n := 0; ; n++ {
		r, rev, err := b.tries(ctx, j)
		if err != nil {
			return r, err
		}
		if !fn(&r) {
			return r, nil
		}
		r.At, r.Worker = time.Now().UTC(), b.cfg.Name
		data, err := json.Marshal(r)
		if err != nil {
			return r, fmt.Errorf("encode tries: %w", err)
		}
		if rev == 0 {
			_, err = kv.Create(ctx, j.key(), data)
		} else {
			_, err = kv.Update(ctx, j.key(), data, rev)
		}
		if err == nil || n >= 20 || !errors.Is(err, ErrRevision) && !errors.Is(err, ErrExists) {
			return r, err
		}
		if !pause(ctx, backoff(n, time.Millisecond, 50*time.Millisecond, 2, b.jitter)) {
			return r, context.Cause(ctx)
		}
	}
}

// triggered sets the count back, as every trigger does, before the job's
// message is stored. now also ends the wait after a failure.
func (b *Bus) triggered(ctx context.Context, j Job, now bool) error {
	_, err := b.changeTries(ctx, j, func(r *tryRecord) bool {
		if r.Tries == 0 && !r.Dead && (!now || r.Next.IsZero()) {
			return false
		}
		if r.Dead {
			r.Fails = 0
		}
		r.Tries, r.Dead = 0, false
		if now {
			r.Next = time.Time{}
		}
		return true
	})
	return err
}
