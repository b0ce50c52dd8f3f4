package s3

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// attempt is one request. Its context ends when no byte moves for Retry.Stall;
// a large body that moves slowly is fine.
type attempt struct {
	ctx    context.Context
	number int // from 0
	// unsure: an earlier attempt of this write may have had its effect.
	unsure bool

	sent   atomic.Bool // something went out
	kept   bool        // the body of the answer is still to be read; whoever has it calls end
	cancel context.CancelCauseFunc
	timer  *time.Timer
	stall  time.Duration
}

// begin waits for a slot and starts an attempt.
func (s *Store) begin(ctx context.Context, verb string) (*attempt, time.Time, error) {
	started, err := s.pace.wait(ctx)
	if err != nil {
		return nil, started, err
	}
	a := &attempt{stall: s.cfg.Retry.Stall}
	ctx, a.cancel = context.WithCancelCause(ctx)
	a.ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(httptrace.GotConnInfo) { a.touch() },
		WroteHeaders:         func() { a.sent.Store(true); a.touch() },
		GotFirstResponseByte: a.touch,
	})
	first := a.stall // until there is a connection
	if limit := s.cfg.Retry.Connect; limit > 0 && !s.answered.Load() {
		first = min(first, limit)
	}
	a.timer = time.AfterFunc(first, func() { a.cancel(errStalled) })
	s.metrics.Requests.WithLabelValues(verb).Inc()
	return a, started, nil
}

func (a *attempt) touch() { a.timer.Reset(a.stall) }

// rest stops the watch while nobody wants a byte.
func (a *attempt) rest() { a.timer.Stop() }

func (a *attempt) end() {
	a.timer.Stop()
	a.cancel(nil)
}

// body wraps what is sent, so that each byte read shows that it moves.
func (a *attempt) body(r io.ReadSeeker) io.ReadSeeker { return &moving{ReadSeeker: r, a: a} }

type moving struct {
	io.ReadSeeker
	a *attempt
}

func (m *moving) Read(p []byte) (int, error) {
	m.a.touch()
	return m.ReadSeeker.Read(p)
}

// retry makes attempts until one succeeds, or more of them would change nothing.
// unsure tells that a failed one may have had an effect; the error is that of
// the last.
func (s *Store) retry(ctx context.Context, verb string, once func(a *attempt) error) (unsure bool, err error) {
	pause := s.cfg.Retry.Base
	failed, began := 0, time.Now()
	var patience time.Time // when being throttled is over
	for n := 0; ; n++ {
		a, started, werr := s.begin(ctx, verb)
		if werr != nil {
			if err != nil {
				werr = fmt.Errorf("%w (after %d attempts: %w)", werr, n, err)
			}
			return unsure, werr
		}
		a.number, a.unsure = n, unsure
		err = once(a)
		if err != nil {
			err = cause(a.ctx, quieten(err))
		}
		if err == nil || statusOf(err) != 0 {
			s.answered.Store(true)
		}
		if !a.kept {
			a.end()
		}
		if err == nil {
			s.pace.served()
			return unsure, nil
		}
		v := judge(err, a.sent.Load())
		unsure = unsure || v.unsure
		if ctx.Err() != nil {
			return unsure || a.sent.Load() && v.kind != final, cause(ctx, err)
		}
		switch v.kind {
		case final:
			s.pace.served()
			return unsure, err
		case throttled:
			s.pace.refused(started)
			if patience.IsZero() {
				patience = started.Add(s.cfg.Retry.Throttle)
			}
			if time.Now().After(patience) {
				return unsure, fmt.Errorf("throttled for %s, %d attempts: %w", s.cfg.Retry.Throttle, n+1, err)
			}
		default:
			failed++
			if failed >= s.cfg.Retry.Attempts || s.unanswered(began) {
				return unsure, fmt.Errorf("%d attempts: %w", n+1, err)
			}
		}
		if serr := sleep(ctx, rand.N(pause)+pause/8); serr != nil {
			return unsure, fmt.Errorf("%w (after %d attempts: %w)", serr, n+1, err)
		}
		pause = min(2*pause, s.cfg.Retry.Max)
	}
}

// unanswered reports that a store which has never answered has had its time.
func (s *Store) unanswered(began time.Time) bool {
	limit := s.cfg.Retry.Connect
	return limit > 0 && !s.answered.Load() && time.Since(began) >= limit
}
