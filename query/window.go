package query

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query/duck"
)

// The bounds of a window. The first one is small: whoever wants few rows should
// not wait for many.
const (
	firstWindow = 64
	windowRows  = 2048
	windowBytes = 4 << 20
)

// window holds rows until the expressions of a filter have been asked about them.
//
// An expression is asked only about rows that the rest of the filter leaves open,
// wherever it stands: those that pass with one answer and not with another. So
// conditions in JSON keep rows from an expression that it could not deal with, and
// spare the time.
type window struct {
	ctx    context.Context // a window lives within the read that has it
	m      *matcher
	leaves []leaf
	rows   []held
	at     int
	size   int
	err    error // what ended the rows, given behind the last of them
}

// leaf is an expression and where its columns are among those of the matcher.
type leaf struct {
	expr   *duck.Expr
	places []int
}

// held is a row that may pass. One that is decided has no values.
type held struct {
	row     Row
	values  [][]byte // of the matcher's columns
	answers []dataset.Truth
}

// unasked stands for an answer that is not there.
const unasked dataset.Truth = -1

func newWindow(ctx context.Context, m *matcher) *window {
	w := &window{ctx: ctx, m: m, size: firstWindow}
	for i, x := range m.q.exprs {
		l := leaf{expr: x}
		for _, c := range m.q.asks[i].Columns() {
			l.places = append(l.places, slices.Index(m.refs, c))
		}
		w.leaves = append(w.leaves, l)
	}
	return w
}

// next gives the next row that passes.
func (w *window) next(j *join) (Row, error) {
	for {
		for w.at < len(w.rows) {
			w.at++
			if h := &w.rows[w.at-1]; h.row.Raw != nil {
				return h.row, nil
			}
		}
		if w.err != nil {
			return Row{}, w.err
		}
		clear(w.rows)
		w.rows, w.at = w.rows[:0], 0
		w.fill(j)
		for i := range w.leaves {
			if err := w.ask(i); err != nil {
				return Row{}, err
			}
		}
		w.size = min(2*w.size, windowRows)
	}
}

// fill takes rows that are true without the expressions, or may be with them.
func (w *window) fill(j *join) {
	for size := 0; len(w.rows) < w.size && size < windowBytes; {
		row, ok, err := j.look()
		if err != nil {
			w.err = err
			return
		}
		if !ok {
			continue
		}
		row.Raw = bytes.Clone(row.Raw) // values lie in it, and stay
		h := held{row: row}
		if ok, err = w.judge(&h, j.notes); err == nil && ok && len(j.show) > 0 {
			h.row.Raw, err = j.appendShown(nil, row)
		}
		if err != nil {
			w.err = err
			return
		}
		if ok {
			size += len(row.Raw) + len(h.row.Raw)
			w.rows = append(w.rows, h)
		}
	}
}

// judge reports whether a row passes or may pass, and keeps what is needed to say.
func (w *window) judge(h *held, notes [][]byte) (bool, error) {
	if err := w.m.look(h.row, notes); err != nil {
		return false, err
	}
	lo, hi := w.m.filter.Bounds(
		func(c dataset.ColumnRef) []byte { return w.m.value(h.row, c) },
		func(int) (dataset.Truth, dataset.Truth) { return dataset.False, dataset.True })
	if lo == dataset.True || hi != dataset.True {
		return lo == dataset.True, nil
	}
	h.values, h.answers = make([][]byte, len(w.m.refs)), make([]dataset.Truth, len(w.leaves))
	for i, c := range w.m.refs {
		h.values[i] = w.m.value(h.row, c)
		if c.Layer != "" {
			h.values[i] = bytes.Clone(h.values[i])
		}
	}
	for i := range h.answers {
		h.answers[i] = unasked
	}
	return true, nil
}

// bounds is what the filter may say of an open row with the answers so far; asks
// reports whether it needs that of an expression.
func (w *window) bounds(h *held, expression int) (lo, hi dataset.Truth, asks bool) {
	lo, hi = w.m.filter.Bounds(
		func(c dataset.ColumnRef) []byte { return h.values[slices.Index(w.m.refs, c)] },
		func(i int) (dataset.Truth, dataset.Truth) {
			asks = asks || i == expression
			if h.answers[i] == unasked {
				return dataset.False, dataset.True
			}
			return h.answers[i], h.answers[i]
		})
	return lo, hi, asks
}

// ask asks an expression about the rows that are open, and decides those that it
// settles.
func (w *window) ask(expression int) error {
	l := &w.leaves[expression]
	raw := make([][]byte, len(l.places))
	for from := 0; from < len(w.rows); {
		batch, asked := l.expr.Batch(), []*held(nil)
		for ; from < len(w.rows) && !batch.Full(); from++ {
			h := &w.rows[from]
			if h.values == nil {
				continue
			}
			if _, _, asks := w.bounds(h, expression); !asks {
				continue
			}
			for i, place := range l.places {
				raw[i] = h.values[place]
			}
			asked = append(asked, h)
			if err := batch.Add(raw); err != nil {
				return ofRow(err, asked)
			}
		}
		if len(asked) == 0 {
			continue
		}
		answers, err := batch.Decide(w.ctx)
		if err != nil {
			return ofRow(err, asked)
		}
		for i, h := range asked {
			h.answers[expression] = answers[i]
		}
	}
	for i := range w.rows {
		h := &w.rows[i]
		if h.values == nil {
			continue
		}
		switch lo, hi, _ := w.bounds(h, expression); {
		case lo == dataset.True:
			h.values = nil
		case hi != dataset.True:
			h.values, h.row.Raw = nil, nil
		}
	}
	return nil
}

// ofRow names the row that an expression can say nothing of.
func ofRow(err error, rows []*held) error {
	var bad *duck.RowError
	if errors.As(err, &bad) && bad.Row < len(rows) {
		row := rows[bad.Row].row
		return fmt.Errorf("row %q of batch %s: %w", row.ID, row.Batch, err)
	}
	return err
}
