package viewerapi

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	requests *prometheus.HistogramVec // seconds, by route and status
	clients  prometheus.Gauge
	sent     prometheus.Counter
	cut      *prometheus.CounterVec
	resets   prometheus.Counter
	replays  *prometheus.CounterVec
	latency  prometheus.Histogram
}

// Why a client was cut off.
const (
	cutBehind  = "behind"  // too many events waited for it
	cutStalled = "stalled" // it took nothing for the time of a write deadline
)

// Where the events come from that a client missed.
const (
	replayMemory = "memory"
	replayStream = "stream"
)

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "siltstone_viewer_request_seconds",
			Help: "Time to the answer, by route and status; streams count until their first byte.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 15)}, []string{"route", "status"}),
		clients: prometheus.NewGauge(prometheus.GaugeOpts{Name: "siltstone_viewer_event_clients", Help: "Clients that listen to events now."}),
		sent:    prometheus.NewCounter(prometheus.CounterOpts{Name: "siltstone_viewer_events_sent_total", Help: "Events written to clients."}),
		cut: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "siltstone_viewer_event_clients_cut_total",
			Help: "Clients cut off because they did not keep up."}, []string{"why"}),
		resets: prometheus.NewCounter(prometheus.CounterOpts{Name: "siltstone_viewer_event_resets_total", Help: "Clients told to read the state anew."}),
		replays: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "siltstone_viewer_event_replays_total",
			Help: "Clients that came back and got what they missed."}, []string{"from"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "siltstone_viewer_event_seconds",
			Help: "From an event's arrival in this process to its writing to a client.", Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16)}),
	}
	for _, why := range []string{cutBehind, cutStalled} {
		m.cut.WithLabelValues(why)
	}
	for _, from := range []string{replayMemory, replayStream} {
		m.replays.WithLabelValues(from)
	}
	if reg != nil {
		reg.MustRegister(m.requests, m.clients, m.sent, m.cut, m.resets, m.replays, m.latency)
	}
	return m
}
