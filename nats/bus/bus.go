package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
)

// apiLevel is the JetStream API level of the oldest server that has message
// schedules, NATS 2.12.
const apiLevel = 2

// Config says where the server is and what part of it is ours.
type Config struct {
	URL   string // nats://user:password@host:4222, several with commas
	Creds string // credentials file, where the server wants one
	// Server connects without a socket, to a server in this process, instead of URL.
	Server   nats.InProcessConnProvider
	Scope    string // from Scope
	Replicas int    // copies of each stream in a cluster; 0 keeps what is there, 1 for new ones
	Name     string // who we are, in the server's list and in claims; empty: host and process

	ClaimsOff bool   // every claim says yes: shows that nothing but speed rests on claims
	Timing    Timing // zero: the defaults
}

// Bus is a connection to NATS. All methods may be called from many goroutines.
type Bus struct {
	cfg     Config
	t       Timing
	names   names
	nc      *nats.Conn
	js      jetstream.JetStream
	log     *slog.Logger
	metrics *metrics
	closed  chan struct{}

	mu          sync.Mutex
	reconnected chan struct{} // closed and replaced at every reconnect
	denied      error         // the last permission error
	streams     map[string]jetstream.Stream
}

// Connect opens the connection and checks that the server can carry the bus.
// An open connection reconnects for ever.
func Connect(ctx context.Context, cfg Config, log *slog.Logger, reg prometheus.Registerer) (*Bus, error) {
	if err := checkScope(cfg.Scope); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if cfg.Name == "" {
		host, _ := os.Hostname()
		cfg.Name = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	b := &Bus{
		cfg: cfg, t: cfg.Timing.withDefaults(), names: names{cfg.Scope}, log: log, metrics: newMetrics(reg),
		closed: make(chan struct{}), reconnected: make(chan struct{}), streams: map[string]jetstream.Stream{},
	}
	if err := b.dial(ctx); err != nil {
		return nil, err
	}
	if err := b.checkServer(ctx); err != nil {
		b.nc.Close()
		return nil, err
	}
	return b, nil
}

func (b *Bus) dial(ctx context.Context) error {
	timeout := 5 * time.Second
	if d, ok := ctx.Deadline(); ok {
		timeout = min(timeout, max(time.Until(d), time.Millisecond))
	}
	opts := []nats.Option{
		nats.Name("siltstone " + b.cfg.Name),
		nats.Timeout(timeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, time.Second),
		// A half-open connection is noticed after 20 s instead of 4 min.
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(b.onError),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				b.log.Warn("nats: connection lost, reconnecting", keyErr, err)
			}
		}),
		nats.ReconnectHandler(b.onReconnect),
		nats.ClosedHandler(b.onClosed),
	}
	if b.cfg.Creds != "" {
		opts = append(opts, nats.UserCredentials(b.cfg.Creds))
	}
	where := redact(b.cfg.URL)
	if b.cfg.Server != nil {
		opts, where = append(opts, nats.InProcessServer(b.cfg.Server)), "the server in this process"
		if c, ok := b.cfg.Server.(interface{ Credentials() (string, string) }); ok {
			if user, password := c.Credentials(); user != "" {
				opts = append(opts, nats.UserInfo(user, password))
			}
		}
	} else if b.cfg.URL == "" {
		return errors.New("bus: no NATS server: set NATS_URL")
	}
	var err error
	if b.nc, err = nats.Connect(b.cfg.URL, opts...); err != nil {
		return fmt.Errorf("bus: connect to %s: %w", where, err)
	}
	if b.js, err = jetstream.New(b.nc); err != nil {
		b.nc.Close()
		return fmt.Errorf("bus: open JetStream at %s: %w", where, err)
	}
	return nil
}

func (b *Bus) checkServer(ctx context.Context) error {
	version := b.nc.ConnectedServerVersion()
	if old, err := olderThan(version, 2, 12); err == nil && old {
		return fmt.Errorf("bus: the NATS server is version %s, 2.12 or later is needed (message schedules)", version)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		// A denied call is not answered: a short time shows it soon.
		try, cancelTry := context.WithTimeout(ctx, time.Second)
		info, err := b.js.AccountInfo(try)
		cancelTry()
		switch {
		case err == nil && info.API.Level < apiLevel:
			return fmt.Errorf("bus: JetStream of NATS server %s has API level %d, at least %d is needed (NATS 2.12)", version, info.API.Level, apiLevel)
		case err == nil:
			return nil
		case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
			return fmt.Errorf("bus: NATS server %s has no JetStream for this user: start it with -js, or enable jetstream for the account: %w", version, err)
		}
		if d := b.deniedFor("$JS.API.INFO"); d != nil {
			return fmt.Errorf("bus: JetStream refused: %w", d)
		}
		// A server that was just started answers the connection first and
		// JetStream a moment later.
		late := errors.Is(err, context.DeadlineExceeded)
		if !noStream(err) && !late || !pause(ctx, 50*time.Millisecond) {
			return fmt.Errorf("bus: JetStream of NATS server %s does not answer: %w", version, err)
		}
	}
}

func olderThan(version string, major, minor int) (bool, error) {
	var a, c int
	if _, err := fmt.Sscanf(version, "%d.%d", &a, &c); err != nil {
		return false, err
	}
	return a < major || a == major && c < minor, nil
}

// redact takes passwords out of a list of URLs.
func redact(urls string) string {
	parts := strings.Split(urls, ",")
	for i, u := range parts {
		head, tail, ok := strings.Cut(u, "@")
		if scheme, _, s := strings.Cut(head, "://"); ok && s {
			parts[i] = scheme + "://…@" + tail
		} else if ok {
			parts[i] = "…@" + tail
		}
	}
	return strings.Join(parts, ",")
}

func (b *Bus) onError(_ *nats.Conn, sub *nats.Subscription, err error) {
	// A JetStream call that is denied shows to its caller as a time-out only:
	// this is the one place that knows why.
	if errors.Is(err, nats.ErrPermissionViolation) {
		b.mu.Lock()
		b.denied = err
		b.mu.Unlock()
	}
	attrs := []any{keyErr, err}
	if sub != nil {
		attrs = append(attrs, keySubject, sub.Subject)
	}
	b.log.Error("nats: asynchronous error", attrs...)
}

func (b *Bus) onReconnect(nc *nats.Conn) {
	b.log.Info("nats: connected again", keyURL, nc.ConnectedUrlRedacted())
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.reconnected)
	b.reconnected = make(chan struct{})
}

func (b *Bus) onClosed(nc *nats.Conn) {
	if err := nc.LastError(); err != nil {
		b.log.Error("nats: connection closed for good", keyErr, err)
	} else {
		b.log.Debug("nats: connection closed")
	}
	close(b.closed)
}

// deniedFor is the last permission error, if it is about a stream or subject.
func (b *Bus) deniedFor(what string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.denied != nil && strings.Contains(b.denied.Error(), what) {
		return b.denied
	}
	return nil
}

// whyLate adds to a time-out what is known about its reason.
func (b *Bus) whyLate(what string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		if d := b.deniedFor(what); d != nil {
			return fmt.Errorf("%w: the server denies it: %w", err, d)
		}
	}
	return err
}

// Closed is closed when the connection has ended for good: after Close, or
// when the server refuses us for ever (expired credentials).
func (b *Bus) Closed() <-chan struct{} { return b.closed }

// Connected reports whether the server can be reached now.
func (b *Bus) Connected() bool { return b.nc.IsConnected() }

// Close drains the connection and waits until it is closed. Handlers are ended
// by their contexts, before.
func (b *Bus) Close() {
	if err := b.nc.Drain(); err != nil {
		b.nc.Close()
	}
	select {
	case <-b.closed:
	case <-time.After(5 * time.Second):
		b.nc.Close()
	}
}

// Drain sends what is buffered and waits until the server has it.
func (b *Bus) Drain(ctx context.Context) error {
	if err := b.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("bus: flush: %w", err)
	}
	return nil
}

// connection is a context that ends when ctx does or when the connection was
// made anew: answers that were under way are then lost, and pulls that the
// server knew of are forgotten there.
func (b *Bus) connection(ctx context.Context) (context.Context, context.CancelFunc) {
	before := b.nc.Stats().Reconnects
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			b.mu.Lock()
			again := b.reconnected
			b.mu.Unlock()
			// The signal comes a moment after the fact: one for a reconnect from
			// before we began is not meant.
			if b.nc.Stats().Reconnects != before && b.nc.IsConnected() {
				return
			}
			select {
			case <-again:
			case <-b.closed:
				return
			case <-ctx.Done():
			}
		}
	}()
	return ctx, cancel
}

// connected waits until there is a connection.
func (b *Bus) connected(ctx context.Context) error {
	for {
		b.mu.Lock()
		again := b.reconnected
		b.mu.Unlock()
		if b.nc.IsConnected() {
			return nil
		}
		select {
		case <-again:
		case <-b.closed:
			return nats.ErrConnectionClosed
		case <-ctx.Done():
			return fmt.Errorf("no connection to NATS: %w", context.Cause(ctx))
		}
	}
}

// stream is a handle for direct reads of a stream.
func (b *Bus) stream(ctx context.Context, name string) (jetstream.Stream, error) {
	b.mu.Lock()
	s := b.streams[name]
	b.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s, err := b.js.Stream(ctx, name)
	if err != nil {
		return nil, b.explain(name, err)
	}
	b.mu.Lock()
	b.streams[name] = s
	b.mu.Unlock()
	return s, nil
}

// explain adds the way out to the errors that people meet.
func (b *Bus) explain(stream string, err error) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("stream %s does not exist, `siltstone topology` creates it: %w", stream, errors.Join(ErrTopology, err))
	}
	return b.whyLate(stream, err)
}

func (b *Bus) jitter() float64 { return rand.Float64() }
