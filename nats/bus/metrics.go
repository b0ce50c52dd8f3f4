package bus

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	published   *prometheus.CounterVec   // by what, outcome
	handled     *prometheus.CounterVec   // by durable
	failed      *prometheus.CounterVec   // by durable
	dead        *prometheus.CounterVec   // by durable
	redelivered *prometheus.CounterVec   // by durable
	stuck       *prometheus.CounterVec   // by durable
	jobs        *prometheus.HistogramVec // by kind, outcome
	claimsLost  prometheus.Counter
	resets      *prometheus.CounterVec // by stream
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "siltstone", Subsystem: "bus", Name: name, Help: help}, labels))
	}
	return &metrics{
		published:   counter("published_total", "Messages published, by stream and outcome (stored, duplicate, error).", "stream", "outcome"),
		handled:     counter("handled_total", "Messages handled.", "durable"),
		failed:      counter("failed_total", "Handler runs that returned an error.", "durable"),
		dead:        counter("dead_letters_total", "Messages and jobs given up.", "durable"),
		redelivered: counter("redelivered_total", "Messages delivered more than once.", "durable"),
		stuck:       counter("stuck_total", "Times that a durable had messages waiting and got none.", "durable"),
		resets:      counter("follow_restarts_total", "Times that a follower opened its consumer anew.", "stream"),
		jobs: register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "siltstone", Subsystem: "bus", Name: "job_seconds", Help: "Duration of job runs, by outcome.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 10)}, []string{"kind", "outcome"})),
		claimsLost: register(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "siltstone", Subsystem: "bus", Name: "claims_lost_total", Help: "Claims on jobs that were lost while the job ran."})),
	}
}

// register adds c to reg, which may be nil; a second bus of one process shares
// the first one's.
func register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	var taken prometheus.AlreadyRegisteredError
	if err := reg.Register(c); errors.As(err, &taken) {
		if have, ok := taken.ExistingCollector.(C); ok {
			return have
		}
	}
	return c
}
