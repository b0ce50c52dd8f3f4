package query

import (
	"context"
	"fmt"
	"slices"
)

// partsOf looks at the parts of a layer that belong to some batches.
func (q *ask) partsOf(name, annotator string, of []*view) ([]*view, error) {
	has, err := q.e.catalog.Layer(q.ctx, name, annotator)
	if err != nil {
		return nil, fmt.Errorf("list batches of layer %s of %q: %w", annotator, name, err)
	}
	var views []*view
	for _, v := range of {
		if _, ok := slices.BinarySearch(has, v.id.Batch); ok {
			id := v.id
			id.Annotator = annotator
			views = append(views, newView(id))
		}
	}
	return views, q.lookAll(views)
}

// layerViews are the parts of a layer that have annotations to show.
func (q *ask) layerViews(name, annotator string, of []*view) ([]*view, error) {
	views, err := q.partsOf(name, annotator, of)
	if err != nil {
		return nil, err
	}
	for _, v := range views {
		if v.head.Foreign {
			return nil, adopt(v.id)
		}
	}
	return slices.DeleteFunc(views, func(v *view) bool { return !v.there() }), nil
}

// layerWalk walks through a layer beside the rows of some batches.
func (q *ask) layerWalk(name, annotator string, of []*view, from spot, down bool, n int) (*walk, error) {
	views, err := q.layerViews(name, annotator, of)
	if err != nil {
		return nil, fmt.Errorf("layer %s: %w", annotator, err)
	}
	return q.newWalk(views, from, down, n)
}

// known gives the annotators of a dataset, with these among them if they have
// begun since the list was made.
func (q *ask) known(name string, asked []string) ([]string, error) {
	names, err := q.annotators(q.ctx, name)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(asked, func(a string) bool { return !slices.Contains(names, a) }) {
		q.e.annotators.Drop(name)
		return q.annotators(q.ctx, name)
	}
	return names, nil
}

// Annotation is what an annotator wrote of a row.
type Annotation struct {
	Annotator string
	Live      bool   // it is not merged yet
	Raw       []byte // the whole line: id, _batch, _created_at, data, metadata
}

// Found is a row and all that annotators wrote of it, in order of their names.
type Found struct {
	Row
	Annotations []Annotation
}

// annotate finds what the annotators of a dataset wrote of the rows of one id.
func (q *ask) annotate(name, id string, views []*view, rows []Found) error {
	names, err := q.annotators(q.ctx, name)
	if err != nil {
		return err
	}
	of := make([][]Annotation, len(names)*len(rows))
	err = q.each(len(names), func(_ context.Context, i int) error {
		w, err := q.layerWalk(name, names[i], views, spot{Cursor: Cursor{ID: id}}, false, 1)
		if err != nil {
			return err
		}
		l := &layer{name: names[i], in: w}
		for n, r := range rows { // they come in order
			raw, err := l.seek(Cursor{r.ID, r.Batch}, false)
			if err != nil {
				return fmt.Errorf("layer %s: %w", names[i], err)
			}
			if raw != nil {
				of[i*len(rows)+n] = []Annotation{{Annotator: names[i], Live: l.row.Live, Raw: slices.Clone(raw)}}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for n := range rows {
		for i := range names {
			rows[n].Annotations = append(rows[n].Annotations, of[i*len(rows)+n]...)
		}
	}
	return nil
}
