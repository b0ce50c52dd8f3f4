package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/siltstone-data/siltstone/query"
)

// layerLine is what ls and describe say of a layer of a dataset, or of its part
// of a batch.
type layerLine struct {
	Annotator  string     `json:"annotator"`
	Rows       int64      `json:"rows"`  // annotated, and merged
	Share      float64    `json:"share"` // of the merged rows, 0 to 1
	Bytes      int64      `json:"bytes"`
	LiveRows   *int64     `json:"live_rows"` // annotations that are not merged; null: unknown
	LiveChunks int64      `json:"live_chunks"`
	UpdatedAt  *time.Time `json:"updated_at"`
}

// datasetLayers are the layers of a dataset, and of each batch, in order of the
// annotators' names.
type datasetLayers struct {
	all     []layerLine
	ofBatch map[string][]layerLine
}

// layersIn sums up the layers of a dataset.
func layersIn(ctx context.Context, a *app, name string) (datasetLayers, error) {
	l := datasetLayers{all: []layerLine{}, ofBatch: map[string][]layerLine{}}
	engine, err := query.NewEngine(a.store, query.Listed(a.store), query.EngineConfig{WorkDir: a.workDir}, a.log, nil)
	if err != nil {
		return l, err
	}
	defer engine.Close()
	infos, err := engine.Layers(ctx, name)
	if err != nil {
		return l, err
	}
	for _, i := range infos {
		l.all = append(l.all, newLayerLine(i.Annotator, i.Share, query.BatchInfo{Rows: i.Rows, Bytes: i.Bytes,
			LiveRows: i.LiveRows, LiveChunks: i.LiveChunks, UpdatedAt: i.UpdatedAt}))
		for _, p := range i.Parts {
			l.ofBatch[p.Name] = append(l.ofBatch[p.Name], newLayerLine(i.Annotator, p.Share, p.BatchInfo))
		}
	}
	return l, nil
}

// batch gives the layers of a batch: a list, if an empty one.
func (l datasetLayers) batch(name string) []layerLine {
	if of, ok := l.ofBatch[name]; ok {
		return of
	}
	return []layerLine{}
}

func newLayerLine(annotator string, share float64, b query.BatchInfo) layerLine {
	l := layerLine{Annotator: annotator, Rows: b.Rows, Share: share, Bytes: b.Bytes, LiveChunks: b.LiveChunks}
	if b.LiveRows >= 0 {
		l.LiveRows = &b.LiveRows
	}
	if !b.UpdatedAt.IsZero() {
		l.UpdatedAt = &b.UpdatedAt
	}
	return l
}

// String says it in one line.
func (l layerLine) String() string {
	live := "unknown"
	if l.LiveRows != nil {
		live = count(*l.LiveRows, "annotation")
	}
	return fmt.Sprintf("%s annotated (%s), %s; live %s in %s", count(l.Rows, "row"), percent(l.Share), size(l.Bytes), live, count(l.LiveChunks, "chunk"))
}

// summary names the annotators with their shares.
func summary(layers []layerLine) string {
	if len(layers) == 0 {
		return "-"
	}
	parts := make([]string, len(layers))
	for i, l := range layers {
		parts[i] = l.Annotator + " " + percent(l.Share)
		if l.LiveChunks > 0 {
			parts[i] += "+live"
		}
	}
	return strings.Join(parts, ", ")
}

// percent is whole, and 0% and 100% for nothing and all alone.
func percent(share float64) string {
	switch {
	case share > 0 && share < 0.01:
		return "<1%"
	case share > 0.99 && share < 1:
		return ">99%"
	}
	return fmt.Sprintf("%.0f%%", 100*share)
}
