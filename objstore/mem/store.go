// Package mem keeps objects in memory.
//
// It is a whole implementation of objstore.Store, for tests, simulations and
// throw-away runs: conditions are atomic, lists are in byte order and taken page
// by page, and an ETag is a hash of the bytes, so that equal bytes have equal
// ETags as they do in S3.
package mem

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/siltstone-data/siltstone/objstore"
)

// DefaultPage is the number of objects that one page of a list holds.
const DefaultPage = 1000

// Config holds the settings of a store; the zero value is usable.
type Config struct {
	Now  func() time.Time // the store's clock; time.Now when nil
	Page int              // objects in one page of a list; DefaultPage when 0
}

// Store keeps objects in memory.
type Store struct {
	now  func() time.Time
	page int

	mu      sync.RWMutex
	objects map[string]object
	keys    []string // sorted: every key of objects
}

// object is a stored version; body is never written to again.
type object struct {
	body []byte
	info objstore.Info
}

var _ objstore.Store = (*Store)(nil)

// New is an empty store. At most one Config may be given.
func New(cfg ...Config) *Store {
	s := &Store{now: time.Now, page: DefaultPage, objects: map[string]object{}}
	for _, c := range cfg {
		if c.Now != nil {
			s.now = c.Now
		}
		if c.Page > 0 {
			s.page = c.Page
		}
	}
	return s
}

// Get opens an object. The body is that of one version, whatever happens to the
// key meanwhile.
func (s *Store) Get(ctx context.Context, key string, span objstore.Span) (io.ReadCloser, objstore.Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, objstore.Info{}, fmt.Errorf("get %q: %w", key, err)
	}
	s.mu.RLock()
	o, ok := s.objects[key]
	s.mu.RUnlock()
	switch {
	case !ok:
		return nil, objstore.Info{}, fmt.Errorf("get %q: %w", key, objstore.ErrNotFound)
	case span.ETag != "" && span.ETag != o.info.ETag:
		return nil, objstore.Info{}, fmt.Errorf("get %q: %w", key, objstore.ErrChanged)
	}
	from, to, err := span.Of(o.info.Size)
	if err != nil {
		return nil, objstore.Info{}, fmt.Errorf("get %q: %w", key, err)
	}
	info := o.info
	info.Date = s.now()
	return io.NopCloser(bytes.NewReader(o.body[from:to])), info, nil
}

// Put stores a copy of body.
func (s *Store) Put(ctx context.Context, key string, body []byte, c objstore.Condition) (objstore.Info, error) {
	if err := ctx.Err(); err != nil {
		return objstore.Info{}, fmt.Errorf("put %q: %w", key, err)
	}
	info, err := s.store(key, bytes.Clone(body), c)
	if err != nil {
		return objstore.Info{}, fmt.Errorf("put %q: %w", key, err)
	}
	return info, nil
}

// Upload stores what r holds; the condition is judged when all of it was read.
func (s *Store) Upload(ctx context.Context, key string, r io.ReadSeeker, size int64, c objstore.Condition) (objstore.Info, error) {
	body, err := objstore.ReadExactly(r, size)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return objstore.Info{}, fmt.Errorf("upload %q: %w", key, err)
	}
	info, err := s.store(key, body, c)
	if err != nil {
		return objstore.Info{}, fmt.Errorf("upload %q: %w", key, err)
	}
	return info, nil
}

// Delete removes an object.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("delete %q: %w", key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.objects[key]; !ok {
		return nil
	}
	delete(s.objects, key)
	i, _ := slices.BinarySearch(s.keys, key)
	s.keys = slices.Delete(s.keys, i, i+1)
	return nil
}

// store is the one place where an object is written; it keeps body.
func (s *Store) store(key string, body []byte, c objstore.Condition) (objstore.Info, error) {
	if key == "" {
		return objstore.Info{}, errors.New("the key is empty")
	}
	key = strings.Clone(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.objects[key]
	switch {
	case c.Absent() && ok:
		return objstore.Info{}, objstore.ErrLost
	case c.Match() != "" && !ok:
		return objstore.Info{}, objstore.ErrNotFound
	case c.Match() != "" && c.Match() != old.info.ETag:
		return objstore.Info{}, objstore.ErrLost
	}
	if !ok {
		i, _ := slices.BinarySearch(s.keys, key)
		s.keys = slices.Insert(s.keys, i, key)
	}
	sum := sha256.Sum256(body)
	info := objstore.Info{Key: key, Size: int64(len(body)), ETag: hex.EncodeToString(sum[:16]), Modified: s.now()}
	s.objects[key] = object{body: body, info: info}
	info.Date = info.Modified
	return info, nil
}
