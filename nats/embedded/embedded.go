// Package embedded is a NATS server with JetStream inside this process.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
)

// ErrInUse reports a folder that another server holds.
var ErrInUse = errors.New("another server uses this folder")

// Config says where the server keeps its data and who may reach it.
type Config struct {
	Dir string // the store; made when it is missing
	// Listen is host:port for clients of other processes, with port 0 for any
	// free one. Empty: this process only, over InProcessConn.
	Listen         string
	User, Password string // asked of every client that comes over Listen
	Name           string // the server's name; empty: "siltstone"
	MaxStore       int64  // bytes; 0: three quarters of what is free on the disk
}

// Server is a running server.
type Server struct {
	cfg  Config
	srv  *server.Server
	lock *flock.Flock
}

// ready is how long a start may take: with many messages to recover it is more
// than a moment.
const ready = 60 * time.Second

// Open starts a server and waits until it takes clients. It flushes every
// message to the disk before it acknowledges it: without that, a power cut
// takes whole streams.
func Open(ctx context.Context, cfg Config, log *slog.Logger) (*Server, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	opts, err := options(cfg)
	if err != nil {
		return nil, fmt.Errorf("nats server: %w", err)
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("nats server: %w", err)
	}
	s := &Server{cfg: cfg, lock: lock}
	if s.srv, err = server.NewServer(opts); err != nil {
		return nil, errors.Join(fmt.Errorf("nats server: %w", err), s.unlock())
	}
	l := &logger{log: log, fatal: make(chan string, 1)}
	s.srv.SetLoggerV2(l, false, false, false)
	s.srv.Start()
	if err := s.wait(ctx, l.fatal); err != nil {
		return nil, errors.Join(fmt.Errorf("nats server: %w", err), s.Close())
	}
	return s, nil
}

// wait waits until the server takes clients or has told why it never will.
func (s *Server) wait(ctx context.Context, fatal <-chan string) error {
	ctx, cancel := context.WithTimeout(ctx, ready)
	defer cancel()
	for !s.srv.ReadyForConnections(25 * time.Millisecond) {
		select {
		case why := <-fatal:
			return errors.New(why)
		case <-ctx.Done():
			return fmt.Errorf("not ready in time, its log lines say more: %w", ctx.Err())
		default:
		}
	}
	return nil
}

func options(cfg Config) (*server.Options, error) {
	if cfg.Dir == "" {
		return nil, errors.New("no folder given")
	}
	opts := &server.Options{
		ServerName: cfg.Name, JetStream: true, StoreDir: cfg.Dir, JetStreamMaxStore: cfg.MaxStore,
		SyncAlways: true,
		NoSigs:     true, // else it takes over SIGINT and ends the process
		DontListen: cfg.Listen == "",
	}
	if opts.ServerName == "" {
		opts.ServerName = "siltstone"
	}
	if cfg.Listen == "" {
		return opts, nil
	}
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen address %q: %w", cfg.Listen, err)
	}
	opts.Host = host
	if opts.Port, err = strconv.Atoi(port); err != nil || opts.Port < 0 || opts.Port > 65535 {
		return nil, fmt.Errorf("listen address %q: bad port", cfg.Listen)
	}
	if opts.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	if cfg.User != "" {
		opts.Username, opts.Password = cfg.User, cfg.Password
	}
	return opts, nil
}

// lockDir holds the folder for this process: the server itself would start a
// second time on a live folder and damage it.
func lockDir(dir string) (*flock.Flock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	name := filepath.Join(dir, "lock")
	lock := flock.New(name)
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	if !ok {
		return nil, fmt.Errorf("%w: %s is locked: end the other process, or choose another folder", ErrInUse, dir)
	}
	return lock, nil
}

func (s *Server) unlock() error { return s.lock.Unlock() }

// InProcessConn connects without a socket; it makes a Server fit for
// bus.Config.Server.
func (s *Server) InProcessConn() (net.Conn, error) { return s.srv.InProcessConn() }

// Credentials are what clients in this process log in with too.
func (s *Server) Credentials() (user, password string) { return s.cfg.User, s.cfg.Password }

// ClientURL is where clients of other processes connect, with the user and
// password in it; empty when the server does not listen.
func (s *Server) ClientURL() string {
	if s.cfg.Listen == "" {
		return ""
	}
	u := url.URL{Scheme: "nats", Host: s.Addr()}
	if s.cfg.User != "" {
		u.User = url.UserPassword(s.cfg.User, s.cfg.Password)
	}
	return u.String()
}

// Addr is the address that the server listens at, or empty.
func (s *Server) Addr() string {
	if a, ok := s.srv.Addr().(*net.TCPAddr); ok && s.cfg.Listen != "" {
		if a.IP.IsUnspecified() {
			return net.JoinHostPort("127.0.0.1", strconv.Itoa(a.Port))
		}
		return a.String()
	}
	return ""
}

// Run waits until ctx ends and then closes the server. Clients in this process
// are drained before: they come first in the order of ending.
func (s *Server) Run(ctx context.Context) error {
	<-ctx.Done()
	return s.Close()
}

// Close ends the server, waits until its files are closed, and frees the
// folder. It may be called more than once.
func (s *Server) Close() error {
	// Not LameDuckShutdown: without a listener it does nothing and never ends.
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
	return s.unlock()
}
