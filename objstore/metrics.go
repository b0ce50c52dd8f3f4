package objstore

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/prometheus/client_golang/prometheus"
)

// Verbs, as the label of the request counter spells them.
const (
	VerbGet    = "get"
	VerbHead   = "head"
	VerbPut    = "put"
	VerbPart   = "part" // each request of a multipart upload
	VerbList   = "list" // each page
	VerbDelete = "delete"
)

// Metrics counts what is asked of a store.
type Metrics struct {
	// Requests counts requests by verb: what a store is paid for. A list counts
	// once for each page.
	Requests *prometheus.CounterVec
}

// NewMetrics makes the counters and registers them, unless reg is nil. Stores
// that share a registry share the counters.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{Requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "siltstone_store_requests_total",
		Help: "Requests to the object store by verb; each page of a list is one.",
	}, []string{"verb"})}
	if reg == nil {
		return m
	}
	if err := reg.Register(m.Requests); err != nil {
		var already prometheus.AlreadyRegisteredError
		if !errors.As(err, &already) {
			panic(err) // another metric has taken the name: a programmer's mistake
		}
		m.Requests = already.ExistingCollector.(*prometheus.CounterVec)
	}
	for _, verb := range []string{VerbGet, VerbHead, VerbPut, VerbPart, VerbList, VerbDelete} {
		m.Requests.WithLabelValues(verb) // shown as 0 before the first request
	}
	return m
}

// Counted counts the calls of a store that does not count its requests itself.
// It sees calls, not what they cost: a list is taken to have pages of 1000.
func Counted(s Store, m *Metrics) Store { return &counted{store: s, m: m} }

const countedPage = 1000

type counted struct {
	store Store
	m     *Metrics
}

func (c *counted) count(verb string) { c.m.Requests.WithLabelValues(verb).Inc() }

func (c *counted) Get(ctx context.Context, key string, s Span) (io.ReadCloser, Info, error) {
	c.count(VerbGet)
	return c.store.Get(ctx, key, s)
}

func (c *counted) Put(ctx context.Context, key string, body []byte, cond Condition) (Info, error) {
	c.count(VerbPut)
	return c.store.Put(ctx, key, body, cond)
}

func (c *counted) Upload(ctx context.Context, key string, r io.ReadSeeker, size int64, cond Condition) (Info, error) {
	c.count(VerbPut)
	return c.store.Upload(ctx, key, r, size, cond)
}

func (c *counted) List(ctx context.Context, prefix, after string) iter.Seq2[Info, error] {
	return countPages(c, c.store.List(ctx, prefix, after))
}

func (c *counted) Dirs(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return countPages(c, c.store.Dirs(ctx, prefix))
}

func countPages[T any](c *counted, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		c.count(VerbList)
		n := 0
		for v, err := range seq {
			if n++; n > 1 && n%countedPage == 1 {
				c.count(VerbList)
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

func (c *counted) Delete(ctx context.Context, key string) error {
	c.count(VerbDelete)
	return c.store.Delete(ctx, key)
}
