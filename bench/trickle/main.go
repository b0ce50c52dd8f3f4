// Command trickle measures what many small merges into a large batch cost: how
// many bytes of blocks are written for each new one, what digests, commit records
// and history come to, the requests to the store by verb, and whether the last
// merges take longer than the first: by the clock, and in processor time of the
// merger and the store together. It runs the merger over the embedded store,
// through S3, in an empty folder, and prints the table of bench/README.md.
//
// Its clock goes on by -pace from one merge to the next, and once a minute of that
// clock the batch is swept, as a service does: replaced files are garbage for
// ten minutes and then gone, and history has its hundred records.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/embedded"
	"github.com/siltstone-data/siltstone/objstore/s3"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var b bench
	flag.IntVar(&b.base, "rows", 1_000_000, "rows of the batch before")
	flag.IntVar(&b.merges, "merges", 1000, "merges of a run; of a spread one a fiftieth")
	flag.IntVar(&b.writers, "writers", 4, "writers, one chunk each for a merge")
	flag.IntVar(&b.each, "each", 25, "rows of a chunk")
	flag.DurationVar(&b.pace, "pace", 2*time.Second, "what the clock goes on from one merge to the next")
	only := flag.String("run", "", "the one run to make: a part of its name")
	dir := flag.String("dir", "", "folder to work in; a temporary one when empty")
	flag.Parse()
	if err := run(ctx, b, *dir, *only); err != nil {
		fmt.Fprintln(os.Stderr, "trickle:", err)
		os.Exit(1)
	}
}

// bench is one measurement.
type bench struct {
	base, merges, writers, each int
	pace                        time.Duration

	now      time.Time
	swept    time.Time
	store    objstore.Store
	engine   *merger.Engine
	registry *prometheus.Registry
}

func run(ctx context.Context, b bench, dir, only string) error {
	dir, err := os.MkdirTemp(dir, "trickle")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	server, err := embedded.Open(ctx, embedded.Config{Dir: filepath.Join(dir, "store"), Bucket: "trickle", AccessKey: "trickle", SecretKey: "trickle-secret"},
		slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer server.Close()
	b.registry = prometheus.NewRegistry()
	if b.store, err = s3.Open(ctx, s3.Config{Bucket: "trickle", Endpoint: server.Endpoint(), AccessKey: "trickle", SecretKey: "trickle-secret"}, nil, b.registry); err != nil {
		return err
	}
	b.now = time.Now()
	b.swept = b.now
	if b.engine, err = merger.New(b.store, nil, merger.Config{WorkDir: work, Now: func() time.Time { return b.now }}, nil, nil); err != nil {
		return err
	}
	heading()
	for _, r := range runs(b) {
		if !strings.Contains(r.name, only) {
			continue
		}
		if err := b.measure(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}
