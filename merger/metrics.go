package merger

import "github.com/prometheus/client_golang/prometheus"

// Metrics of an Engine.
type Metrics struct {
	Merges   *prometheus.CounterVec // by outcome: committed, idle, deleted, failed
	Attempts *prometheus.CounterVec // that started again, by cause: lost, changed
	Rows     *prometheus.CounterVec // by fate: added, duplicate, rejected, conflict, rewritten
	Bytes    *prometheus.CounterVec // by direction: chunks_read, blocks_read, blocks_written, digests_written
	Deletes  *prometheus.CounterVec // of absorbed chunks, by outcome: done, failed
	Seconds  prometheus.Histogram   // of merges that committed
}

// NewMetrics makes the metrics and registers them where reg is not nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "siltstone", Subsystem: "merger", Name: name, Help: help}, []string{label})
	}
	m := &Metrics{
		Merges:   counter("merges_total", "Merges by outcome.", "outcome"),
		Attempts: counter("attempts_again_total", "Attempts that started again, by cause.", "cause"),
		Rows:     counter("rows_total", "Rows of committed merges by what became of them.", "fate"),
		Bytes:    counter("bytes_total", "Stored bytes read and written.", "direction"),
		Deletes:  counter("chunk_deletes_total", "Deletions of absorbed chunks by outcome.", "outcome"),
		Seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "siltstone", Subsystem: "merger", Name: "merge_seconds",
			Help: "Time from the listing to the commit.", Buckets: prometheus.ExponentialBuckets(0.01, 3, 12)}),
	}
	if reg != nil {
		reg.MustRegister(m.Merges, m.Attempts, m.Rows, m.Bytes, m.Deletes, m.Seconds)
	}
	return m
}
