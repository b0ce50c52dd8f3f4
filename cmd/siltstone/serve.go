package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
)

type serveCmd struct {
	Role   string `arg:"" enum:"merger,consumers,viewer" help:"merger, consumers or viewer."`
	Listen string `help:"Address of the viewer, and of /healthz, /readyz and /metrics of any role." default:"127.0.0.1:8080"`
	viewerFlags
}

// Help shows an example.
func (serveCmd) Help() string {
	return `Any number of each role may run, on any machines; they share work through NATS.

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
	fmt.Fprintf(a.stderr, "%s is up at %s, metrics at %s/metrics\n", c.Role, door.url(), door.url())
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
