package query

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
)

// DatasetInfo sums up a dataset.
type DatasetInfo struct {
	Name    string `json:"name"`
	Batches int    `json:"batches"`
	Rows    int64  `json:"rows"`  // merged
	Bytes   int64  `json:"bytes"` // of blocks, as stored
	// LiveRows is the number of rows in live chunks, -1 where it is unknown. A
	// merge may find some of them to be duplicates.
	LiveRows   int64    `json:"live_rows"`
	LiveChunks int64    `json:"live_chunks"`
	Annotators []string `json:"annotators"`
	// Layers are those of the annotators, where one dataset is asked about.
	Layers    []LayerInfo `json:"layers,omitempty"`
	UpdatedAt time.Time   `json:"updated_at,omitzero"` // of the last commit; zero: nothing is merged
}

// BatchInfo sums up a batch.
type BatchInfo struct {
	Name       string    `json:"name"`
	Rows       int64     `json:"rows"`
	Bytes      int64     `json:"bytes"`
	Generation int64     `json:"generation"` // 0: nothing is merged
	LiveRows   int64     `json:"live_rows"`  // as in DatasetInfo
	LiveChunks int64     `json:"live_chunks"`
	UpdatedAt  time.Time `json:"updated_at,omitzero"`
}

// LayerInfo sums up a layer. Annotations of rows that are gone count.
type LayerInfo struct {
	Annotator string `json:"annotator"`
	Batches   int    `json:"batches"`
	Rows      int64  `json:"rows"` // annotated, and merged
	// Share is Rows as a part of the merged rows of the dataset, 0 to 1.
	Share      float64     `json:"share"`
	Bytes      int64       `json:"bytes"`
	LiveRows   int64       `json:"live_rows"` // annotations; as in DatasetInfo
	LiveChunks int64       `json:"live_chunks"`
	UpdatedAt  time.Time   `json:"updated_at,omitzero"`
	Parts      []LayerPart `json:"parts,omitempty"` // by batch
}

// LayerPart sums up a layer's part of a batch, as LayerInfo does the whole.
type LayerPart struct {
	BatchInfo
	Share float64 `json:"share"` // of the merged rows of the batch
}

// Datasets sums up all datasets, in order of their names. A folder that holds no
// row, chunk or run is none.
func (e *Engine) Datasets(ctx context.Context) ([]DatasetInfo, error) {
	q := e.ask(ctx)
	defer func() { e.m.bytesRead.Add(float64(q.read.Load())) }()
	names, err := e.catalog.Datasets(ctx)
	if err != nil {
		return nil, fmt.Errorf("list datasets: %w", err)
	}
	groups := make([][]*view, len(names))
	err = q.each(len(names), func(ctx context.Context, i int) error {
		batches, err := e.catalog.Batches(ctx, names[i])
		if err != nil {
			return fmt.Errorf("list batches of %q: %w", names[i], err)
		}
		for _, b := range batches {
			groups[i] = append(groups[i], newView(dataset.BatchID{Dataset: names[i], Batch: b}))
		}
		_, err = q.annotators(ctx, names[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := q.lookAll(slices.Concat(groups...)); err != nil {
		return nil, err
	}
	infos := []DatasetInfo{}
	for i, views := range groups {
		if ok, err := q.anything(views); err != nil {
			return nil, err
		} else if !ok {
			continue
		}
		d, _, err := q.sum(names[i], views)
		if err != nil {
			return nil, err
		}
		infos = append(infos, d)
	}
	return infos, nil
}

// anything reports whether one of some batches is there, or was begun.
func (q *ask) anything(views []*view) (bool, error) {
	if slices.ContainsFunc(views, (*view).there) {
		return true, nil
	}
	for _, v := range views {
		if ok, _, err := written(q.ctx, q.store, &v.batch); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// Dataset sums up a dataset and its batches. A *NotFoundError names the nearest
// dataset where there is none of that name.
func (e *Engine) Dataset(ctx context.Context, name string) (DatasetInfo, []BatchInfo, error) {
	q := e.ask(ctx)
	defer func() { e.m.bytesRead.Add(float64(q.read.Load())) }()
	if err := dataset.CheckDataset(name); err != nil {
		return DatasetInfo{}, nil, err
	}
	batches, err := e.catalog.Batches(ctx, name)
	if err != nil {
		return DatasetInfo{}, nil, fmt.Errorf("list batches of %q: %w", name, err)
	}
	views, err := q.views(name, batches)
	if err != nil {
		return DatasetInfo{}, nil, err
	}
	if ok, err := q.anything(views); err != nil {
		return DatasetInfo{}, nil, err
	} else if !ok {
		return DatasetInfo{}, nil, q.noDataset(name)
	}
	info, parts, err := q.sum(name, views)
	if err == nil {
		info.Layers, err = q.layers(name, info.Annotators, views)
	}
	return info, parts, err
}

// Layers sums up the layers of a dataset without looking at its live rows; none
// for a dataset that is not there.
func (e *Engine) Layers(ctx context.Context, name string) ([]LayerInfo, error) {
	q := e.ask(ctx)
	defer func() { e.m.bytesRead.Add(float64(q.read.Load())) }()
	if err := dataset.CheckDataset(name); err != nil {
		return nil, err
	}
	annotators, err := q.annotators(ctx, name)
	if err != nil || len(annotators) == 0 {
		return nil, err
	}
	batches, err := e.catalog.Batches(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("list batches of %q: %w", name, err)
	}
	views, err := q.views(name, batches)
	if err != nil {
		return nil, err
	}
	return q.layers(name, annotators, views)
}

// layers sums up the layers of a dataset.
func (q *ask) layers(name string, annotators []string, views []*view) ([]LayerInfo, error) {
	out := make([]LayerInfo, len(annotators))
	var all int64
	of := map[string]int64{} // merged rows by batch
	for _, v := range views {
		of[v.id.Batch] = v.merged()
		all += v.merged()
	}
	err := q.each(len(annotators), func(_ context.Context, i int) error {
		parts, err := q.partsOf(name, annotators[i], views)
		if err != nil {
			return err
		}
		if err := q.countChunks(parts); err != nil {
			return err
		}
		d, batches := tally(parts)
		out[i] = LayerInfo{Annotator: annotators[i], Batches: d.Batches, Rows: d.Rows, Share: share(d.Rows, all), Bytes: d.Bytes,
			LiveRows: d.LiveRows, LiveChunks: d.LiveChunks, UpdatedAt: d.UpdatedAt}
		for _, b := range batches {
			out[i].Parts = append(out[i].Parts, LayerPart{b, share(b.Rows, of[b.Name])})
		}
		return nil
	})
	return out, err
}

// share is the part of rows that is annotated. It is no more than all of them,
// though annotations may outlive their rows.
func share(annotated, rows int64) float64 {
	if rows == 0 {
		return 0
	}
	return min(1, float64(annotated)/float64(rows))
}

// sum sums up batches, of which those that are not there are left out.
func (q *ask) sum(name string, views []*view) (DatasetInfo, []BatchInfo, error) {
	annotators, err := q.annotators(q.ctx, name)
	if err != nil {
		return DatasetInfo{}, nil, err
	}
	if err := q.countChunks(views); err != nil {
		return DatasetInfo{}, nil, err
	}
	d, batches := tally(views)
	d.Name, d.Annotators = name, annotators
	return d, batches, nil
}

// tally adds up batches.
func tally(views []*view) (d DatasetInfo, batches []BatchInfo) {
	batches = []BatchInfo{}
	for _, v := range views {
		if !v.there() && !v.head.Foreign {
			continue
		}
		b := BatchInfo{Name: v.id.Batch, LiveRows: liveRows([]*view{v}), LiveChunks: int64(len(v.chunks))}
		if r := v.head.Record; v.head.Exists() && !r.Deleted {
			b.Rows, b.Bytes, b.Generation, b.UpdatedAt = r.Rows, r.Bytes, r.Generation, r.CommittedAt
		}
		batches = append(batches, b)
		d.Batches++
		d.Rows += b.Rows
		d.Bytes += b.Bytes
		d.LiveChunks += b.LiveChunks
		if b.LiveRows < 0 || d.LiveRows < 0 {
			d.LiveRows = -1
		} else {
			d.LiveRows += b.LiveRows
		}
		if b.UpdatedAt.After(d.UpdatedAt) {
			d.UpdatedAt = b.UpdatedAt
		}
	}
	return d, batches
}

// countChunks finds out how many rows live chunks have where the catalog does
// not know, if they are few and small. One that is gone was merged meanwhile.
func (q *ask) countChunks(views []*view) error {
	type job struct {
		v *view
		i int
	}
	var todo []job
	var size int64
	for _, v := range views {
		for i, c := range v.chunks {
			if _, known := v.rows[versionOf(c)]; known {
				continue
			}
			if t, ok := q.e.chunks.Peek(keyOf(c)); ok {
				v.rows[versionOf(c)] = t.rows
				continue
			}
			todo = append(todo, job{v, i})
			size += c.Size
		}
	}
	if len(todo) > maxCountChunks || size > maxCountBytes {
		return nil
	}
	counts := make([]int64, len(todo))
	err := q.each(len(todo), func(ctx context.Context, i int) error {
		t, err := q.chunkTable(ctx, todo[i].v.chunks[todo[i].i])
		switch {
		case gone(err):
			return nil
		case err != nil:
			c := todo[i].v.chunks[todo[i].i]
			return fmt.Errorf("count rows of %s: %w", c.Key(), err)
		}
		counts[i] = t.rows
		return nil
	})
	for i, j := range todo {
		j.v.rows[versionOf(j.v.chunks[j.i])] = counts[i]
	}
	return err
}

// annotatorsAge is how long a list of annotators is taken for right: the catalog
// does not follow them, and a list of datasets is asked for often.
const annotatorsAge = 30 * time.Second

type annotatorList struct {
	names []string
	at    time.Time
}

// annotators lists who has annotated a dataset.
func (q *ask) annotators(ctx context.Context, name string) ([]string, error) {
	if l, ok := q.e.annotators.Peek(name); ok && time.Since(l.at) < annotatorsAge {
		return l.names, nil
	}
	l := annotatorList{names: []string{}, at: time.Now()}
	any := dataset.BatchID{Dataset: name, Batch: "b", Annotator: "a"}
	dir := strings.TrimSuffix(any.Dir(), "a/b/")
	for sub, err := range q.store.Dirs(ctx, dir) {
		if err != nil {
			return nil, fmt.Errorf("list annotators of %q: %w", name, err)
		}
		if a := strings.TrimSuffix(sub, "/"); dataset.CheckAnnotator(a) == nil {
			l.names = append(l.names, a)
		}
	}
	q.e.annotators.Put(name, l, int64(200+len(name)+220*len(l.names)))
	return l.names, nil
}
