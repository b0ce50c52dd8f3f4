package query

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// engineMetrics count what an Engine was asked.
type engineMetrics struct {
	pages     prometheus.Histogram
	bytesRead prometheus.Counter
}

// newEngineMetrics makes the metrics and registers them, unless reg is nil.
// Engines that share a registry share them.
func newEngineMetrics(reg prometheus.Registerer) *engineMetrics {
	return &engineMetrics{
		pages: register(reg, prometheus.NewHistogram(prometheus.HistogramOpts{Name: "siltstone_query_page_seconds", Help: "Time to answer a page.",
			Buckets: []float64{.001, .002, .004, .008, .016, .032, .064, .125, .25, .5, 1, 2, 4, 8, 16}})),
		bytesRead: register(reg, prometheus.NewCounter(prometheus.CounterOpts{Name: "siltstone_query_read_bytes_total",
			Help: "Bytes that questions read from the store."})),
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
