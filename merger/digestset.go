package merger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// taken tells which values rows have that stay anyhow. It is asked for values
// in order, and drained at the end, where it says whether its answers can be
// relied on.
type taken interface {
	has(v []byte) (bool, error)
	drain() error
}

// digestSet is all digest files of a record: those that fit are held on this
// machine, the others are read from the store whenever they are needed.
type digestSet struct {
	store objstore.Store
	cache *digestCache
	dir   string
	batch dataset.BatchID

	mu    sync.Mutex
	held  map[string]*heldPages // by name
	files []*digestReader
	looks []taken
}

// openDigestSet takes hold of the digest files of a record, and reads those
// that are not here.
func (a *attempt) openDigestSet(ctx context.Context) (*digestSet, error) {
	r := a.head.Record
	s := &digestSet{store: a.store, cache: a.held, dir: a.cfg.WorkDir, batch: a.batch, held: map[string]*heldPages{}}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(a.cfg.Concurrency)
	for _, d := range r.Digests {
		if !s.cache.fits(d.Bytes) {
			continue
		}
		one := func() error { return s.take(gctx, d) }
		if a.cfg.Concurrency == 1 {
			if err := one(); err != nil {
				s.close()
				return nil, err
			}
			continue
		}
		g.Go(one)
	}
	if err := g.Wait(); err != nil {
		s.close()
		return nil, err
	}
	for _, d := range r.Digests {
		if h := s.held[d.File]; h != nil {
			s.looks = append(s.looks, &pagedDigests{pages: h.digestPages})
			continue
		}
		in, err := openDigests(ctx, s.store, s.batch, d)
		if err != nil {
			s.close()
			return nil, err
		}
		s.files = append(s.files, in)
		s.looks = append(s.looks, &seeker{stream: &digestBytes{in: in}})
	}
	return s, nil
}

// take takes hold of a file.
func (s *digestSet) take(ctx context.Context, d catalog.DigestFile) error {
	h := s.cache.get(d.SHA256, d.Rows)
	if h == nil {
		pages, err := s.download(ctx, d)
		if err != nil {
			return err
		}
		h = s.cache.put(pages)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[d.File] = h
	return nil
}

// download reads a file from the store, and checks it whole before anybody
// looks into it.
func (s *digestSet) download(ctx context.Context, d catalog.DigestFile) (*digestPages, error) {
	in, err := openDigests(ctx, s.store, s.batch, d)
	if err != nil {
		return nil, err
	}
	defer in.close()
	return pageDigests(s.dir, in)
}

func pageDigests(dir string, in block.Stream[dataset.Digest]) (*digestPages, error) {
	g := newDigestPaging(dir)
	for {
		d, err := in.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = g.add(d)
		}
		if err != nil {
			g.abandon()
			return nil, err
		}
	}
	pages, err := g.seal()
	if err != nil {
		g.abandon()
	}
	return pages, err
}

func (s *digestSet) has(v []byte) (bool, error) {
	for _, l := range s.looks {
		if is, err := l.has(v); is || err != nil {
			return is, s.lost(err)
		}
	}
	return false, nil
}

func (s *digestSet) drain() error {
	for _, l := range s.looks {
		if err := l.drain(); err != nil {
			return err
		}
	}
	return nil
}

// lost makes of damage to what is held here a reason to start again: the
// files in the store may be whole.
func (s *digestSet) lost(err error) error {
	if !errors.Is(err, errHeldDigests) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held {
		s.cache.drop(h)
	}
	return fmt.Errorf("%w: %w", errAgain, err)
}

// stream gives a file of the set in order. The function ends the reading.
func (s *digestSet) stream(ctx context.Context, d catalog.DigestFile) (block.Stream[dataset.Digest], func(), error) {
	if h := s.held[d.File]; h != nil {
		return &pagedDigests{pages: h.digestPages}, func() {}, nil
	}
	in, err := openDigests(ctx, s.store, s.batch, d)
	if err != nil {
		return nil, nil, err
	}
	return in, in.close, nil
}

// close ends all holds.
func (s *digestSet) close() {
	for _, h := range s.held {
		s.cache.release(h)
	}
	for _, f := range s.files {
		f.close()
	}
	s.held, s.files, s.looks = nil, nil, nil
}
