package merger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/siltstone-data/siltstone/objstore"
)

// prefetchBytes is what chunks may hold in memory that were read ahead. A
// larger one than its share is read when its turn comes.
const prefetchBytes = 32 << 20

// fetcher opens sources in their order. Batches of many small chunks are bound
// by the time that one request takes, so it reads ahead, as many at once as it
// may; with one at a time it starts no goroutine.
type fetcher struct {
	store   objstore.Store
	sources []source
	ahead   int
}

// each hands the body of every source to fn, in order.
func (f fetcher) each(ctx context.Context, fn func(index int, body io.Reader) error) error {
	if f.ahead < 2 {
		for i := range f.sources {
			if err := f.direct(ctx, i, fn); err != nil {
				return err
			}
		}
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	queue := make(chan chan fetched, f.ahead)
	wg.Go(func() {
		defer close(queue)
		for i, s := range f.sources {
			result := make(chan fetched, 1)
			select {
			case queue <- result:
			case <-ctx.Done():
				return
			}
			if s.size > prefetchBytes/int64(f.ahead) {
				result <- fetched{direct: true}
				continue
			}
			wg.Go(func() { result <- f.fetch(ctx, i) })
		}
	})
	for i := range f.sources {
		result, ok := <-queue
		if !ok {
			return ctx.Err()
		}
		got := <-result
		var err error
		switch {
		case got.err != nil:
			err = got.err
		case got.direct:
			err = f.direct(ctx, i, fn)
		default:
			err = fn(i, bytes.NewReader(got.body))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fetched is a source that was read ahead.
type fetched struct {
	body   []byte
	direct bool // too large for that
	err    error
}

func (f fetcher) fetch(ctx context.Context, i int) fetched {
	body, err := f.open(ctx, i)
	if err != nil {
		return fetched{err: err}
	}
	defer body.Close()
	buf := bytes.NewBuffer(make([]byte, 0, f.sources[i].size+bytes.MinRead))
	if _, err := buf.ReadFrom(body); err != nil {
		return fetched{err: fmt.Errorf("read %s: %w", f.sources[i].key, err)}
	}
	return fetched{body: buf.Bytes()}
}

func (f fetcher) direct(ctx context.Context, i int, fn func(int, io.Reader) error) error {
	body, err := f.open(ctx, i)
	if err != nil {
		return err
	}
	defer body.Close()
	return fn(i, body)
}

// open opens the version of a source that was listed. Where that is gone
// another merger has absorbed it, or an older tool has written it again.
func (f fetcher) open(ctx context.Context, i int) (io.ReadCloser, error) {
	s := f.sources[i]
	body, info, err := f.store.Get(ctx, s.key, s.span())
	switch {
	case errors.Is(err, objstore.ErrNotFound), errors.Is(err, objstore.ErrChanged):
		return nil, again("read %s: %w", s.key, err)
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", s.key, err)
	case info.Size != s.size:
		_ = body.Close()
		return nil, again("read %s: it has %d bytes, the listing said %d", s.key, info.Size, s.size)
	}
	return body, nil
}
