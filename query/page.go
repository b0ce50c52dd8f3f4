package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
)

// ErrCursor reports a cursor that no page of this dataset and order gave.
var ErrCursor = errors.New("bad cursor")

// PageRequest asks for a page of merged and live rows.
type PageRequest struct {
	Dataset string
	Batches []string // nil: all
	Columns []string // nil: all; otherwise id, _created_at, these and _batch
	// Annotators lay their layers beside the rows, as columns named A.field.
	Annotators []string
	// Where, if not nil, gives only the rows of which it is true.
	Where  *dataset.Filter
	Limit  int    // most rows, 1 to 1000; 50 when 0
	Cursor string // from another page of this dataset and order; empty: the first page
	Desc   bool   // rows from the last to the first
	Clip   int    // cut strings longer than so many characters; 0: none
}

// Page is a page of rows in (id, batch) order, or in the reverse of it.
type Page struct {
	Columns []string // id and _created_at first; without _batch, unless it was asked for
	// Rows are JSON objects with id, _batch, _created_at where the row has one,
	// _silt_live where it is not merged yet, and _silt_clipped where strings were
	// cut.
	Rows []json.RawMessage
	// Next continues behind the last row; empty: there was nothing more.
	Next string
	// Prev ends before the first row, where rows may have arrived since. It is
	// empty only for a first page without rows.
	Prev     string
	LiveRows int64 // rows in live chunks of the batches asked for
	// Unknown are the columns of Where that no row has, if a first page has looked
	// at all rows.
	Unknown   []string
	Took      time.Duration
	BytesRead int64 // from the store
}

const (
	defaultLimit = 50
	maxLimit     = 1000
	// pageBytes ends a page early: a row may have 64 MiB, and a page has to
	// fit into a browser.
	pageBytes = 8 << 20
	// scanTime ends a page early for which few rows are found: whoever waits can
	// go on from there.
	scanTime = 5 * time.Second
	// scanRows is how many rows of a batch are taken at once to be looked at, so
	// that a frame is read once.
	scanRows = 4096
)

func (q PageRequest) check() error {
	for _, a := range q.Annotators {
		if err := dataset.CheckAnnotator(a); err != nil {
			return err
		}
	}
	switch {
	case q.Limit < 0 || q.Limit > maxLimit:
		return fmt.Errorf("limit %d: it must be from 1 to %d", q.Limit, maxLimit)
	case q.Clip < 0:
		return fmt.Errorf("clip %d: it must not be negative", q.Clip)
	}
	return nil
}

// Page gives one page of rows, merged and live together. A cursor names the row
// that it is about: pages that follow cursors skip and repeat none of the rows
// that were there when the first one was given, whatever is merged meanwhile. A
// page has fewer rows than its limit where they come to more than 8 MiB, or where
// a filter finds no more of them for 5 s; then it may have none, and Next goes on.
func (e *Engine) Page(ctx context.Context, req PageRequest) (Page, error) {
	start := time.Now()
	q := e.ask(ctx)
	p, err := q.page(req)
	e.m.bytesRead.Add(float64(q.read.Load()))
	if err != nil {
		return Page{}, err
	}
	p.BytesRead, p.Took = q.read.Load(), time.Since(start)
	e.m.pages.Observe(p.Took.Seconds())
	return p, nil
}

func (q *ask) page(req PageRequest) (Page, error) {
	if err := req.check(); err != nil {
		return Page{}, err
	}
	if req.Limit == 0 {
		req.Limit = defaultLimit
	}
	var t token // the first page
	from := spot{end: req.Desc}
	if req.Cursor != "" {
		var err error
		if t, err = parseToken(req.Cursor, req.Dataset, req.Desc); err != nil {
			return Page{}, err
		}
		from = t.spot()
	}
	r, err := newRenderer(req.Columns, req.Annotators, req.Clip)
	if err != nil {
		return Page{}, err
	}
	views, err := q.open(req.Dataset, req.Batches)
	if err != nil {
		return Page{}, err
	}
	s, err := q.newScan(req, views, from, req.Desc != t.Back)
	if err != nil {
		return Page{}, err
	}
	p, first, last, more, err := s.page(r, req.Limit, t.Back)
	if err != nil {
		return Page{}, err
	}
	if req.Cursor != "" {
		p.Unknown = nil // rows before it may have them
	}
	p.Columns = r.columns()
	p.LiveRows = liveRows(views)
	p.Next, p.Prev = cursors(req, t, first, last, more)
	return p, nil
}

// cursors gives those of a page from its first and last row. Behind a page that
// was asked for backwards there is always the one that it was asked from.
func cursors(req PageRequest, t token, first, last Cursor, more bool) (next, prev string) {
	at := func(c Cursor, back, with bool) string {
		return token{Version: tokenVersion, Dataset: hashOf(req.Dataset), Desc: req.Desc, Back: back, With: with, ID: c.ID, Batch: c.Batch}.String()
	}
	switch {
	case first != (Cursor{}):
		if more || t.Back {
			next = at(last, false, false)
		}
		return next, at(first, true, false)
	case req.Cursor == "":
		return "", ""
	case t.Back: // nothing has arrived before the row: the same question again, and the row on
		return at(t.spot().Cursor, false, !t.With), req.Cursor
	}
	return "", at(t.spot().Cursor, true, !t.With)
}

// liveRows is the number of rows in the live chunks of batches, -1 where it is
// not known.
func liveRows(views []*view) int64 {
	var n int64
	for _, v := range views {
		for _, c := range v.chunks {
			rows, ok := v.rows[versionOf(c)]
			if !ok {
				return -1
			}
			n += rows
		}
	}
	return n
}
