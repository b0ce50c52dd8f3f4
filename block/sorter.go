package block

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
)

const defaultBudget = 64 << 20

// Record is what a Sorter puts in order: by bytes.Compare of the keys, and
// within equal keys by the order of Add.
type Record struct{ Key, Payload []byte }

// Sorter sorts more records than fit in memory. Within its budget it touches
// no file; past it, it writes sorted runs and merges them. A single record
// may be larger than the budget. A Sorter is for one goroutine, but for what it
// gets through lanes.
type Sorter struct {
	budget int64
	lanes  []*Lane
	sorted bool // no more records come
	taken  bool // Sort was called

	mu    sync.Mutex // of runs and file, which lanes fill
	file  spillFile
	runs  []run
	order *spillFile // the keys of all records in order, once Keys has spilled them
	err   error
}

// NewSorter makes a Sorter that keeps at most budget bytes of records in memory
// (64 MiB when it is 0), and while it merges runs a fourth more and one record.
// Its files are in dir.
func NewSorter(dir string, budget int64) *Sorter {
	if budget <= 0 {
		budget = defaultBudget
	}
	s := &Sorter{budget: budget, file: spillFile{dir: dir}}
	s.lanes = []*Lane{{s: s, mem: newArena(budget)}}
	return s
}

var (
	errSorted       = errors.New("sorter: Add or Sort after Sort")
	errLarge        = errors.New("sorter: a record of 2 GiB or more")
	errSorterClosed = errors.New("sorter: closed")
)

// Lanes gives n ways in, each with a part of the budget and each for a
// goroutine of its own; all must be done before the sorter goes on. Records of
// one key that come through different lanes have no order.
func (s *Sorter) Lanes(n int) []*Lane {
	share := max(s.budget/int64(max(n, 1)), 1)
	for i := range n {
		if i == len(s.lanes) {
			s.lanes = append(s.lanes, &Lane{s: s})
		}
		s.lanes[i].mem = newArena(share)
	}
	return s.lanes
}

// Len is the number of records added.
func (s *Sorter) Len() (n int64) {
	for _, l := range s.lanes {
		n += l.n
	}
	return n
}

// Add takes a copy of a record. After an error, of a full disk for example,
// the Sorter gives that error for ever.
func (s *Sorter) Add(key, payload []byte) error { return s.lanes[0].Add(key, payload) }

// Lane is one of several ways into a Sorter.
type Lane struct {
	s   *Sorter
	mem *arena
	n   int64
	err error
}

// Add takes a copy of a record, as Sorter.Add does.
func (l *Lane) Add(key, payload []byte) error {
	switch {
	case l.err != nil:
		return l.err
	case l.s.sorted:
		return errSorted
	case len(key)+len(payload) > math.MaxInt32:
		return errLarge
	}
	if !l.mem.add(key, payload) {
		if l.err = l.spill(); l.err != nil {
			return l.err
		}
		if !l.mem.add(key, payload) {
			if l.err = l.s.alone(key, payload); l.err != nil {
				return l.err
			}
		}
	}
	l.n++
	return nil
}

// spill writes what is in memory as a run.
func (l *Lane) spill() error {
	if len(l.mem.entries) == 0 {
		l.mem.reset()
		return nil
	}
	l.mem.sort()
	var size runSize
	for _, e := range l.mem.entries {
		size.add(int(e.keyLen), int(e.payLength))
	}
	w, err := l.s.newRun(size)
	if err != nil {
		return err
	}
	for _, e := range l.mem.entries {
		r := l.mem.record(e)
		w.add(r.Key, r.Payload)
	}
	l.mem.reset()
	return w.close()
}

// alone writes a record that is larger than the budget as a run of its own.
func (s *Sorter) alone(key, payload []byte) error {
	var size runSize
	size.add(len(key), len(payload))
	w, err := s.newRun(size)
	if err != nil {
		return err
	}
	w.add(key, payload)
	return w.close()
}

func (s *Sorter) newRun(size runSize) (*runWriter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.file.reserve(size)
	if err != nil {
		return nil, err
	}
	s.runs = append(s.runs, r)
	return newRunWriter(s.file.file, r), nil
}

// end ends adding.
func (s *Sorter) end() error {
	if s.sorted || s.err != nil {
		return s.err
	}
	s.sorted = true
	for _, l := range s.lanes {
		if s.err = l.err; s.err != nil {
			return s.err
		}
		l.mem.sort()
	}
	s.err = s.file.whole()
	return s.err
}

// Keys ends adding and gives the keys of all records in order. It may be
// called any number of times before Sort, and costs no payload a look.
func (s *Sorter) Keys() (Stream[[]byte], error) {
	if s.taken && s.err == nil {
		return nil, errSorted
	}
	if err := s.end(); err != nil {
		return nil, err
	}
	if len(s.runs) > 0 && s.order == nil {
		// A pass over the keys in order is cheaper than one over many runs.
		if s.err = s.spillOrder(); s.err != nil {
			return nil, s.err
		}
	}
	return &keyStream{s: s, heads: s.heads()}, nil
}

// Sort ends adding and gives the records in order. The stream ends with Close.
func (s *Sorter) Sort() (Stream[Record], error) {
	if s.taken && s.err == nil {
		return nil, errSorted
	}
	if err := s.end(); err != nil {
		return nil, err
	}
	s.taken = true
	if len(s.runs) == 0 && len(s.lanes) == 1 {
		return &arenaStream{s: s}, nil
	}
	return newRecordStream(s), nil
}

// heads merges what is in memory and what is in runs.
func (s *Sorter) heads() Stream[recordHead] {
	if s.order != nil {
		return newOrderReader(s.order, max(s.budget/16, 4<<10))
	}
	var streams []Stream[recordHead]
	share := s.budget / 16 / int64(max(len(s.runs), 1))
	for i, r := range s.runs {
		streams = append(streams, newKeyReader(&s.file, r, i, share))
	}
	for i, l := range s.lanes {
		if len(l.mem.entries) > 0 {
			streams = append(streams, &arenaHeads{mem: l.mem, from: len(s.runs) + i})
		}
	}
	if len(streams) == 1 {
		return streams[0]
	}
	return Merge(func(a, b recordHead) int { return bytes.Compare(a.key, b.key) }, streams...)
}

// spillOrder writes the keys of all records in order.
func (s *Sorter) spillOrder() (err error) {
	order := &spillFile{dir: s.file.dir}
	s.order = order // Close removes it
	if err := order.create(); err != nil {
		return err
	}
	w := areaOf(order.file, 0, areaBuffer)
	s.order = nil // heads are those of the runs still
	heads := s.heads()
	s.order = order
	n := int64(0)
	for ; ; n++ {
		h, err := heads.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		w.addHead(h)
	}
	if n != s.Len() {
		return s.lost(n)
	}
	if err := w.flush(); err != nil {
		return err
	}
	order.size = w.at
	return nil
}

func (s *Sorter) lost(n int64) error {
	return fmt.Errorf("%w: %d records went in, %d came out", errRun, s.Len(), n)
}

// Close removes the Sorter's files. It may be called at any time and twice.
func (s *Sorter) Close() error {
	err := s.file.remove()
	if s.order != nil {
		err = errors.Join(err, s.order.remove())
	}
	for _, l := range s.lanes {
		l.mem = newArena(0)
		if l.err == nil {
			l.err = errSorterClosed
		}
	}
	s.runs = nil
	if s.err == nil {
		s.err = errSorterClosed
	}
	return err
}
