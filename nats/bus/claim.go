package bus

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
)

// claim says that this worker runs a job. It saves double work and proves
// nothing: a stalled worker wakes up after its claim has ended.
type claim struct {
	b   *Bus
	key string
	val []byte
	rev uint64
	at  time.Time // monotonic, from before the request that last confirmed it
}

// claimValue is what the claims bucket holds.
type claimValue struct {
	Worker string    `json:"worker"`
	Token  string    `json:"token"` // tells our own write whose answer was lost
	Since  time.Time `json:"since"`
}

// claim takes the job: ErrExists when somebody has it. With ClaimsOff it always
// says yes, with a nil claim.
func (b *Bus) claim(ctx context.Context, j Job) (*claim, error) {
	if b.cfg.ClaimsOff {
		return nil, nil
	}
	val, err := json.Marshal(claimValue{Worker: b.cfg.Name, Token: uuid.NewString(), Since: time.Now().UTC()})
	if err != nil {
		return nil, err
	}
	c := &claim{b: b, key: j.key(), val: val, at: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, b.t.ClaimTTL/2)
	defer cancel()
	kv := b.KV(Claims)
	c.rev, err = kv.create(ctx, c.key, val, b.t.ClaimTTL)
	return c, kv.err("claim", c.key, err)
}

// keep renews the claim until stop is called; it calls lost, once, when the
// claim is gone or may be: three quarters of its life after the last
// confirmation, so that we are gone before somebody else can come.
func (c *claim) keep(lost func()) (stop func()) {
	if c == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ttl := c.b.t.ClaimTTL
		for pause(ctx, ttl/5) {
			if !c.renew(ctx) && ctx.Err() == nil || time.Since(c.at) > ttl*3/4 {
				c.b.metrics.claimsLost.Inc()
				lost()
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// renew prolongs the claim; it reports false when somebody else has it. An
// update would give the key eternal life, so it is written with a life again.
func (c *claim) renew(ctx context.Context) bool {
	// A late answer is no confirmation; the next attempt has its own time.
	ctx, cancel := context.WithTimeout(ctx, c.b.t.ClaimTTL/5)
	defer cancel()
	kv, before := c.b.KV(Claims), time.Now()
	rev, err := kv.write(ctx, c.key, c.val, &c.rev, c.b.t.ClaimTTL)
	if errors.Is(err, ErrRevision) {
		// A renewal whose answer was lost is ours too.
		e, gerr := kv.get(ctx, c.key)
		if gerr == nil && !e.Deleted && string(e.Value) == string(c.val) {
			c.rev = e.Revision
			return true // confirmed by the next one
		}
		return gerr != nil && !errors.Is(gerr, ErrNoKey)
	}
	if err == nil {
		c.rev, c.at = rev, before
	}
	return true
}

// release gives the job free, if it is still ours.
func (c *claim) release(ctx context.Context) {
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := c.b.KV(Claims).Delete(ctx, c.key, c.rev); err != nil && !errors.Is(err, ErrRevision) {
		c.b.log.Warn("cannot release a claim, it runs out by itself", keyJob, c.key, keyErr, err)
	}
}
