package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
)

type serveCmd struct {
	Role   string `arg:"" enum:"merger,consumers,lockd,viewer" help:"merger, consumers, lockd or viewer."`
	Listen string `help:"Address of the viewer, and of /healthz, /readyz and /metrics of any role." default:"127.0.0.1:8080"`
	viewerFlags
}

// Help shows an example.
func (serveCmd) Help() string {
	return `Any number of each role may run, on any machines; they share work through NATS. lockd needs
only the store, and asks for LOCKD_TOKEN.

Example:
  NATS_URL=nats://nats:4222 S3_BUCKET=lake siltstone serve merger`
}

// Run serves one role until it is stopped.
func (c *serveCmd) Run(ctx context.Context, a *app) error {
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
	if c.Role == "lockd" {
		return c.lease(ctx, a, door)
	}
	b, err := a.connect(ctx)
	if err != nil {
		return err
	}
	if _, err := b.Topology(ctx, true); err != nil {
		return exit(exitRefused, err)
	}
	g, ctx := errgroup.WithContext(ctx)
	switch c.Role {
	case "viewer":
		g.Go(func() error { return runViewer(ctx, a, door, cfg) })
	case "consumers":
		g.Go(func() error { return door.Run(ctx) })
		g.Go(func() error { return runConsumers(ctx, a) })
	default:
		g.Go(func() error { return door.Run(ctx) })
		g.Go(func() error { return runMerger(ctx, a) })
	}
	c.greet(a, door)
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// lease serves leases, which takes no NATS.
func (c *serveCmd) lease(ctx context.Context, a *app, door *ops) error {
	l, err := newLessor(ctx, a, door, a.serveToken)
	if err != nil {
		return err
	}
	c.greet(a, door)
	return l.Run(ctx)
}

func (c *serveCmd) greet(a *app, door *ops) {
	fmt.Fprintf(a.stderr, "%s is up at %s, metrics at %s/metrics\n", c.Role, door.url(), door.url())
}
