package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// ops is the operator's door of every role: /healthz, /readyz and /metrics.
type ops struct {
	listener net.Listener
	registry *prometheus.Registry
	ready    func(context.Context) error // nil means ready
	detail   func() string               // said by /readyz; may be nil
}

// listenOps takes the address before anything is started, so that a taken port
// stops the process with a clear message.
func listenOps(addr string, reg *prometheus.Registry) (*ops, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s (choose another with --listen): %w", addr, err)
	}
	return &ops{listener: l, registry: reg}, nil
}

// url is where the door is.
func (o *ops) url() string { return "http://" + o.listener.Addr().String() }

// Run serves until ctx ends.
func (o *ops) Run(ctx context.Context) error {
	srv := &http.Server{Handler: o.routes(), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() {
		end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = srv.Shutdown(end)
	})
	defer stop()
	if err := srv.Serve(o.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", o.url(), err)
	}
	return nil
}

func (o *ops) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if o.ready != nil {
			if err := o.ready(r.Context()); err != nil {
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusServiceUnavailable)
				_ = json.NewEncoder(w).Encode(map[string]any{"title": "not ready", "status": 503, "detail": err.Error()})
				return
			}
		}
		fmt.Fprintln(w, "ready")
		if o.detail != nil {
			fmt.Fprintln(w, o.detail())
		}
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.registry, promhttp.HandlerOpts{}))
	return mux
}
