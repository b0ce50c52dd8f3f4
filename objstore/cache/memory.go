package cache

import (
	"context"
	"sync"
)

// Memory keeps values in memory. Whoever gets one shares it and must not change
// it.
type Memory[K comparable, V any] struct {
	mu     sync.Mutex
	lru    *lru[K, V]
	flight flight[K, V]
	counts counts
}

// NewMemory is a Memory that keeps at most maxBytes, as its loads count them.
// name is its label in the metrics, which may be nil.
func NewMemory[K comparable, V any](name string, maxBytes int64, m *Metrics) *Memory[K, V] {
	return &Memory[K, V]{lru: newLRU[K, V](maxBytes), counts: m.of(name)}
}

// Get gives the value of a key, from load where it is not kept. load also says
// how many bytes the value has; an error is given to all who wait, and not kept.
func (m *Memory[K, V]) Get(ctx context.Context, key K, load func() (V, int64, error)) (V, error) {
	if v, ok := m.Peek(key); ok {
		m.counts.hits.Inc()
		return v, nil
	}
	return m.flight.do(ctx, key, func() (V, error) {
		if v, ok := m.Peek(key); ok { // loaded since the first look
			m.counts.hits.Inc()
			return v, nil
		}
		m.counts.misses.Inc()
		v, size, err := load()
		if err == nil {
			m.Put(key, v, size)
		}
		return v, err
	})
}

// Peek gives the value of a key if it is kept.
func (m *Memory[K, V]) Peek(key K) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lru.get(key)
}

// Put keeps a value.
func (m *Memory[K, V]) Put(key K, v V, size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gone := m.lru.put(key, v, size)
	m.counts.evictions.Add(float64(len(gone)))
	m.counts.bytes.Set(float64(m.lru.size))
}

// Drop forgets a value.
func (m *Memory[K, V]) Drop(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lru.drop(key)
	m.counts.bytes.Set(float64(m.lru.size))
}
