package index

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/siltstone-data/siltstone/objstore"
)

const (
	// headBytes is read first: a small index is then in memory whole.
	headBytes = 64 << 10
	// tailBytes is what the footer, the page indexes and mostly the bloom
	// filter of a block of 50,000 rows fit in.
	tailBytes = 256 << 10
	// slack is read after what was asked for, because the parquet reader fills
	// its buffer past the end of a page.
	slack = 8 << 10
	// keepWindows is how many ranges stay in memory, the tail not counted.
	keepWindows = 3
)

// remote is an object that is read in ranges, each of which is kept for a
// while. All ranges are of one version of the object.
type remote struct {
	store objstore.Store
	key   string
	etag  string
	size  int64

	mu      sync.Mutex
	windows []window // the first is the tail
}

type window struct {
	at int64
	b  []byte
}

// openRemote reads the head of an object, which tells its size, and its tail.
func openRemote(ctx context.Context, s objstore.Store, key string) (*remote, error) {
	body, info, err := s.Get(ctx, key, objstore.Span{Length: headBytes})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	r := &remote{store: s, key: key, etag: info.ETag, size: info.Size}
	head := make([]byte, min(headBytes, info.Size))
	if _, err := io.ReadFull(body, head); err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	if r.size <= headBytes {
		r.windows = []window{{0, head}}
		return r, nil
	}
	from := max(r.size-tailBytes, 0)
	tail, err := r.get(ctx, from, r.size-from)
	if err != nil {
		return nil, err
	}
	r.windows = []window{{from, tail}, {0, head}}
	return r, nil
}

func (r *remote) get(ctx context.Context, at, n int64) ([]byte, error) {
	body, _, err := r.store.Get(ctx, r.key, objstore.Span{Offset: at, Length: n, ETag: r.etag})
	if err != nil {
		return nil, fmt.Errorf("read %s at %d: %w", r.key, at, err)
	}
	defer body.Close()
	b := make([]byte, n)
	if _, err := io.ReadFull(body, b); err != nil {
		return nil, fmt.Errorf("read %s at %d: %w", r.key, at, err)
	}
	return b, nil
}

// load makes sure that n bytes at `at` are in memory.
func (r *remote) load(ctx context.Context, at, n int64) error {
	n = min(n, r.size-at)
	if n <= 0 || r.find(at, n) != nil {
		return nil
	}
	n = min(n+slack, r.size-at)
	b, err := r.get(ctx, at, n)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.windows) > keepWindows {
		r.windows = append(r.windows[:1], r.windows[2:]...) // the oldest after the tail
	}
	r.windows = append(r.windows, window{at, b})
	return nil
}

// find gives n bytes at `at` if they are in memory.
func (r *remote) find(at, n int64) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.windows {
		if at >= w.at && at+n <= w.at+int64(len(w.b)) {
			return w.b[at-w.at : at-w.at+n]
		}
	}
	return nil
}

// during gives the object as an io.ReaderAt for one call.
func (r *remote) during(ctx context.Context) io.ReaderAt { return &readerAt{ctx, r} }

// readerAt is the scope of one call: io.ReaderAt has no place for a context.
type readerAt struct {
	ctx context.Context
	r   *remote
}

// ReadAt gives bytes from memory, and reads them where they are not there.
func (a *readerAt) ReadAt(p []byte, at int64) (int, error) {
	if at < 0 || at >= a.r.size {
		return 0, io.EOF
	}
	n := min(int64(len(p)), a.r.size-at)
	b := a.r.find(at, n)
	if b == nil {
		var err error
		if b, err = a.r.get(a.ctx, at, n); err != nil {
			return 0, err
		}
	}
	copy(p, b)
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}
