package query

import (
	"context"
	"fmt"
	"strings"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query/duck"
)

// SQL runs the expressions of filters. It may be used from many goroutines.
type SQL = duck.Engine

// SQLConfig holds the settings of a SQL.
type SQLConfig = duck.Config

// ErrBusy reports that all connections for expressions are at work.
var ErrBusy = duck.ErrBusy

// NewSQL makes a SQL. It costs nothing until a filter has an expression.
func NewSQL(c SQLConfig) (*SQL, error) { return duck.New(c) }

// question is a filter with its expressions. A nil one asks nothing.
type question struct {
	where *dataset.Filter
	exprs []*duck.Expr
	asks  []*dataset.Filter // for each expression, something about each of its columns
}

// newQuestion checks the expressions of a filter.
func newQuestion(ctx context.Context, o Options) (*question, error) {
	if o.Where == nil {
		return nil, nil
	}
	q := &question{where: o.Where}
	engine := o.SQL
	for _, text := range o.Where.SQL() {
		if engine == nil {
			engine = duck.Shared()
		}
		x, err := engine.Compile(ctx, text)
		if err != nil {
			return nil, err
		}
		var parts []*dataset.Filter
		for _, name := range x.Columns() {
			f, err := dataset.Compare(dataset.ColumnRef{Column: name}, dataset.IsNull, nil)
			if err != nil {
				return nil, err
			}
			parts = append(parts, f)
		}
		q.exprs, q.asks = append(q.exprs, x), append(q.asks, dataset.All(parts...))
	}
	return q, nil
}

// plainQuestion is that of a filter which may have no expressions: whoever asks
// for a page is not who has the machine.
func plainQuestion(f *dataset.Filter) (*question, error) {
	if f == nil {
		return nil, nil
	}
	if len(f.SQL()) > 0 {
		return nil, fmt.Errorf("%w: pages take no expression in SQL; write the filter as JSON", dataset.ErrFilter)
	}
	return &question{where: f}, nil
}

// columns are those of the filter and then those of its expressions, each once.
func (q *question) columns() []dataset.ColumnRef {
	if q == nil {
		return nil
	}
	return dataset.All(append([]*dataset.Filter{q.where}, q.asks...)...).Columns()
}

// mayUseLayers reports whether there is a name that a field of a layer could have.
func (q *question) mayUseLayers() bool {
	for _, c := range q.columns() {
		if c.Layer != "" || strings.Contains(c.Column, ".") {
			return true
		}
	}
	return false
}

// resolve tells columns of rows from fields of these layers.
func (q *question) resolve(annotators []string) (*question, error) {
	if q == nil {
		return nil, nil
	}
	none := func(string) bool { return false }
	out := &question{exprs: q.exprs, asks: make([]*dataset.Filter, len(q.asks))}
	var err error
	if out.where, err = q.where.Resolve(annotators, none); err != nil {
		return nil, err
	}
	for i, f := range q.asks {
		if out.asks[i], err = f.Resolve(annotators, none); err != nil {
			return nil, err
		}
	}
	return out, nil
}
