package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
	"github.com/versity/versitygw/s3api"

	"github.com/siltstone-data/siltstone/objstore/s3"
)

// Errors that a caller may want to explain.
var (
	// ErrInUse: another process serves the folder.
	ErrInUse = errors.New("the folder is served by another process")
	// ErrOnePerProcess: this process serves a folder already.
	ErrOnePerProcess = errors.New("a process can serve one folder only")
	// ErrNoAttributes: the file system has no extended attributes.
	ErrNoAttributes = errors.New("the file system has no extended attributes (user.*), which are needed to keep ETags; choose a folder on ext4, xfs, btrfs or another that has them")
)

const lockFile = ".siltstone.lock"

// serving is true while a server is open: versitygw uses the process's working
// directory and globals of its own.
var serving atomic.Bool

// Server serves a folder. Requests are answered from Open until the context of
// Run ends, or Close.
type Server struct {
	cfg   Config
	addr  string
	files *files
	lock  *flock.Flock
	log   *slog.Logger
	cwd   string

	stop context.CancelFunc
	done chan struct{} // closed when the gateway has ended
	err  error         // why, set before done is closed
	end  func() error  // ends the server, once
}

// Open serves cfg.Dir and makes cfg.Bucket. ctx bounds the opening only.
func Open(ctx context.Context, cfg Config, log *slog.Logger) (_ *Server, err error) {
	cfg.defaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if !serving.CompareAndSwap(false, true) {
		return nil, fmt.Errorf("serve %s: %w", cfg.Dir, ErrOnePerProcess)
	}
	s := &Server{cfg: cfg, log: log}
	s.end = sync.OnceValue(s.shutDown)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.end())
		}
	}()
	if err := s.takeFolder(); err != nil {
		return nil, fmt.Errorf("serve %s: %w", cfg.Dir, err)
	}
	p, err := posix.New(cfg.Dir, meta.XattrMeta{}, posix.PosixOpts{
		CopyObjectThreshold: 5 << 30, // nothing can be copied without it
		ForceNoObjLockFile:  true,    // the folder as a whole is locked
		// Without a named temporary file an overwrite shows a second name in the
		// object's folder for a moment, and leaves it there after a crash.
		ForceNoTmpFile: true,
	})
	if err != nil {
		return nil, fmt.Errorf("serve %s: %w", cfg.Dir, err)
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.files = &files{
		Posix: p, root: cfg.Dir, region: cfg.Region, durable: newDurable(cfg.Dir),
		notify: cfg.Notify, base: life, log: log,
	}
	if err := s.listen(ctx, life); err != nil {
		return nil, fmt.Errorf("serve %s: %w", cfg.Dir, err)
	}
	if err := s.makeBucket(ctx); err != nil {
		return nil, err
	}
	log.Info("serving a folder as S3", "dir", cfg.Dir, "endpoint", s.Endpoint(), "bucket", cfg.Bucket)
	return s, nil
}

// takeFolder makes and locks the folder and looks whether it can be used.
func (s *Server) takeFolder() error {
	if err := os.MkdirAll(s.cfg.Dir, 0o755); err != nil {
		return err
	}
	dir, err := filepath.EvalSymlinks(s.cfg.Dir)
	if err != nil {
		return err
	}
	s.cfg.Dir = dir
	s.cwd, _ = os.Getwd() // to go back to, where there is one
	s.lock = flock.New(filepath.Join(dir, lockFile))
	switch locked, err := s.lock.TryLock(); {
	case err != nil:
		return fmt.Errorf("lock %s: %w", s.lock.Path(), err)
	case !locked:
		return fmt.Errorf("%w (it holds %s)", ErrInUse, s.lock.Path())
	}
	if err := (meta.XattrMeta{}).Test(dir); err != nil {
		return fmt.Errorf("%w: %w", ErrNoAttributes, err)
	}
	sweep(dir, time.Now(), s.log)
	// The folder's own name, and those above that MkdirAll may have made; a
	// folder that this process may not read was not made by it.
	for d := filepath.Dir(dir); d != filepath.Dir(d); d = filepath.Dir(d) {
		_ = syncPath(d)
	}
	return nil
}

// listen starts the gateway. It takes an address, not a listener, so a free port
// is found first; somebody else may take it meanwhile, and then another is tried.
func (s *Server) listen(ctx, life context.Context) error {
	_, port, _ := net.SplitHostPort(s.cfg.Listen)
	for try := 0; ; try++ {
		addr, err := freeAddress(s.cfg.Listen)
		if err != nil {
			return err
		}
		s.addr = addr
		ready := make(chan struct{})
		s.done = make(chan struct{})
		go func() {
			defer close(s.done)
			s.err = embedgw.RunVersityGW(life, s.files, s.gateway(addr, ready))
		}()
		select {
		case <-ready:
			return nil
		case <-ctx.Done():
			s.stop()
			<-s.done
			return context.Cause(ctx)
		case <-s.done:
			if !errors.Is(s.err, syscall.EADDRINUSE) || port != "0" || try == 5 {
				return fmt.Errorf("start the gateway on %s: %w", addr, s.err)
			}
		}
	}
}

func (s *Server) gateway(addr string, ready chan struct{}) *embedgw.Config {
	return &embedgw.Config{
		RootUserAccess: s.cfg.AccessKey, RootUserSecret: s.cfg.SecretKey, Region: s.cfg.Region,
		Ports:          []string{addr},
		MaxConnections: 4096, MaxRequests: 4096, MultipartMaxParts: 10_000,
		Quiet: true, KeepAlive: true,
		IAMService: auth.NewIAMServiceSingle(auth.Account{Access: s.cfg.AccessKey, Secret: s.cfg.SecretKey, Role: auth.RoleAdmin}),
		S3Options:  []s3api.Option{s3api.WithOnListen(func() { close(ready) })},
	}
}

// freeAddress replaces port 0 by a free one.
func freeAddress(listen string) (string, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return "", err
	}
	defer l.Close()
	host, _, _ := net.SplitHostPort(listen)
	_, port, err := net.SplitHostPort(l.Addr().String())
	return net.JoinHostPort(host, port), err
}

func (s *Server) makeBucket(ctx context.Context) error {
	c, err := s3.Open(ctx, s3.Config{
		Bucket: s.cfg.Bucket, Endpoint: s.Endpoint(), Region: s.cfg.Region,
		AccessKey: s.cfg.AccessKey, SecretKey: s.cfg.SecretKey,
	}, s.log, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.EnsureBucket(ctx); err != nil {
		return err
	}
	return errors.Join(syncPath(filepath.Join(s.cfg.Dir, s.cfg.Bucket)), syncPath(s.cfg.Dir))
}

// Endpoint is the URL of the server.
func (s *Server) Endpoint() string {
	host, port, _ := net.SplitHostPort(s.addr)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// Run serves until ctx ends, lets the requests under way end, and gives the
// folder back. Clients in the process should close their idle connections then:
// the end waits for them.
func (s *Server) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return s.end()
	case <-s.done:
		return errors.Join(fmt.Errorf("the S3 server stopped: %w", s.err), s.end())
	}
}

// Close ends the server at once; it is for who has not called Run.
func (s *Server) Close() error { return s.end() }

// stopTime is how long the gateway may take to end; it gives up on clients
// before that.
const stopTime = 15 * time.Second

func (s *Server) shutDown() error {
	var err error
	if s.done != nil {
		s.stop()
		select {
		case <-s.done:
		case <-time.After(stopTime):
			// Still serving: the folder must not be given to anybody.
			return fmt.Errorf("the S3 server did not stop within %s", stopTime)
		}
		err = s.files.durable.removals()
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	if s.cwd != "" {
		_ = os.Chdir(s.cwd) // it may be gone, and nothing depends on it
	}
	serving.Store(false)
	return err
}
