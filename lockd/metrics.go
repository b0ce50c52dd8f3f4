package lockd

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of Leases.
type Metrics struct {
	Acquires  *prometheus.CounterVec // by outcome: acquired, held, failed
	Renewals  *prometheus.CounterVec // by outcome: renewed, lost, failed
	Releases  *prometheus.CounterVec // by outcome: released, lost, failed
	Takeovers prometheus.Counter
	Forced    prometheus.Counter
	Waiting   prometheus.Gauge
	Seconds   prometheus.Histogram // of acquisitions that succeeded, waiting included
}

// NewMetrics makes the metrics and registers them where reg is not nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "siltstone", Subsystem: "lockd", Name: name, Help: help}, []string{"outcome"})
	}
	m := &Metrics{
		Acquires:  counter("acquires_total", "Requests for a lease by outcome."),
		Renewals:  counter("renewals_total", "Renewals by outcome."),
		Releases:  counter("releases_total", "Releases by outcome."),
		Takeovers: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "siltstone", Subsystem: "lockd", Name: "takeovers_total", Help: "Leases that ended without being released and were taken over."}),
		Forced:    prometheus.NewCounter(prometheus.CounterOpts{Namespace: "siltstone", Subsystem: "lockd", Name: "forced_total", Help: "Leases released by force."}),
		Waiting:   prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "siltstone", Subsystem: "lockd", Name: "waiting", Help: "Requests for a lease that are under way or wait."}),
		Seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "siltstone", Subsystem: "lockd", Name: "acquire_seconds",
			Help: "Time until a lease was acquired, waiting included.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 11)}),
	}
	if reg != nil {
		reg.MustRegister(m.Acquires, m.Renewals, m.Releases, m.Takeovers, m.Forced, m.Waiting, m.Seconds)
	}
	return m
}

func (m *Metrics) acquired(err error, took time.Duration) {
	switch {
	case err == nil:
		m.Acquires.WithLabelValues("acquired").Inc()
		m.Seconds.Observe(took.Seconds())
	case errors.Is(err, ErrHeld):
		m.Acquires.WithLabelValues("held").Inc()
	default:
		m.Acquires.WithLabelValues("failed").Inc()
	}
}

func (m *Metrics) renewed(err error)  { m.Renewals.WithLabelValues(fate(err, "renewed")).Inc() }
func (m *Metrics) released(err error) { m.Releases.WithLabelValues(fate(err, "released")).Inc() }

func fate(err error, well string) string {
	switch {
	case err == nil:
		return well
	case errors.Is(err, ErrLost):
		return "lost"
	}
	return "failed"
}
