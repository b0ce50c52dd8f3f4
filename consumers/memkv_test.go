package consumers_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/siltstone-data/siltstone/nats/bus"
)

// memKV is a bucket in memory for schedules: step is called before anything is
// read or written, and lets others go first.
type memKV struct {
	step func(ctx context.Context) error
	*memBucket
}

type memBucket struct {
	mu       sync.Mutex
	revision uint64
	entries  map[string]bus.Entry
}

func newMemBucket() *memBucket { return &memBucket{entries: map[string]bus.Entry{}} }

// Get reads a key.
func (k memKV) Get(ctx context.Context, key string) (bus.Entry, error) {
	if err := k.step(ctx); err != nil {
		return bus.Entry{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	e, ok := k.entries[key]
	if !ok {
		return bus.Entry{}, bus.ErrNoKey
	}
	return e, nil
}

// Create writes a key that is not there.
func (k memKV) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	return k.write(ctx, key, value, 0, bus.ErrExists)
}

// Update writes a key over a revision.
func (k memKV) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return k.write(ctx, key, value, revision, bus.ErrRevision)
}

func (k memKV) write(ctx context.Context, key string, value []byte, revision uint64, lost error) (uint64, error) {
	if err := k.step(ctx); err != nil {
		return 0, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.entries[key].Revision != revision {
		return 0, lost
	}
	k.revision++
	k.entries[key] = bus.Entry{Key: key, Value: slices.Clone(value), Revision: k.revision}
	return k.revision, nil
}

// Delete removes a key at a revision.
func (k memKV) Delete(ctx context.Context, key string, revision uint64) error {
	if err := k.step(ctx); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.entries[key].Revision != revision {
		return bus.ErrRevision
	}
	delete(k.entries, key)
	return nil
}

// List gives the keys that a filter takes, all of one moment.
func (k memKV) List(ctx context.Context, filter string) iter.Seq2[bus.Entry, error] {
	return func(yield func(bus.Entry, error) bool) {
		if err := k.step(ctx); err != nil {
			yield(bus.Entry{}, err)
			return
		}
		k.mu.Lock()
		var found []bus.Entry
		for key, e := range k.entries {
			if takes(strings.Split(filter, "."), strings.Split(key, ".")) {
				found = append(found, e)
			}
		}
		k.mu.Unlock()
		slices.SortFunc(found, func(a, b bus.Entry) int { return strings.Compare(a.Key, b.Key) })
		for _, e := range found {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// takes reports whether a filter of tokens takes a key.
func takes(filter, key []string) bool {
	switch {
	case len(filter) == 0 || len(key) == 0:
		return len(filter) == len(key)
	case filter[0] == ">":
		return true
	}
	return (filter[0] == "*" || filter[0] == key[0]) && takes(filter[1:], key[1:])
}
