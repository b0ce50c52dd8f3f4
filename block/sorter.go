package block

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
)

const (
	defaultBudget = 64 << 20
	fanIn         = 128 // runs that are merged at once
)

// Record is what a Sorter puts in order: by bytes.Compare of the keys, and
// within equal keys by the order of Add.
type Record struct{ Key, Payload []byte }

// Sorter sorts more records than fit in memory. Within its budget it touches
// no file; past it, it writes sorted runs and merges them. A single record
// may be larger than the budget. A Sorter is for one goroutine.
type Sorter struct {
	dir    string
	mem    *arena
	runs   []run
	n      int64
	sorted bool
	open   []*runReader
	err    error
}

// NewSorter makes a Sorter that keeps at most budget bytes of records in memory
// (64 MiB when it is 0), and while it merges runs some 20 MiB and one record.
// Its files are in dir.
func NewSorter(dir string, budget int64) *Sorter {
	if budget <= 0 {
		budget = defaultBudget
	}
	return &Sorter{dir: dir, mem: newArena(budget)}
}

var (
	errSorted = errors.New("sorter: Add or Sort after Sort")
	errLarge  = errors.New("sorter: a record of 2 GiB or more")
)

// Len is the number of records added.
func (s *Sorter) Len() int64 { return s.n }

// Add takes a copy of a record. After an error, of a full disk for example,
// the Sorter gives that error for ever.
func (s *Sorter) Add(key, payload []byte) error {
	switch {
	case s.err != nil:
		return s.err
	case s.sorted:
		return errSorted
	case len(key)+len(payload) > math.MaxInt32:
		return errLarge
	}
	if !s.mem.add(key, payload) {
		if s.err = s.spill(); s.err != nil {
			return s.err
		}
		if !s.mem.add(key, payload) {
			if s.err = s.alone(key, payload); s.err != nil {
				return s.err
			}
		}
	}
	s.n++
	return nil
}

// spill writes what is in memory as a run.
func (s *Sorter) spill() error {
	if len(s.mem.entries) == 0 {
		s.mem.reset()
		return nil
	}
	s.mem.sort()
	w, err := createRun(s.dir)
	if err != nil {
		return err
	}
	for _, e := range s.mem.entries {
		r := s.mem.record(e)
		if err = w.add(r.Key, r.Payload); err != nil {
			break
		}
	}
	s.mem.reset()
	return s.keep(w.close(err))
}

// alone writes a record that is larger than the budget as a run of its own.
func (s *Sorter) alone(key, payload []byte) error {
	w, err := createRun(s.dir)
	if err != nil {
		return err
	}
	return s.keep(w.close(w.add(key, payload)))
}

func (s *Sorter) keep(r run, err error) error {
	if err == nil {
		s.runs = append(s.runs, r)
	}
	return err
}

// Sort ends adding and gives the records in order. The stream ends with Close.
func (s *Sorter) Sort() (Stream[Record], error) {
	switch {
	case s.err != nil:
		return nil, s.err
	case s.sorted:
		return nil, errSorted
	}
	s.sorted = true
	if len(s.runs) == 0 {
		s.mem.sort()
		return &arenaStream{s: s}, nil
	}
	if s.err = s.spill(); s.err != nil {
		return nil, s.err
	}
	s.mem = newArena(0) // the merge needs the room
	for len(s.runs) > fanIn {
		if s.err = s.mergeSome(); s.err != nil {
			return nil, s.err
		}
	}
	heads, err := s.openRuns(s.runs)
	if err != nil {
		s.err = err
		return nil, err
	}
	return &runStream{s: s, heads: heads}, nil
}

// mergeSome makes one run of the smallest neighbours, as many as must go.
// Neighbours, since equal keys stay in the order of their runs.
func (s *Sorter) mergeSome() error {
	k := min(fanIn, len(s.runs)-fanIn+1)
	best, least := 0, int64(math.MaxInt64)
	size := int64(0)
	for i, r := range s.runs {
		size += r.bytes
		if i >= k {
			size -= s.runs[i-k].bytes
		}
		if i >= k-1 && size < least {
			best, least = i-k+1, size
		}
	}
	old := slices.Clone(s.runs[best : best+k])
	merged, err := s.mergeRuns(old)
	if err != nil {
		return err
	}
	s.runs = slices.Replace(s.runs, best, best+k, merged)
	for _, r := range old {
		if err := os.Remove(r.path); err != nil {
			return fmt.Errorf("spill: %w", err)
		}
	}
	return nil
}

func (s *Sorter) mergeRuns(runs []run) (run, error) {
	heads, err := s.openRuns(runs)
	if err != nil {
		return run{}, err
	}
	defer s.closeRuns()
	w, err := createRun(s.dir)
	if err != nil {
		return run{}, err
	}
	var buf []byte
	for {
		h, err := heads.Next()
		if err == io.EOF {
			return w.close(nil)
		}
		if err == nil {
			buf, err = h.run.payload(buf)
		}
		if err == nil {
			err = w.add(h.key, buf)
		}
		if err != nil {
			return w.close(err)
		}
	}
}

func (s *Sorter) openRuns(runs []run) (Stream[runHead], error) {
	streams := make([]Stream[runHead], len(runs))
	for i, r := range runs {
		rr, err := openRun(r)
		if err != nil {
			s.closeRuns()
			return nil, err
		}
		s.open = append(s.open, rr)
		streams[i] = rr
	}
	return Merge(compareHeads, streams...), nil
}

func (s *Sorter) closeRuns() {
	for _, r := range s.open {
		_ = r.file.Close() // only read
	}
	s.open = nil
}

var errSorterClosed = errors.New("sorter: closed")

// Close removes the Sorter's files. It may be called at any time and twice.
func (s *Sorter) Close() error {
	s.closeRuns()
	var errs []error
	for _, r := range s.runs {
		if err := os.Remove(r.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	s.runs, s.mem = nil, newArena(0)
	if s.err == nil {
		s.err = errSorterClosed
	}
	return errors.Join(errs...)
}

// arenaStream gives what fitted in memory.
type arenaStream struct {
	s *Sorter
	i int
}

func (a *arenaStream) Next() (Record, error) {
	switch {
	case a.s.err != nil:
		return Record{}, a.s.err
	case a.i == len(a.s.mem.entries):
		return Record{}, io.EOF
	}
	a.i++
	return a.s.mem.record(a.s.mem.entries[a.i-1]), nil
}

// runStream gives merged runs, and checks that none of what was added is lost.
type runStream struct {
	s     *Sorter
	heads Stream[runHead]
	buf   []byte
	n     int64
}

func (r *runStream) Next() (Record, error) {
	if r.s.err != nil {
		return Record{}, r.s.err
	}
	h, err := r.heads.Next()
	switch {
	case err == io.EOF && r.n != r.s.n:
		err = fmt.Errorf("%w: %d records went in, %d came out", errRun, r.s.n, r.n)
	case err == io.EOF:
		return Record{}, err
	case err == nil:
		r.buf, err = h.run.payload(r.buf)
	}
	if err != nil {
		r.s.err = err
		return Record{}, err
	}
	r.n++
	return Record{Key: h.key, Payload: r.buf}, nil
}
