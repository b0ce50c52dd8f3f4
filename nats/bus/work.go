package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// Work runs fn for the jobs of a kind, at most slots at once, until ctx ends;
// it returns nil then. A worker takes one job at a time and claims it; it counts
// the try before it runs, so that a job that kills its worker counts too.
//
// nil from fn means done. An error brings the job again with a growing delay,
// and after Timing.Tries runs, or at once when it is marked by Give, the job
// goes to the dead letters until it is triggered again. The context of fn ends
// with ErrClaimLost as its cause when another worker may have the job: two runs
// at once are rare but possible, and must be harmless.
//
// A trigger that comes while the job runs makes it run again afterwards.
func (b *Bus) Work(ctx context.Context, kind string, slots int, fn func(context.Context, Job) error) error {
	if err := checkKind(kind); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for range max(slots, 1) {
		w := &worker{b: b, kind: kind, durable: jobDurable(kind), fn: fn}
		p := &puller{b: b, stream: b.names.stream(JobQueue), durable: w.durable, filters: []string{b.names.jobs(kind)}, batch: 1, handle: w.take}
		g.Go(func() error { return p.run(ctx) })
	}
	return g.Wait()
}

// worker is one slot of Work.
type worker struct {
	b       *Bus
	kind    string
	durable string
	fn      func(context.Context, Job) error
}

// take handles one delivered job message.
func (w *worker) take(ctx context.Context, m jetstream.Msg) {
	b := w.b
	log := b.log.With(keyDurable, w.durable, keySubject, m.Subject())
	j, err := b.names.parseJob(m.Subject())
	if err == nil && j.Kind != w.kind {
		err = fmt.Errorf("job of kind %s came to a worker of kind %s", j.Kind, w.kind)
	}
	if err != nil {
		if err := b.bury(ctx, w.durable, m, 0, err); err != nil {
			log.Error("cannot store the dead letter, trying again", keyErr, err)
			w.back(m, b.t.JobWait)
		}
		return
	}
	rec, _, err := b.tries(ctx, j)
	if err != nil {
		if ctx.Err() == nil {
			log.Warn("cannot read the tries of a job, trying again", keyErr, err)
		}
		w.back(m, time.Second)
		return
	}
	if rec.Dead {
		// Every trigger takes the mark away before it sends a message, so this
		// message is older than the mark.
		_ = m.TermWithReason("given up: " + oneLine(rec.Error, 200))
		return
	}
	if wait := time.Until(rec.Next); wait > 0 {
		w.back(m, min(wait, b.t.JobMaxWait*2)) // a clock that runs ahead must not park a job for ever
		return
	}
	c, err := b.claim(ctx, j)
	if err != nil {
		if !errors.Is(err, ErrExists) && ctx.Err() == nil {
			log.Warn("cannot claim a job, trying again", keyErr, err)
		}
		w.back(m, w.contended(m))
		return
	}
	if w.claimed(ctx, m, j, c) {
		return
	}
	c.release(ctx)
}

// contended is the delay of a job that another worker has: the longer it has it
// already, the longer.
func (w *worker) contended(m jetstream.Msg) time.Duration {
	n := 0
	if meta, err := m.Metadata(); err == nil {
		n = int(min(meta.NumDelivered, 16)) - 1
	}
	return backoff(n, 250*time.Millisecond, 2*time.Second, 1.5, w.b.jitter)
}

func (w *worker) back(m jetstream.Msg, wait time.Duration) {
	if err := m.NakWithDelay(wait); err != nil {
		w.b.log.Warn("cannot send a job back, it comes again by itself", keyDurable, w.durable, keySubject, m.Subject(), keyErr, err)
	}
}

// claimed runs a claimed job and settles its message; it reports whether the
// claim has been dealt with.
func (w *worker) claimed(ctx context.Context, m jetstream.Msg, j Job, c *claim) (done bool) {
	b := w.b
	log := b.log.With(keyDurable, w.durable, keyJob, j.String())
	spent := false
	rec, err := b.changeTries(ctx, j, func(r *tryRecord) bool {
		spent = r.Dead || r.Tries >= b.t.Tries
		r.Tries++
		return !spent
	})
	if err != nil {
		if ctx.Err() == nil {
			log.Warn("cannot count a try, trying again", keyErr, err)
		}
		w.back(m, time.Second)
		return false
	}
	if spent && !rec.Dead { // the last run never came back
		why := rec.Error
		if why == "" {
			why = "no error was recorded"
		}
		w.giveUp(ctx, m, j, fmt.Errorf("the worker died in each of the last runs; before that: %s", why))
		return false
	}
	if spent {
		_ = m.TermWithReason("given up")
		return false
	}
	run, cancel := context.WithCancelCause(ctx)
	stop := c.keep(func() { cancel(ErrClaimLost) })
	start := time.Now()
	err = guard(b.log, w.durable, func() error { return w.fn(run, j) })
	stop()
	lost := errors.Is(context.Cause(run), ErrClaimLost)
	cancel(nil)
	outcome := "ok"
	switch {
	case err == nil:
		w.succeeded(ctx, m, j, c)
		done = true
	case lost:
		outcome = "claim lost"
		log.Warn("the claim was lost while the job ran", keyErr, err)
		w.uncount(ctx, j)
		w.back(m, w.contended(m))
		done = true // it is not ours to release
	case ctx.Err() != nil:
		outcome = "stopped"
		w.uncount(ctx, j)
		c.release(ctx)
		_ = m.Nak()
		done = true
	default:
		outcome = "error"
		w.failed(ctx, m, j, err)
	}
	b.metrics.jobs.WithLabelValues(w.kind, outcome).Observe(time.Since(start).Seconds())
	return done
}

// uncount takes back a try that says nothing about the job.
func (w *worker) uncount(ctx context.Context, j Job) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := w.b.changeTries(ctx, j, func(r *tryRecord) bool {
		r.Tries--
		return r.Tries >= 0 && !r.Dead
	})
	if err != nil {
		w.b.log.Warn("cannot take back a try", keyJob, j.String(), keyErr, err)
	}
}

func (w *worker) succeeded(ctx context.Context, m jetstream.Msg, j Job, c *claim) {
	b := w.b
	// The work is done: a worker that is told to stop still says so.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	b.metrics.handled.WithLabelValues(w.durable).Inc()
	if err := b.KV(Tries).Delete(ctx, j.key(), 0); err != nil {
		b.log.Warn("cannot forget the tries of a job", keyJob, j.String(), keyErr, err)
	}
	c.release(ctx)
	if err := m.DoubleAck(ctx); err != nil {
		b.log.Warn("cannot acknowledge a job, it runs once more", keyJob, j.String(), keyErr, err)
	}
}

// failed counts a failure and sends the job back, or gives it up.
func (w *worker) failed(ctx context.Context, m jetstream.Msg, j Job, why error) {
	b := w.b
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	b.metrics.failed.WithLabelValues(w.durable).Inc()
	var wait time.Duration
	rec, err := b.changeTries(ctx, j, func(r *tryRecord) bool {
		wait = backoff(r.Fails, b.t.JobWait, b.t.JobMaxWait, 3, b.jitter)
		r.Fails++
		r.Next, r.Error = time.Now().Add(wait).UTC(), oneLine(why.Error(), maxReason)
		return true
	})
	if err != nil {
		b.log.Warn("cannot record the failure of a job", keyJob, j.String(), keyErr, err)
	}
	if given(why) || rec.Tries >= b.t.Tries {
		w.giveUp(ctx, m, j, why)
		return
	}
	b.log.Warn("job failed, trying again", keyJob, j.String(), keyTries, rec.Tries, keyWait, wait.Round(time.Millisecond), keyErr, why)
	w.back(m, max(wait, b.t.JobWait))
}

// giveUp stores the dead letter, then marks the job. A trigger that comes in
// between is seen by the mark's condition: the job runs again.
func (w *worker) giveUp(ctx context.Context, m jetstream.Msg, j Job, why error) {
	b := w.b
	log := b.log.With(keyDurable, w.durable, keyJob, j.String())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	rec, _, err := b.tries(ctx, j)
	if err == nil && rec.Tries == 0 { // triggered since
		w.back(m, b.t.JobWait)
		return
	}
	if err == nil {
		err = b.letter(ctx, w.durable, m, rec.Tries, why)
	}
	if err != nil {
		log.Error("cannot store the dead letter, trying again", keyErr, err)
		w.back(m, b.t.JobWait)
		return
	}
	marked := false
	_, err = b.changeTries(ctx, j, func(r *tryRecord) bool {
		marked = r.Tries > 0 // 0: triggered since
		r.Dead, r.Next, r.Error = true, time.Time{}, oneLine(why.Error(), maxReason)
		return marked
	})
	switch {
	case err != nil:
		log.Error("cannot mark a job as given up, trying again", keyErr, err)
		w.back(m, b.t.JobWait)
	case !marked:
		w.back(m, b.t.JobWait)
	default:
		if err := m.TermWithReason(oneLine(why.Error(), 200)); err != nil {
			log.Warn("cannot end a job's message, it is ended when it comes again", keyErr, err)
		}
	}
}
