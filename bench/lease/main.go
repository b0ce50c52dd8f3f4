// Command lease measures what it takes to have a lease and to give it back, in
// the store itself and through lockd. Store, lockd and clients are in this
// process; the store is the embedded one, and all talk over TCP. It prints a
// table of bench/README.md.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/siltstone-data/siltstone/lockd"
	"github.com/siltstone-data/siltstone/objstore/embedded"
	"github.com/siltstone-data/siltstone/objstore/s3"
)

var (
	period  = flag.Duration("time", 10*time.Second, "how long each way is measured")
	clients = flag.Int("clients", 16, "how many ask at once")
)

const secret = "benchmark"

var quiet = slog.New(slog.DiscardHandler)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	flag.Parse()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "lease:", err)
		os.Exit(1)
	}
}

// taker takes leases, in the store itself or through lockd.
type taker interface {
	Acquire(ctx context.Context, name, owner string, ttl, wait time.Duration, meta json.RawMessage) (*lockd.Lease, error)
}

func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "lease")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err := embedded.Open(ctx, embedded.Config{Dir: dir, Bucket: "bench", AccessKey: secret, SecretKey: secret}, quiet)
	if err != nil {
		return err
	}
	serveCtx, stop := context.WithCancel(ctx)
	var g errgroup.Group
	g.Go(func() error { return server.Run(serveCtx) })
	defer func() { stop(); err = cmp.Or(err, g.Wait()) }()
	store, err := s3.Open(ctx, s3.Config{Bucket: "bench", Endpoint: server.Endpoint(), Region: "us-east-1", AccessKey: secret, SecretKey: secret}, quiet, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	direct := lockd.New(store, lockd.Config{})
	if err := direct.SelfTest(ctx); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	behind := lockd.NewServer(lockd.New(store, lockd.Config{Trusted: true}), nil, lockd.ServerConfig{Token: secret}, quiet)
	g.Go(func() error { return behind.Run(serveCtx, l) })
	client, err := lockd.NewClient(lockd.ClientConfig{URL: "http://" + l.Addr().String(), Token: secret})
	if err != nil {
		return err
	}
	defer client.Close()

	fmt.Println("| what | leases a second | p50 ms | p95 ms | p99 ms |\n|---|---|---|---|---|")
	for _, w := range []struct {
		what string
		n    int
		name func(i int) string
	}{
		{"one client", 1, func(int) string { return "_locks/alone" }},
		{fmt.Sprintf("%d clients, each with a name of its own", *clients), *clients, func(i int) string { return fmt.Sprintf("_locks/own-%d", i) }},
		{fmt.Sprintf("%d clients that wait for one name", *clients), *clients, func(int) string { return "_locks/one" }},
	} {
		for _, by := range []struct {
			name  string
			taker taker
		}{{"in the store itself", direct}, {"through lockd", client}} {
			took, err := measure(ctx, by.taker, w.n, w.name)
			if err != nil {
				return err
			}
			fmt.Printf("| %s, %s | %.0f | %.2f | %.2f | %.2f |\n", w.what, by.name,
				float64(len(took))/period.Seconds(), part(took, 0.50), part(took, 0.95), part(took, 0.99))
		}
	}
	return nil
}

// measure lets n clients take a lease and give it back, over and over, and gives
// how long each time took, in order.
func measure(ctx context.Context, t taker, n int, name func(i int) string) ([]time.Duration, error) {
	end := time.Now().Add(*period)
	var mu sync.Mutex
	var all []time.Duration
	g, ctx := errgroup.WithContext(ctx)
	for i := range n {
		g.Go(func() error {
			var took []time.Duration
			for time.Now().Before(end) {
				began := time.Now()
				lease, err := t.Acquire(ctx, name(i), "bench", time.Minute, time.Minute, nil)
				if err != nil {
					return err
				}
				if err := lease.Release(ctx); err != nil {
					return err
				}
				took = append(took, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			return nil
		})
	}
	err := g.Wait()
	slices.Sort(all)
	return all, err
}

// part is what the given part of all is no more than, in ms.
func part(sorted []time.Duration, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[int(p*float64(len(sorted)-1))].Microseconds()) / 1000
}
