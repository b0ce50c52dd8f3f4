package query

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/dataset"
)

// SortBy is a column by which rows are sorted: dataset.CompareValues is the
// order, with null and missing values last in either direction.
type SortBy struct {
	Column string `json:"column"` // of the rows; a field of a layer is A.field
	Desc   bool   `json:"desc"`
}

// ParseSort reads COLUMN, COLUMN:asc or COLUMN:desc. A colon may be part of a
// name that ends otherwise.
func ParseSort(text string) (SortBy, error) {
	name, desc := strings.TrimSuffix(text, ":asc"), false
	if name == text {
		name = strings.TrimSuffix(text, ":desc")
		desc = name != text
	}
	if name == "" {
		return SortBy{}, fmt.Errorf("sort by %q: want COLUMN, COLUMN:asc or COLUMN:desc", text)
	}
	return SortBy{Column: name, Desc: desc}, nil
}

// Sort gives rows in the order of these columns, and by (id, batch) where they
// are equal.
func Sort(by ...SortBy) Option { return func(o *Options) { o.Sort = append([]SortBy{}, by...) } }

// sorter puts the rows of a stream in order: in memory and on disk as many as
// there are, or, with a limit that fits, only the first ones.
type sorter struct {
	by    []SortBy
	scan  *dataset.Scanner
	key   []byte
	row   []byte
	limit int64

	top   topRows
	size  int64
	all   *block.Sorter // nil while top is enough
	dir   string
	rows  block.Stream[block.Record]
	given int
}

// topBytes is what the first rows may take before they go to disk.
const topBytes = 64 << 20

// sortRows reads in to its end.
func sortRows(in stream, o Options) (*sorter, error) {
	s := &sorter{by: o.Sort, scan: dataset.NewScanner(sortedBy(o.Sort)), limit: o.Limit, dir: o.WorkDir}
	if s.limit == 0 {
		s.all = block.NewSorter(s.dir, sortBudget)
	}
	for {
		row, err := in.next()
		if err == io.EOF {
			return s, s.done()
		}
		if err == nil {
			err = s.add(row)
		}
		if err != nil {
			s.close()
			return nil, err
		}
	}
}

func (s *sorter) add(row Row) error {
	if _, err := s.scan.Scan(row.Raw); err != nil {
		return fmt.Errorf("%w: row %q of batch %s: %w", ErrDamaged, row.ID, row.Batch, err)
	}
	s.key = s.key[:0]
	for i, by := range s.by {
		if by.Column == dataset.BatchColumn {
			s.key = dataset.AppendSortKey(s.key, quote(row.Batch), by.Desc)
			continue
		}
		s.key = dataset.AppendSortKey(s.key, s.scan.Value(i), by.Desc)
	}
	s.key = block.AppendID(block.AppendID(s.key, row.ID), row.Batch)
	live := byte(0)
	if row.Live {
		live = 1
	}
	s.row = binary.AppendUvarint(append(s.row[:0], live), uint64(len(row.Batch)))
	s.row = append(append(s.row, row.Batch...), row.Raw...)
	if s.all != nil {
		return s.all.Add(s.key, s.row)
	}
	return s.keep(block.Record{Key: s.key, Payload: s.row})
}

// keep holds a row if it is among the first ones so far.
func (s *sorter) keep(r block.Record) error {
	full := int64(len(s.top)) == s.limit
	if full && bytes.Compare(r.Key, s.top[0].Key) >= 0 {
		return nil
	}
	if full {
		last := heap.Pop(&s.top).(block.Record)
		s.size -= int64(len(last.Key) + len(last.Payload))
	}
	s.size += int64(len(r.Key) + len(r.Payload))
	heap.Push(&s.top, block.Record{Key: bytes.Clone(r.Key), Payload: bytes.Clone(r.Payload)})
	if s.size <= topBytes {
		return nil
	}
	s.all = block.NewSorter(s.dir, sortBudget)
	for _, r := range s.top {
		if err := s.all.Add(r.Key, r.Payload); err != nil {
			return err
		}
	}
	s.top = nil
	return nil
}

func (s *sorter) done() (err error) {
	if s.all == nil {
		slices.SortFunc(s.top, func(a, b block.Record) int { return bytes.Compare(a.Key, b.Key) })
		return nil
	}
	if s.rows, err = s.all.Sort(); err != nil {
		err = fmt.Errorf("sort rows: %w", err)
		s.close()
	}
	return err
}

// next gives the next row in order.
func (s *sorter) next() (Row, error) {
	var rec block.Record
	switch {
	case s.all != nil:
		var err error
		if rec, err = s.rows.Next(); err == io.EOF {
			return Row{}, io.EOF
		} else if err != nil {
			return Row{}, fmt.Errorf("sort rows: %w", err)
		}
	case s.given == len(s.top):
		return Row{}, io.EOF
	default:
		rec = s.top[s.given]
		s.given++
	}
	return rowOfRecord(rec)
}

func rowOfRecord(rec block.Record) (Row, error) {
	n, used := binary.Uvarint(rec.Payload[1:])
	rest := rec.Payload[1+max(used, 0):]
	if used <= 0 || n > uint64(len(rest)) {
		return Row{}, errors.New("sort rows: a record of the spill file is damaged")
	}
	row, err := dataset.ParseRow(rest[n:])
	if err != nil {
		return Row{}, fmt.Errorf("sort rows: %w", err)
	}
	return Row{Batch: string(rest[:n]), Live: rec.Payload[0] == 1, Row: row}, nil
}

func (s *sorter) close() {
	if s.all != nil {
		s.all.Close()
	}
}

// topRows is a heap with the last row on top.
type topRows []block.Record

func (h topRows) Len() int           { return len(h) }
func (h topRows) Less(i, j int) bool { return bytes.Compare(h[i].Key, h[j].Key) > 0 }
func (h topRows) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push adds a row.
func (h *topRows) Push(x any) { *h = append(*h, x.(block.Record)) }

// Pop removes the last one.
func (h *topRows) Pop() any {
	old := *h
	r := old[len(old)-1]
	*h = old[:len(old)-1]
	return r
}

func sortedBy(by []SortBy) []string {
	names := make([]string, len(by))
	for i, s := range by {
		names[i] = s.Column
	}
	return names
}
