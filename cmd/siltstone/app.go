package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/s3"
	"github.com/siltstone-data/siltstone/producers"
	"github.com/siltstone-data/siltstone/query"
)

// app is what commands run with: settings, streams, the store and the bus.
type app struct {
	settings
	dir            string // absolute folder of `siltstone up`
	workDir        string // absolute folder for spill files
	json           bool
	stdin          io.Reader
	stdout, stderr io.Writer
	log            *slog.Logger
	registry       *prometheus.Registry
	oneShot        bool           // reads once, and gives a store up soon that never answers
	store          objstore.Store // nil for commands without one
	client         *s3.Store      // what store talks through
	sql            *query.SQL     // runs expressions; nil: with the bounds that it has by itself

	bus *bus.Bus // opened by connect
}

// storeless are the commands that run without a configured store.
var storeless = map[string]bool{"up": true, "version": true, "viewer": true /* of bench */}

// oneShot are the commands that only read, with somebody waiting. Writers and
// services ride out a restart of the store.
var oneShot = map[string]bool{"ls": true, "describe": true, "export": true, "verify": true, "doctor": true}

// connectWithin is how long such a command tries a store that never answers.
const connectWithin = 3 * time.Second

func newApp(c cli, command string, stdin io.Reader, stdout, stderr io.Writer) (*app, error) {
	dir, err := absolute(c.Dir)
	if err != nil {
		return nil, err
	}
	from, err := sources(dir)
	if err != nil {
		return nil, err
	}
	set, err := loadSettings(from, command)
	if err != nil {
		return nil, err
	}
	tmp, err := absolute(os.TempDir())
	if err != nil {
		return nil, err
	}
	a := &app{
		settings: set, dir: dir, workDir: tmp, json: c.JSON,
		stdin: stdin, stdout: stdout, stderr: stderr,
		log:      newLogger(set, stderr),
		registry: prometheus.NewRegistry(),
		oneShot:  oneShot[command],
	}
	if a.sql, err = query.NewSQL(query.SQLConfig{MemoryBytes: set.duckMemory}); err != nil {
		return nil, err
	}
	if storeless[command] {
		return a, nil
	}
	if set.Bucket == "" {
		return nil, fmt.Errorf("no store: start one with `siltstone up` (looked for %s/env), or set S3_BUCKET and the AWS settings", dir)
	}
	return a, a.openStore(context.Background())
}

func newLogger(s settings, w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: s.logLevel}
	if s.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// openStore makes the client of the configured store; it sends nothing yet.
func (a *app) openStore(ctx context.Context) error {
	var retry s3.Retry
	if a.oneShot {
		retry.Connect = connectWithin
	}
	client, err := s3.Open(ctx, s3.Config{
		Bucket: a.Bucket, Endpoint: a.Endpoint, Region: a.Region,
		AccessKey: a.AccessKey, SecretKey: a.SecretKey, SessionToken: a.SessionToken, Retry: retry,
	}, a.log, a.registry)
	if err != nil {
		return err
	}
	a.client = client
	a.store = objstore.WithPrefix(client, a.Prefix)
	return nil
}

// connect joins the bus; it is an error where no NATS is configured.
func (a *app) connect(ctx context.Context) (*bus.Bus, error) {
	if a.bus != nil {
		return a.bus, nil
	}
	if a.NATSURL == "" {
		return nil, errors.New("no NATS server: start one with `siltstone up`, or set NATS_URL")
	}
	b, err := bus.Connect(ctx, bus.Config{URL: a.NATSURL, Creds: a.NATSCreds, Scope: bus.Scope(a.Bucket, a.Prefix)}, a.log, a.registry)
	if err != nil {
		return nil, err
	}
	a.bus = b
	return b, nil
}

// announcer gives writers the bus, or nothing and one warning: a chunk that
// nobody announces is found by the store's notification or the reconciler.
func (a *app) announcer(ctx context.Context) producers.Announcer {
	b, err := a.connect(ctx)
	if err != nil {
		a.log.Warn("writing without announcing; the store's notifications or the reconciler will find the rows", "err", err)
		return nil
	}
	return b
}

func (a *app) close() {
	if a.client != nil {
		a.client.Close()
	}
	if a.bus != nil {
		a.bus.Close()
		a.bus = nil
	}
}

// printJSON writes one machine-readable result to stdout.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
