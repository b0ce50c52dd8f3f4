package main

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/query"
	viewerapi "github.com/siltstone-data/siltstone/viewer-api"
)

// viewerFiles holds the built page in viewer/dist, where make has put one, and
// a page that says how to build it.
//
//go:embed all:viewer
var viewerFiles embed.FS

func viewerPage() (fs.FS, error) {
	if _, err := fs.Stat(viewerFiles, "viewer/dist/index.html"); err == nil {
		return fs.Sub(viewerFiles, "viewer/dist")
	}
	return fs.Sub(viewerFiles, "viewer")
}

// viewerFlags are the flags of the commands that serve the viewer.
type viewerFlags struct {
	BasePath     string   `help:"Path under which a proxy in front shows the viewer." default:"" placeholder:"/PATH"`
	TrustedProxy []string `help:"Address or network of a proxy whose forwarded headers are believed; may be repeated." placeholder:"NET"`
	AllowedHost  []string `help:"Further name under which browsers may ask a viewer that has no token and listens on this machine alone; may be repeated." placeholder:"NAME"`
}

// config reads the flags, before anything is started.
func (f viewerFlags) config(a *app) (viewerapi.Config, error) {
	proxies, err := viewerapi.ParseProxies(f.TrustedProxy)
	if err != nil {
		return viewerapi.Config{}, exit(exitUsage, err)
	}
	cfg := viewerapi.Config{Token: a.viewerToken, BasePath: strings.TrimRight(f.BasePath, "/"), TrustedProxies: proxies, AllowedHosts: f.AllowedHost, LogTimings: a.viewerLogTimings}
	if err := cfg.Validate(); err != nil {
		return cfg, exit(exitUsage, err)
	}
	return cfg, nil
}

// runViewer serves the viewer at the door, with the operator's routes beside
// it, until ctx ends.
func runViewer(ctx context.Context, a *app, door *ops, cfg viewerapi.Config) error {
	known := viewerapi.NewFollowed(a.bus.KV(bus.Catalog), a.bus, query.Listed(a.store), a.log)
	door.detail = func() string { return "catalog: " + known.State() }
	engine, err := query.NewEngine(a.store, known,
		query.EngineConfig{WorkDir: a.workDir, CacheDir: a.cacheDir, CacheBytes: a.cacheBytes}, a.log, a.registry)
	if err != nil {
		return fmt.Errorf("open the read path: %w", err)
	}
	defer engine.Close()
	page, err := viewerPage()
	if err != nil {
		return fmt.Errorf("open the page: %w", err)
	}
	leases, err := a.leases()
	if err != nil {
		return err
	}
	cfg.WorkDir, cfg.Leases = a.workDir, shownLeases{leases}
	server, err := viewerapi.New(engine, a.bus, page, door.routes(), cfg, a.log, a.registry)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return known.Run(ctx) })
	g.Go(func() error { return server.Run(ctx, door.listener) })
	return g.Wait()
}
