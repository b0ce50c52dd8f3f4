package lockd

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/objstore"
)

// Config holds the settings of Leases; the zero value is usable.
type Config struct {
	// Now is this machine's clock; time.Now when nil. Differences are taken of
	// its monotonic readings; what time it calls it matters to the first token of
	// a name and to nothing else.
	Now func() time.Time
	// Poll is the longest pause between two looks at a lease that is waited for;
	// 1 s when 0.
	Poll time.Duration
	// Attempt is how long one request to the store is waited for; 10 s when 0.
	Attempt time.Duration
	// Trusted says that the store is known to keep the conditions of writes. Else
	// the first Acquire runs SelfTest.
	Trusted bool

	Log        *slog.Logger          // none when nil
	Registerer prometheus.Registerer // metrics are not registered when nil
}

// Limits of what may be asked for.
const (
	MinTTL    = time.Second
	MaxTTL    = 24 * time.Hour
	MaxWait   = 24 * time.Hour
	MaxOwner  = 500      // bytes
	MaxMeta   = 16 << 10 // bytes
	maxID     = 100
	takeoverN = 8 // races lost in a row by who does not wait
)

// Leases takes and keeps leases in a store. It is safe for use by many
// goroutines.
type Leases struct {
	store   objstore.Store
	cfg     Config
	log     *slog.Logger
	metrics *Metrics
	queue   queue

	testing sync.Mutex // one self-test at a time
	trusted bool
}

// New keeps leases in a store.
func New(store objstore.Store, cfg Config) *Leases {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Poll = cmp.Or(cfg.Poll, time.Second)
	cfg.Attempt = cmp.Or(cfg.Attempt, 10*time.Second)
	l := &Leases{store: store, cfg: cfg, log: cfg.Log, metrics: NewMetrics(cfg.Registerer), trusted: cfg.Trusted}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	return l
}

func (l *Leases) now() time.Time { return l.cfg.Now() }

// Acquire takes the lease on a name for an owner, for a time to live, waiting
// for it up to wait. meta, a JSON object or nil, is shown beside it. A lease
// that somebody else has gives a *HeldError. Those who wait for one name here
// get it in the order in which they came.
func (l *Leases) Acquire(ctx context.Context, name, owner string, ttl, wait time.Duration, meta json.RawMessage) (*Lease, error) {
	return l.acquire(ctx, claim{name: name, owner: owner, ttl: ttl, wait: wait, meta: meta})
}

// claim is what somebody asks for.
type claim struct {
	name, owner string
	ttl, wait   time.Duration
	meta        json.RawMessage
	id          string // of the claim: asked for again, it is the same; may be empty
}

func (c claim) check() error {
	if err := CheckName(c.name); err != nil {
		return err
	}
	if err := checkTTL(c.ttl); err != nil {
		return err
	}
	switch {
	case c.owner == "":
		return invalid("a lease needs an owner: who shall others be told has it?")
	case len(c.owner) > MaxOwner || !utf8.ValidString(c.owner):
		return invalid("the owner has %d bytes; it is UTF-8 of at most %d", len(c.owner), MaxOwner)
	case c.wait < 0 || c.wait > MaxWait:
		return invalid("a wait is from 0 to %s, not %s", MaxWait, c.wait)
	case len(c.meta) > MaxMeta:
		return invalid("meta has %d bytes, and at most %d are allowed", len(c.meta), MaxMeta)
	case len(c.id) > maxID || !utf8.ValidString(c.id):
		return invalid("the id has %d bytes; it is UTF-8 of at most %d", len(c.id), maxID)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(c.meta, &object); c.meta != nil && (err != nil || object == nil) {
		return invalid("meta is no JSON object")
	}
	return nil
}

func checkToken(token int64) error {
	if token < 1 {
		return invalid("a lease is named by the token that it was given with, not by %d", token)
	}
	return nil
}

func checkTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return invalid("a lease lives from %s to %s, not %s", MinTTL, MaxTTL, ttl)
	}
	return nil
}

func (l *Leases) acquire(ctx context.Context, c claim) (*Lease, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	began := l.now()
	lease, err := l.await(ctx, c)
	l.metrics.acquired(err, l.now().Sub(began))
	if err != nil {
		return nil, fmt.Errorf("acquire: %w", err)
	}
	return lease, nil
}

// await stands in line, and takes the lease when it is the first there.
func (l *Leases) await(ctx context.Context, c claim) (*Lease, error) {
	if err := l.trust(ctx); err != nil {
		return nil, err
	}
	w := l.queue.join(c.name, c.owner, c.ttl)
	l.metrics.Waiting.Inc()
	defer func() { w.leave(); l.metrics.Waiting.Dec() }()
	timer := time.NewTimer(c.wait)
	defer timer.Stop()
	first, err := w.await(ctx, timer.C)
	switch {
	case err != nil:
		return nil, err
	case !first:
		return nil, l.refuse(ctx, c, w)
	}
	var watched watch
	pause := l.cfg.Poll / 16
	for lost := 0; ; {
		cur, err := l.look(ctx, c.name)
		if err != nil {
			return nil, err
		}
		mine := c.id != "" && cur.rec != nil && cur.rec.State == held && cur.rec.Lease == c.id
		if mine || cur.takeable() || watched.stale(cur, l.now()) {
			lease, err := l.take(ctx, c, cur, mine)
			if !errors.Is(err, errRaced) {
				return lease, err
			}
			if lost++; lost%takeoverN != 0 {
				continue // somebody was faster: look who
			}
			if c.wait == 0 {
				return nil, cur.held()
			}
		}
		pause = min(2*pause, l.cfg.Poll)
		select {
		case <-timer.C:
			return nil, cur.held()
		case <-w.woken:
			pause = l.cfg.Poll / 16
		case <-time.After(min(pause, max(cur.left()+slack, l.cfg.Poll/16))):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// refuse tells one whose time in the line is up who has the lease.
func (l *Leases) refuse(ctx context.Context, c claim, w *waiter) error {
	cur, err := l.look(ctx, c.name)
	if err != nil {
		return err
	}
	if cur.rec != nil && !cur.takeable() {
		return cur.held()
	}
	e := &HeldError{Name: c.name, HeldBy: "another who waited"}
	if first := w.ahead(); first != nil { // about to take it
		e.HeldBy = first.owner
		if !cur.date.IsZero() {
			e.ExpiresAt, e.In = cur.date.Add(first.ttl), first.ttl
		}
	}
	return e
}

// take replaces what was seen by a record of the claim, or gives errRaced.
// Once the request is on its way, it is waited for even if ctx ends: a lease
// that nobody knows to have would keep others out until it ends.
func (l *Leases) take(ctx context.Context, c claim, cur seen, mine bool) (*Lease, error) {
	live, cancel := outlive(ctx, min(c.ttl/2, longest))
	defer cancel()
	r := cur.rec.next(l.now().UnixMilli())
	r.Owner, r.TTL, r.Meta, r.Lease = c.owner, Seconds(c.ttl), c.meta, cmp.Or(c.id, rand.Text())
	cond := objstore.IfAbsent()
	if cur.rec != nil {
		cond = objstore.IfMatch(cur.etag)
		at := cur.date.UTC()
		r.AcquiredAt = &at
	}
	if mine { // an answer was lost, and the claim is made again
		r.Token, r.AcquiredAt, r.Renewals = cur.rec.Token, cur.rec.AcquiredAt, cur.rec.Renewals+1
	}
	start := l.now()
	got, err := l.put(live, c.name, r, cond)
	if err != nil {
		return nil, err
	}
	lease := newLease(l, c.name, c.owner, r.Lease, r.Token)
	lease.upTo(start.Add(c.ttl), got.ends(), got)
	if cur.rec != nil && cur.rec.State == held && !mine {
		l.metrics.Takeovers.Inc()
		l.log.Warn("lease taken over: it had ended", "lease", c.name, "owner", c.owner, "token", r.Token, "from", cur.rec.Owner, "ended", cur.ends())
	}
	if ctx.Err() != nil { // nobody is there to have it
		return nil, errors.Join(context.Cause(ctx), lease.Release(live))
	}
	if lease.Remaining() < c.ttl/2 { // the store took its time
		if err := lease.Renew(live, c.ttl); err != nil {
			return nil, err
		}
	}
	return lease, nil
}

// longest is how long a request whose outcome matters is seen through.
const longest = 30 * time.Second

// afterEnd is how long it may go on when whoever asked has gone.
const afterEnd = 5 * time.Second

// outlive is a context that ends after d, or a little after ctx.
func outlive(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	live, cancel := context.WithTimeout(context.WithoutCancel(ctx), d)
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(afterEnd)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-live.Done():
		}
	})
	return live, func() { stop(); cancel() }
}

// watch sees whether a lease stays as it is for longer than it lives. That ends
// it too, whatever the store's clock says: it may have been set back.
type watch struct {
	etag  string
	since time.Time
}

func (w *watch) stale(cur seen, now time.Time) bool {
	if cur.rec == nil || cur.etag != w.etag {
		w.etag, w.since = cur.etag, now
		return false
	}
	return now.Sub(w.since) >= time.Duration(cur.rec.TTL)+slack
}
