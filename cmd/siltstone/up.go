package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/joho/godotenv"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/siltstone-data/siltstone/nats/bus"
	natsd "github.com/siltstone-data/siltstone/nats/embedded"
	"github.com/siltstone-data/siltstone/objstore/embedded"
	viewerapi "github.com/siltstone-data/siltstone/viewer-api"
)

type upCmd struct {
	Listen string `help:"Address of the viewer, and of /healthz, /readyz and /metrics." default:"127.0.0.1:8080"`
	Demo   bool   `help:"Load a small real dataset: the Jargon File."`
	viewerFlags
}

// notifyFunc passes a notification of the store on.
type notifyFunc = func(ctx context.Context, payload []byte) error

// notifyVia stands between the store and the bus, so that tests can lose,
// double and disorder notifications.
var notifyVia = func(n notifyFunc) notifyFunc { return n }

// Help shows an example.
func (upCmd) Help() string {
	return `Everything lives under --dir and survives kill -9; start again on the same folder.

Example:
  siltstone up --demo`
}

// Run starts the servers first, then the roles on top of them, and stops in the
// opposite order.
func (c *upCmd) Run(ctx context.Context, a *app) error {
	cfg, err := c.config(a)
	if err != nil {
		return err
	}
	a.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	door, err := listenOps(c.Listen, a.registry)
	if err != nil {
		return err
	}
	defer door.listener.Close()
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	local, err := openLocal(a.dir)
	if err != nil {
		return err
	}

	nats, err := natsd.Open(ctx, natsd.Config{
		Dir: filepath.Join(a.dir, "nats"), Listen: local.natsAddr, User: "siltstone", Password: local.secret,
	}, a.log)
	if err != nil {
		return err
	}
	defer nats.Close()
	a.Bucket, a.Prefix = local.bucket, ""
	a.bus, err = bus.Connect(ctx, bus.Config{Server: nats, Scope: bus.Scope(a.Bucket, a.Prefix)}, a.log, a.registry)
	if err != nil {
		return err
	}
	defer a.close() // before its server
	if _, err := a.bus.Topology(ctx, true); err != nil {
		return err
	}

	store, err := embedded.Open(ctx, embedded.Config{
		Dir: filepath.Join(a.dir, "s3"), Listen: local.s3Addr, Bucket: local.bucket,
		AccessKey: local.accessKey, SecretKey: local.secret, Notify: notifyVia(a.bus.Notify),
	}, a.log)
	if err != nil {
		return err
	}
	// The store outlives the roles: they still write while they stop.
	storeCtx, stopStore := context.WithCancel(context.WithoutCancel(ctx))
	stored := make(chan error, 1)
	go func() { stored <- store.Run(storeCtx) }()
	defer func() { stopStore(); <-stored }()

	a.Endpoint, a.Region, a.AccessKey, a.SecretKey = store.Endpoint(), "us-east-1", local.accessKey, local.secret
	if err := a.openStore(ctx); err != nil {
		return err
	}
	defer a.client.Close() // a server waits for connections to end
	leaseDoor, err := listenOps(local.lockdAddr, a.registry)
	if err != nil {
		return err
	}
	defer leaseDoor.listener.Close()
	lessor, err := newLessor(ctx, a, leaseDoor, local.lockdToken)
	if err != nil {
		return err
	}
	a.LockdURL, a.LockdToken = leaseDoor.url(), local.lockdToken
	local.natsURL, local.endpoint, local.lockdURL = nats.ClientURL(), store.Endpoint(), leaseDoor.url()
	if err := local.save(); err != nil {
		return err
	}
	a.workDir = filepath.Join(a.dir, "work")
	if err := freshWorkDir(a.workDir); err != nil {
		return err
	}

	if a.cacheDir == "" {
		a.cacheDir = filepath.Join(a.dir, "cache")
	}

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return lessor.Run(ctx) })
	g.Go(func() error { return runViewer(ctx, a, door, cfg) })
	g.Go(func() error { return runConsumers(ctx, a) })
	g.Go(func() error { return runMerger(ctx, a) })
	c.greet(a, door, cfg, local)
	if c.Demo {
		g.Go(func() error {
			if err := loadDemo(ctx, a); err != nil {
				return err
			}
			return annotateDemo(ctx, a)
		})
	}
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	fmt.Fprintln(a.stderr, "stopped; everything stored is in", a.dir)
	return nil
}

func (c *upCmd) greet(a *app, door *ops, cfg viewerapi.Config, l *local) {
	fmt.Fprintf(a.stderr, `siltstone is up in %s

  viewer    %s
  S3        %s   bucket %s
  NATS      %s
  lockd     %s
  metrics   %s/metrics
  keys      in %s, which other commands read

Try, in another shell:
  echo '{"text":"hello"}' | siltstone --dir %s put greetings --batch first
  siltstone --dir %s export greetings --live

`, a.dir, door.url()+cfg.BasePath+"/", l.endpoint, l.bucket, redact(l.natsURL), l.lockdURL, door.url(), filepath.Join(a.dir, "env"), a.dir, a.dir)
}

func redact(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	return u.Redacted()
}

// local is what `siltstone up` keeps in DIR/env between starts: the same
// addresses and keys, so that writers that were connected before find it again.
type local struct {
	path              string
	bucket            string
	accessKey, secret string
	lockdToken        string

	s3Addr, natsAddr, lockdAddr string // host:port to listen on
	endpoint, natsURL, lockdURL string
}

func openLocal(dir string) (*local, error) {
	l := &local{path: filepath.Join(dir, "env"), bucket: "siltstone", accessKey: "siltstone", s3Addr: anyPort, natsAddr: anyPort, lockdAddr: anyPort}
	env, err := godotenv.Read(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.secret, l.lockdToken = newSecret(), newSecret()
		return l, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", l.path, err)
	}
	l.secret = env["AWS_SECRET_ACCESS_KEY"]
	l.lockdToken = cmp.Or(env["LOCKD_TOKEN"], newSecret())
	l.s3Addr, l.natsAddr = freeOr(hostOf(env["AWS_ENDPOINT_URL"])), freeOr(hostOf(env["NATS_URL"]))
	l.lockdAddr = freeOr(hostOf(env["LOCKD_URL"]))
	if l.secret == "" {
		return nil, fmt.Errorf("%s holds no AWS_SECRET_ACCESS_KEY; remove the file and start again for new keys", l.path)
	}
	return l, nil
}

func newSecret() string {
	var key [20]byte
	_, _ = rand.Read(key[:]) // never fails
	return hex.EncodeToString(key[:])
}

const anyPort = "127.0.0.1:0"

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return anyPort
	}
	return u.Host
}

// freeOr gives addr if it can be listened on, and any free port otherwise.
func freeOr(addr string) string {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return anyPort
	}
	l.Close()
	return addr
}

// save writes DIR/env whole or not at all.
func (l *local) save() error {
	lines := []string{
		"# written by siltstone up; other siltstone commands read it",
		"S3_BUCKET=" + l.bucket,
		"AWS_ENDPOINT_URL=" + l.endpoint,
		"AWS_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=" + l.accessKey,
		"AWS_SECRET_ACCESS_KEY=" + l.secret,
		"NATS_URL=" + l.natsURL,
		"LOCKD_URL=" + l.lockdURL,
		"LOCKD_TOKEN=" + l.lockdToken,
	}
	tmp := l.path + ".tmp"
	if err := os.WriteFile(tmp, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", l.path, err)
	}
	if err := os.Rename(tmp, l.path); err != nil {
		return fmt.Errorf("write %s: %w", l.path, err)
	}
	return nil
}

// freshWorkDir empties the folder for spill files: what lies there was left by
// a process that died.
func freshWorkDir(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("empty work folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make work folder: %w", err)
	}
	return nil
}
