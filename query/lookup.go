package query

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
)

// Row gives the row of that id in a batch, or in all batches where batch is
// empty, in order of the batches, each with all its annotations. None is a
// *NotFoundError.
func (e *Engine) Row(ctx context.Context, dataset, id, batch string) ([]Found, error) {
	q := e.ask(ctx)
	defer func() { e.m.bytesRead.Add(float64(q.read.Load())) }()
	var names []string
	if batch != "" {
		names = []string{batch}
	}
	views, err := q.open(dataset, names)
	if err != nil {
		return nil, err
	}
	var rows []Found
	if id != "" {
		w, err := q.newWalk(views, spot{Cursor: Cursor{ID: id}}, false, 1)
		if err != nil {
			return nil, err
		}
		for {
			row, err := w.next()
			if err == io.EOF || err == nil && row.ID != id {
				break
			}
			if err != nil {
				return nil, err
			}
			row.Raw = bytes.Clone(row.Raw) // it may lie in a cache
			rows = append(rows, Found{Row: row})
		}
	}
	if len(rows) == 0 {
		return nil, &NotFoundError{What: "row", Name: id}
	}
	slices.SortStableFunc(rows, func(a, b Found) int { return strings.Compare(a.Batch, b.Batch) })
	return rows, q.annotate(dataset, id, views, rows)
}
