package merger

import (
	"container/list"
	"sync"
)

// digestCache keeps digest files that were read or written, by their SHA-256:
// they never change, and of a batch that is merged again and again only a new
// small one comes with each merge. Losing them costs a download.
type digestCache struct {
	bytes int64 // budget of the disk

	mu   sync.Mutex
	held map[string]*heldPages
	used list.List // of *heldPages, the latest first
	disk int64
	mem  int64
}

// Budgets besides the disk's: what small files take of the memory, and how many
// files are open.
const (
	digestCacheMemory = 8 << 20
	digestCacheFiles  = 4096
)

// heldPages is an entry of the cache. Whoever uses it has a hold on it: it is
// closed when the last hold and the cache have let go.
type heldPages struct {
	*digestPages
	element *list.Element // nil once it has left the cache
	holds   int
}

func newDigestCache(bytes int64) *digestCache {
	return &digestCache{bytes: bytes, held: map[string]*heldPages{}}
}

// fits tells whether a file of that size may be kept.
func (c *digestCache) fits(size int64) bool { return size <= digestsInMemory || size <= c.bytes }

// get gives a file, with a hold on it, or nil.
func (c *digestCache) get(sha256 string, rows int64) *heldPages {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.held[sha256]
	if h == nil || h.rows != rows {
		return nil
	}
	c.used.MoveToFront(h.element)
	h.holds++
	return h
}

// put keeps a file, and gives it with a hold on it.
func (c *digestCache) put(p *digestPages) *heldPages {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &heldPages{digestPages: p, holds: 1}
	if old := c.held[p.sha256]; old != nil {
		c.remove(old)
	}
	h.element = c.used.PushFront(h)
	c.held[p.sha256] = h
	c.count(p, 1)
	for c.used.Len() > 1 && (c.disk > c.bytes || c.mem > digestCacheMemory || c.used.Len() > digestCacheFiles) {
		c.remove(c.used.Back().Value.(*heldPages))
	}
	return h
}

func (c *digestCache) count(p *digestPages, sign int64) {
	if p.file != nil {
		c.disk += sign * p.size()
	} else {
		c.mem += sign * p.size()
	}
}

// drop takes a file out of the cache.
func (c *digestCache) drop(h *heldPages) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(h)
}

func (c *digestCache) remove(h *heldPages) {
	if h.element == nil {
		return
	}
	c.used.Remove(h.element)
	delete(c.held, h.sha256)
	c.count(h.digestPages, -1)
	h.element = nil
	if h.holds == 0 {
		h.close()
	}
}

// release ends a hold.
func (c *digestCache) release(h *heldPages) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.holds--; h.holds == 0 && h.element == nil {
		h.close()
	}
}
