package viewerapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/prometheus/client_golang/prometheus"
)

// What one process takes at once. More is answered with 503.
const (
	maxAsks    = 64     // questions to the engine
	maxStreams = 16     // downloads
	maxClients = 10_000 // listeners to the events
	maxReplays = 8      // listeners that are read to from the stream at once
)

const (
	askTime    = 30 * time.Second // for the answer to a question
	turnTime   = 5 * time.Second  // how long a request waits for its turn
	closeTime  = 5 * time.Second  // for requests under way at the end
	headerSize = 32 << 10         // cursors and lists of columns travel in the URL
	bodySize   = 64 << 10         // of a request
)

// Server is the viewer over HTTP.
type Server struct {
	engine  Engine
	bus     Bus
	cfg     Config
	log     *slog.Logger
	m       *metrics
	hub     *hub
	app     *fiber.App
	static  *static
	hosts   hosts // known when Run begins
	asks    chan struct{}
	streams chan struct{}
	replays chan struct{}

	ctx    context.Context // ends when Run does: it is what requests run under
	cancel context.CancelFunc

	mu       sync.Mutex
	closed   bool
	clients  int
	leftover sync.WaitGroup // goroutines that outlive their request's handler
}

// New makes a server. page holds the viewer's files, with an index.html; ops
// answers /healthz, /readyz and /metrics.
func New(engine Engine, b Bus, page fs.FS, ops http.Handler, cfg Config, log *slog.Logger, reg prometheus.Registerer) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("viewer: %w", err)
	}
	files, err := loadStatic(page, cfg.BasePath)
	if err != nil {
		return nil, fmt.Errorf("viewer: %w", err)
	}
	log = quietLogger(log)
	m := newMetrics(reg)
	s := &Server{
		engine: engine, bus: b, cfg: cfg, log: log, m: m, hub: newHub(b, log, m), static: files,
		asks: make(chan struct{}, maxAsks), streams: make(chan struct{}, maxStreams), replays: make(chan struct{}, maxReplays),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.app = s.routes(ops)
	return s, nil
}

// Run serves on l until ctx ends. Then downloads and event streams end too.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	defer s.cancel()
	s.hosts = newHosts(l.Addr(), s.cfg)
	hubbed := make(chan error, 1)
	go func() { hubbed <- s.hub.Run(s.ctx) }()
	served := make(chan error, 1)
	go func() { served <- s.app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true}) }()
	var err error
	select {
	case <-ctx.Done():
		s.cancel()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		if e := s.app.ShutdownWithContext(end); e != nil && !errors.Is(e, net.ErrClosed) {
			s.log.Warn("requests were cut off at the end", keyErr, e)
		}
		_ = l.Close() // it may have had no time to begin
		err = <-served
	case err = <-served:
		s.cancel()
	}
	<-hubbed
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.leftover.Wait()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve the viewer: %w", err)
	}
	return nil
}

// enter counts a goroutine that outlives its request's handler. It is false when
// the server has ended.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.leftover.Add(1)
	return true
}

// within gives the context of a question, once it is its turn.
func (s *Server) within(c fiber.Ctx) (context.Context, func(), error) {
	leave, err := s.turn(s.asks)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(s.ctx, askTime)
	return ctx, func() { cancel(); leave() }, nil
}

// turn waits for a place among those that are served at once.
func (s *Server) turn(places chan struct{}) (leave func(), err error) {
	leave = func() { <-places }
	select {
	case places <- struct{}{}:
		return leave, nil
	default:
	}
	late := time.NewTimer(turnTime)
	defer late.Stop()
	select {
	case places <- struct{}{}:
		return leave, nil
	case <-late.C:
		return nil, errBusy
	case <-s.ctx.Done():
		return nil, context.Canceled
	}
}
