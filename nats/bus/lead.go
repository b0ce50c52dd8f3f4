package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/siltstone-data/siltstone/dataset"
)

// Lead runs fn while this process leads the task, until ctx ends (nil) or fn
// returns by itself (its error). When leadership is lost, the context of fn
// ends with ErrLeadLost as its cause, and Lead stands for election again.
//
// Leading saves double work and proves nothing: a stalled leader may go on for
// a moment beside the next one.
func (b *Bus) Lead(ctx context.Context, task string, fn func(context.Context) error) error {
	l := &leader{b: b, kv: b.KV(Lead), key: dataset.Token(task), log: []any{keyTask, task}}
	wake := make(chan struct{}, 1)
	watch, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		l.watch(watch, wake)
	}()
	defer func() { stop(); <-watched }()
	for ctx.Err() == nil {
		won, err := l.stand(ctx)
		if err != nil && ctx.Err() == nil {
			b.log.Debug("cannot stand for election, trying again", append(l.log, keyErr, err)...)
		}
		if won {
			if done, err := l.reign(ctx, fn); done {
				return err
			}
			continue
		}
		// The end of a reign is heard of; the timer is for what is not heard.
		t := time.NewTimer(backoff(0, b.t.LeadTTL/2, b.t.LeadTTL, 1, b.jitter))
		select {
		case <-wake:
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
	}
	return nil
}

type leader struct {
	b   *Bus
	kv  *KV
	key string
	log []any
	val []byte
	rev uint64
	at  time.Time // monotonic, from before the request that last confirmed us
}

// watch wakes the candidate when the seat becomes free.
func (l *leader) watch(ctx context.Context, wake chan<- struct{}) {
	_ = l.kv.Follow(ctx, l.key, func(e Entry) error {
		if e.Deleted {
			select {
			case wake <- struct{}{}:
			default:
			}
		}
		return nil
	}, nil)
}

func (l *leader) stand(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, l.b.t.LeadTTL/2)
	defer cancel()
	val, err := json.Marshal(claimValue{Worker: l.b.cfg.Name, Token: uuid.NewString(), Since: time.Now().UTC()})
	if err != nil {
		return false, err
	}
	before := time.Now()
	rev, err := l.kv.create(ctx, l.key, val, 0) // the bucket gives every key its life
	if errors.Is(err, ErrExists) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	l.val, l.rev, l.at = val, rev, before
	return true, nil
}

// reign runs fn as the leader; done says that Lead is over.
func (l *leader) reign(ctx context.Context, fn func(context.Context) error) (done bool, err error) {
	l.b.log.Info("leading", l.log...)
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		l.keep(run, func() { cancel(ErrLeadLost) })
	}()
	err = guard(l.b.log, "lead", func() error { return fn(run) })
	lost := errors.Is(context.Cause(run), ErrLeadLost)
	cancel(nil)
	<-kept
	if lost {
		l.b.log.Warn("leadership lost", append(l.log, keyErr, err)...)
		return false, nil
	}
	l.resign(ctx)
	if ctx.Err() != nil {
		return true, nil
	}
	if err != nil {
		return true, fmt.Errorf("bus: lead: %w", err)
	}
	return true, nil
}

// keep renews the seat until ctx ends. It steps down at three quarters of the
// life after the last confirmation, by this process's own monotonic clock: the
// next leader cannot come before the whole life is over.
func (l *leader) keep(ctx context.Context, lost func()) {
	ttl := l.b.t.LeadTTL
	for pause(ctx, ttl/5) {
		if !l.renew(ctx) || time.Since(l.at) > ttl*3/4 {
			if ctx.Err() == nil {
				lost()
			}
			return
		}
	}
}

func (l *leader) renew(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, l.b.t.LeadTTL/5)
	defer cancel()
	before := time.Now()
	rev, err := l.kv.write(ctx, l.key, l.val, &l.rev, 0)
	if errors.Is(err, ErrRevision) {
		e, gerr := l.kv.get(ctx, l.key)
		if gerr == nil && !e.Deleted && string(e.Value) == string(l.val) {
			l.rev = e.Revision // our own, whose answer was lost; the next one confirms
			return true
		}
		return gerr != nil && !errors.Is(gerr, ErrNoKey)
	}
	if err == nil {
		l.rev, l.at = rev, before
	}
	return true
}

// resign frees the seat, so that the next leader need not wait for it.
func (l *leader) resign(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := l.kv.Delete(ctx, l.key, l.rev); err != nil && !errors.Is(err, ErrRevision) {
		l.b.log.Warn("cannot resign, the seat becomes free by itself", append(l.log, keyErr, err)...)
	}
}
