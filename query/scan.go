package query

import (
	"errors"
	"io"
	"slices"
	"time"
)

// errLater says that a page ends although there may be more rows for it.
var errLater = errors.New("not all rows were looked at")

// scan takes the rows of a page from a walk, with what is laid beside them.
type scan struct {
	w     *walk
	j     *join
	until time.Time // zero: it takes as long as it takes
	edge  Cursor    // of the row looked at last
}

func (q *ask) newScan(req PageRequest, views []*view, from spot, down bool) (*scan, error) {
	n := req.Limit
	s := &scan{}
	if req.Where != nil {
		n, s.until = scanRows, time.Now().Add(q.e.scanTime)
	}
	var err error
	if s.w, err = q.newWalk(views, from, down, n); err != nil {
		return nil, err
	}
	o := Options{Dataset: req.Dataset, Columns: req.Columns, Annotators: req.Annotators, Where: req.Where, Live: true}
	question, err := plainQuestion(req.Where)
	if err != nil {
		return nil, err
	}
	s.j, err = newJoin(s.w, o, question,
		func() ([]string, error) {
			return q.known(req.Dataset, slices.Concat(req.Annotators, layersOf(req.Where)))
		},
		func(a string, _ bool) (stream, error) { return q.layerWalk(req.Dataset, a, views, from, down, n) })
	if err != nil {
		return nil, err
	}
	s.j.down = down
	return s, nil
}

// next gives the next row that is asked for. Without one it gives io.EOF after
// the last, and errLater where it took too long to find one.
func (s *scan) next() (Row, error) {
	for n := 0; ; n++ {
		row, err := s.j.scan()
		if err != nil {
			return Row{}, err
		}
		if row.Raw != nil {
			return row, nil
		}
		s.edge = Cursor{row.ID, row.Batch}
		if n%256 == 255 && time.Now().After(s.until) {
			return Row{}, errLater
		}
	}
}

// page takes a page of rows, and says where it begins and ends and whether there
// may be more behind it.
func (s *scan) page(r *renderer, limit int, back bool) (p Page, first, last Cursor, more bool, err error) {
	size := 0
	for len(p.Rows) < limit && size < pageBytes {
		row, err := s.next()
		if err == io.EOF {
			p.Unknown = s.j.unknown()
			break
		}
		if err == errLater {
			if last, more = s.edge, true; len(p.Rows) == 0 {
				first = last
			}
			break
		}
		if err != nil {
			return p, first, last, false, err
		}
		line := r.row(row)
		if size += len(line); size > pageBytes && len(p.Rows) > 0 {
			more = true // it is the first of the next page
			break
		}
		if last = (Cursor{row.ID, row.Batch}); len(p.Rows) == 0 {
			first = last
		}
		p.Rows = append(p.Rows, line)
	}
	if !more && len(p.Rows) > 0 && !back {
		if more, err = s.more(); err != nil {
			return p, first, last, false, err
		}
	}
	if back {
		slices.Reverse(p.Rows)
		first, last = last, first
	}
	return p, first, last, more, nil
}

// more reports whether there is a row behind the last one given that is asked
// for, or may be.
func (s *scan) more() (bool, error) {
	if s.j.where == nil {
		return s.w.more()
	}
	_, err := s.next()
	switch err {
	case io.EOF:
		return false, nil
	case nil, errLater:
		return true, nil
	}
	return false, err
}
