package block

import (
	"fmt"
	"hash/crc32"
	"io"
)

// arenaStream gives what fitted in memory.
type arenaStream struct {
	s *Sorter
	i int
}

func (a *arenaStream) Next() (Record, error) {
	if a.s.err != nil {
		return Record{}, a.s.err
	}
	mem := a.s.lanes[0].mem
	if a.i == len(mem.entries) {
		return Record{}, io.EOF
	}
	a.i++
	return mem.record(mem.entries[a.i-1]), nil
}

// keyStream gives keys, and checks that none of what was added is lost.
type keyStream struct {
	s     *Sorter
	heads Stream[recordHead]
	n     int64
}

func (k *keyStream) Next() ([]byte, error) {
	if k.s.err != nil {
		return nil, k.s.err
	}
	h, err := k.heads.Next()
	if err == io.EOF && k.n != k.s.Len() {
		err = k.s.lost(k.n)
	}
	if err != nil && err != io.EOF {
		k.s.err = err
	}
	if err == nil {
		k.n++
	}
	return h.key, err
}

// recordStream gives merged records. Each run and each lane gives its payloads
// in the order in which its keys come, so all are read from front to back.
type recordStream struct {
	s     *Sorter
	heads Stream[recordHead]
	runs  []window
	lanes []int // the next entry of each
	large int   // windows of the large size that memory has room for
	n     int64
}

// The sizes of windows. Where ids grow with time only few runs are read at
// once, and large reads are cheaper; the others get a small one.
const (
	largeWindow = 256 << 10
	smallWindow = 8 << 10
)

func newRecordStream(s *Sorter) *recordStream {
	r := &recordStream{s: s, heads: s.heads(), lanes: make([]int, len(s.lanes))}
	r.large = int(s.budget / 8 / largeWindow)
	for _, run := range s.runs {
		r.runs = append(r.runs, window{file: s.file.file, at: run.payloads, end: run.keys})
	}
	return r
}

func (r *recordStream) Next() (Record, error) {
	if r.s.err != nil {
		return Record{}, r.s.err
	}
	rec, err := r.next()
	if err == io.EOF && r.n != r.s.Len() {
		err = r.s.lost(r.n)
	}
	if err != nil && err != io.EOF {
		r.s.err = err
	}
	if err == nil {
		r.n++
	}
	return rec, err
}

func (r *recordStream) next() (Record, error) {
	h, err := r.heads.Next()
	if err != nil {
		return Record{}, err
	}
	if i := h.from - len(r.runs); i >= 0 {
		mem := r.s.lanes[i].mem
		r.lanes[i]++
		return Record{Key: h.key, Payload: mem.record(mem.entries[r.lanes[i]-1]).Payload}, nil
	}
	w := &r.runs[h.from]
	if w.size == 0 {
		if w.size = smallWindow; r.large > 0 {
			w.size = largeWindow
			r.large--
		}
	}
	payload, err := w.take(h.size)
	if err == nil && crc32.Checksum(payload, castagnoli) != h.sum {
		err = fmt.Errorf("the sum of a payload of %d bytes is wrong", h.size)
	}
	if err != nil {
		return Record{}, r.s.file.broken(err)
	}
	if w.empty() {
		w.buf, w.start, w.has = nil, 0, 0 // most runs end long before the last one
		if w.size == largeWindow {
			w.size = smallWindow
			r.large++
		}
	}
	return Record{Key: h.key, Payload: payload}, nil
}
