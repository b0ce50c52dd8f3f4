package merger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/objstore"
)

// prefetchBytes is what sources that were read ahead may hold in memory. A
// source larger than half of it is read when its turn comes, one at a time.
const prefetchBytes = 16 << 20

// fetcher opens sources. Batches of many small chunks are bound by the time
// that one request takes, so it reads ahead, as many at once as it may, and
// hands bodies to several workers; with one request at a time it starts no
// goroutine.
type fetcher struct {
	store   objstore.Store
	sources []source
	ahead   int
}

// body is what a source holds: in memory, or still to be read.
type body struct {
	memory []byte
	stream io.Reader // nil: it is in memory
}

func (b body) reader() io.Reader {
	if b.stream != nil {
		return b.stream
	}
	return bytes.NewReader(b.memory)
}

// lines gives the lines of the body.
func (b body) lines() *block.Lines {
	if b.stream != nil {
		return block.NewLines(b.stream)
	}
	return block.NewLinesOf(b.memory)
}

// each hands every source to one of so many workers: in order where there is
// one, in any order where there are more.
func (f fetcher) each(ctx context.Context, workers int, fn func(worker, index int, b body) error) error {
	if f.ahead < 2 {
		for i := range f.sources {
			if err := f.direct(ctx, i, func(b body) error { return fn(0, i, b) }); err != nil {
				return err
			}
		}
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	r := newRoom(prefetchBytes)
	defer context.AfterFunc(ctx, r.close)()
	queue := make(chan fetched)
	g.Go(func() error { // opens no more than there is room for
		defer close(queue)
		var reads errgroup.Group
		reads.SetLimit(f.ahead)
		for i, s := range f.sources {
			if !r.take(s.size) {
				break
			}
			reads.Go(func() error {
				got := f.fetch(ctx, i, r)
				select {
				case queue <- got:
				case <-ctx.Done():
				}
				return nil
			})
		}
		_ = reads.Wait() // errors travel with what was fetched
		return ctx.Err()
	})
	var large sync.Mutex
	for w := range workers {
		g.Go(func() error {
			for got := range queue {
				if err := f.hand(ctx, got, &large, func(b body) error { return fn(w, got.index, b) }); err != nil {
					return err
				}
				r.give(f.sources[got.index].size, got.memory)
			}
			return nil
		})
	}
	return g.Wait()
}

// fetched is a source that was read ahead, or is too large for that.
type fetched struct {
	index  int
	memory []byte
	direct bool
	err    error
}

// hand gives what was fetched to fn. Of the sources that are too large for
// memory one is read at a time: each may hold a line of the largest size.
func (f fetcher) hand(ctx context.Context, got fetched, large *sync.Mutex, fn func(body) error) error {
	switch {
	case got.err != nil:
		return got.err
	case got.direct:
		large.Lock()
		defer large.Unlock()
		return f.direct(ctx, got.index, fn)
	}
	return fn(body{memory: got.memory})
}

func (f fetcher) fetch(ctx context.Context, i int, r *room) fetched {
	got := fetched{index: i}
	size := f.sources[i].size
	if !r.fits(size) {
		got.direct = true
		return got
	}
	in, err := f.open(ctx, i)
	if err != nil {
		got.err = err
		return got
	}
	defer in.Close()
	got.memory = r.buffer(size)
	if _, err := io.ReadFull(in, got.memory); err != nil {
		got.err = fmt.Errorf("read %s: %w", f.sources[i].key, err)
	}
	return got
}

func (f fetcher) direct(ctx context.Context, i int, fn func(body) error) error {
	in, err := f.open(ctx, i)
	if err != nil {
		return err
	}
	defer in.Close()
	return fn(body{stream: in})
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
