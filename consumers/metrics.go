package consumers

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// register registers a collector, or gives the one that an earlier instance in
// this process registered under the same name.
func register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	var already prometheus.AlreadyRegisteredError
	switch err := reg.Register(c); {
	case err == nil:
		return c
	case errors.As(err, &already):
		return already.ExistingCollector.(C)
	default:
		panic(err) // another metric has taken the name: a programmer's mistake
	}
}

// counters makes a counter with one label and shows its values as 0 before the
// first count.
func counters(reg prometheus.Registerer, name, help, label string, values ...string) *prometheus.CounterVec {
	c := register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label}))
	for _, v := range values {
		c.WithLabelValues(v)
	}
	return c
}

func counter(reg prometheus.Registerer, name, help string) prometheus.Counter {
	return register(reg, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}
