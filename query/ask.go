package query

import (
	"context"
	"io"
	"sync/atomic"

	"github.com/siltstone-data/siltstone/objstore"
)

// ask is one question to an Engine while it is answered.
type ask struct {
	e     *Engine
	ctx   context.Context // an ask lives within the call that has it
	store objstore.Store  // the engine's, metered
	read  atomic.Int64    // bytes that came from the store
}

func (e *Engine) ask(ctx context.Context) *ask {
	q := &ask{e: e, ctx: ctx}
	q.store = &metered{Store: e.store, read: &q.read}
	return q
}

// each calls fn for 0 to n-1, at most as many at once as the engine may ask.
func (q *ask) each(n int, fn func(ctx context.Context, i int) error) error {
	return each(q.ctx, q.e.parallel(), n, fn)
}

// eachChunk is each for live chunks: what their requests take is time, and next
// to nothing else.
func (q *ask) eachChunk(n int, fn func(ctx context.Context, i int) error) error {
	parallel := q.e.parallel()
	if parallel > 1 {
		parallel *= 4
	}
	return each(q.ctx, parallel, n, fn)
}

// metered counts the bytes that are read from a store.
type metered struct {
	objstore.Store
	read *atomic.Int64
}

// Get opens an object and counts what is read of it.
func (m *metered) Get(ctx context.Context, key string, s objstore.Span) (io.ReadCloser, objstore.Info, error) {
	body, info, err := m.Store.Get(ctx, key, s)
	if err != nil {
		return nil, info, err
	}
	return &meteredBody{body, m.read}, info, nil
}

type meteredBody struct {
	io.ReadCloser
	read *atomic.Int64
}

// Read reads and counts.
func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read.Add(int64(n))
	return n, err
}
