package merger

import "sync"

// room counts the bytes that were read ahead, and keeps buffers for others.
type room struct {
	mu      sync.Mutex
	changed *sync.Cond
	limit   int64
	used    int64
	closed  bool
	free    [][]byte
	idle    int64 // bytes in free
}

func newRoom(limit int64) *room {
	r := &room{limit: limit}
	r.changed = sync.NewCond(&r.mu)
	return r
}

// fits tells whether so many bytes are read ahead at all.
func (r *room) fits(n int64) bool { return n <= r.limit/2 }

// take waits until there is room for so many bytes; false means that it is
// closed. What is too large for memory takes none.
func (r *room) take(n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.fits(n) {
		return !r.closed
	}
	for r.used+n > r.limit && !r.closed {
		r.changed.Wait()
	}
	r.used += n
	return !r.closed
}

// give gives room and buffer back.
func (r *room) give(n int64, buf []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fits(n) {
		r.used -= n
	}
	if c := int64(cap(buf)); c > 0 && r.used+r.idle+c <= r.limit {
		r.free = append(r.free, buf)
		r.idle += c
	}
	r.changed.Broadcast()
}

func (r *room) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.changed.Broadcast()
}

// buffer gives a buffer of n bytes: a used one where it is neither too small
// nor much too large.
func (r *room) buffer(n int64) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	for last := len(r.free) - 1; last >= 0; last-- {
		buf := r.free[last]
		r.free = r.free[:last]
		c := int64(cap(buf))
		r.idle -= c
		if c >= n && c <= 2*n+1<<16 {
			return buf[:n]
		}
	}
	return make([]byte, n, n+n/8)
}
