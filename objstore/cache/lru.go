package cache

import "container/list"

// lru orders things by when they were asked for last, and knows how many bytes
// they have together. It is not safe for concurrent use.
type lru[K comparable, V any] struct {
	max   int64
	size  int64
	order list.List // of *item; the front was asked for last
	items map[K]*list.Element
}

type item[K comparable, V any] struct {
	key  K
	v    V
	size int64
}

func newLRU[K comparable, V any](maxBytes int64) *lru[K, V] {
	return &lru[K, V]{max: maxBytes, items: make(map[K]*list.Element)}
}

// get finds a thing, and puts it to the front.
func (l *lru[K, V]) get(key K) (v V, ok bool) {
	el, ok := l.items[key]
	if !ok {
		return v, false
	}
	l.order.MoveToFront(el)
	return el.Value.(*item[K, V]).v, true
}

// put adds a thing, or replaces it, and gives what has to go to make room. A
// thing larger than the whole is among these itself.
func (l *lru[K, V]) put(key K, v V, size int64) (gone []item[K, V]) {
	l.drop(key)
	l.items[key] = l.order.PushFront(&item[K, V]{key, v, size})
	l.size += size
	for l.size > l.max {
		last := l.order.Back().Value.(*item[K, V])
		gone = append(gone, *last)
		l.drop(last.key)
	}
	return gone
}

// drop removes a thing.
func (l *lru[K, V]) drop(key K) {
	if el, ok := l.items[key]; ok {
		l.size -= el.Value.(*item[K, V]).size
		l.order.Remove(el)
		delete(l.items, key)
	}
}
