package cache

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts what caches do. The label says which cache: "disk", or the name
// of a Memory.
type Metrics struct {
	Hits      *prometheus.CounterVec
	Misses    *prometheus.CounterVec
	Evictions *prometheus.CounterVec
	Failures  *prometheus.CounterVec // torn entries found, and entries that could not be kept
	Bytes     *prometheus.GaugeVec   // that are kept now
}

// NewMetrics makes the metrics and registers them, unless reg is nil. Caches that
// share a registry share them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string) *prometheus.CounterVec {
		return register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "siltstone_cache_" + name, Help: help}, []string{"cache"}))
	}
	return &Metrics{
		Hits:      counter("hits_total", "Things found in a cache."),
		Misses:    counter("misses_total", "Things that had to be loaded."),
		Evictions: counter("evictions_total", "Things given up to make room."),
		Failures:  counter("failures_total", "Entries found torn or that could not be kept."),
		Bytes: register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "siltstone_cache_bytes",
			Help: "Bytes that a cache keeps."}, []string{"cache"})),
	}
}

func register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	err := reg.Register(c)
	var already prometheus.AlreadyRegisteredError
	switch {
	case err == nil:
		return c
	case errors.As(err, &already):
		return already.ExistingCollector.(C)
	}
	panic(err) // another metric has taken the name: a programmer's mistake
}

// counts are the metrics of one cache.
type counts struct {
	hits, misses, evictions, failures prometheus.Counter
	bytes                             prometheus.Gauge
}

func (m *Metrics) of(name string) counts {
	if m == nil {
		m = NewMetrics(nil)
	}
	return counts{m.Hits.WithLabelValues(name), m.Misses.WithLabelValues(name), m.Evictions.WithLabelValues(name),
		m.Failures.WithLabelValues(name), m.Bytes.WithLabelValues(name)}
}
