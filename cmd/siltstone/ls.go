package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
)

type lsCmd struct {
	Dataset string `arg:"" optional:"" help:"List the batches of this dataset."`
}

// Help shows an example.
func (lsCmd) Help() string {
	return `Merged rows are counted by the commit records; live chunks hold rows that are not merged yet.
Of annotators it says how many of the merged rows they have annotated; +live: some more are not merged.
describe tells more, as does --json.

Example:
  siltstone ls jargon-file`
}

// batchLine is what ls says of a batch.
type batchLine struct {
	Dataset    string     `json:"dataset"`
	Batch      string     `json:"batch"`
	Rows       int64      `json:"rows"`
	Bytes      int64      `json:"bytes"`
	Generation int64      `json:"generation"`
	LiveChunks int        `json:"live_chunks"`
	LiveBytes  int64      `json:"live_bytes"`
	UpdatedAt  *time.Time `json:"updated_at"`
	// Layers are those of the annotators, by their names.
	Layers []layerLine `json:"layers"`
}

// datasetLine sums up a dataset.
type datasetLine struct {
	Name       string      `json:"name"`
	Batches    int         `json:"batches"`
	Rows       int64       `json:"rows"`
	Bytes      int64       `json:"bytes"`
	LiveChunks int         `json:"live_chunks"`
	LiveBytes  int64       `json:"live_bytes"`
	UpdatedAt  *time.Time  `json:"updated_at"`
	Layers     []layerLine `json:"layers"`
}

// Run prints one line per dataset or batch.
func (c *lsCmd) Run(ctx context.Context, a *app) error {
	if c.Dataset != "" {
		return c.batches(ctx, a)
	}
	names, err := catalog.Datasets(ctx, a.store)
	if err != nil {
		return err
	}
	t := newTable(a, "DATASET\tBATCHES\tROWS\tSIZE\tLIVE CHUNKS\tANNOTATORS\tUPDATED")
	for _, name := range names {
		bs, layers, err := batchLines(ctx, a, name)
		if err != nil {
			return err
		}
		sum := datasetLine{Name: name, Batches: len(bs), Layers: layers.all}
		for _, b := range bs {
			sum.Rows += b.Rows
			sum.Bytes += b.Bytes
			sum.LiveChunks += b.LiveChunks
			sum.LiveBytes += b.LiveBytes
			if b.UpdatedAt != nil && (sum.UpdatedAt == nil || b.UpdatedAt.After(*sum.UpdatedAt)) {
				sum.UpdatedAt = b.UpdatedAt
			}
		}
		if err := t.row(sum, "%s\t%d\t%d\t%s\t%d\t%s\t%s", name, sum.Batches, sum.Rows, size(sum.Bytes), sum.LiveChunks, summary(sum.Layers), ago(sum.UpdatedAt)); err != nil {
			return err
		}
	}
	return t.flush()
}

func (c *lsCmd) batches(ctx context.Context, a *app) error {
	bs, _, err := batchLines(ctx, a, c.Dataset)
	if err != nil {
		return err
	}
	t := newTable(a, "BATCH\tROWS\tSIZE\tGENERATION\tLIVE CHUNKS\tANNOTATORS\tUPDATED")
	for _, b := range bs {
		if err := t.row(b, "%s\t%d\t%s\t%d\t%d\t%s\t%s", b.Batch, b.Rows, size(b.Bytes), b.Generation, b.LiveChunks, summary(b.Layers), ago(b.UpdatedAt)); err != nil {
			return err
		}
	}
	return t.flush()
}

// batchLines are the batches of a dataset, and its layers.
func batchLines(ctx context.Context, a *app, name string) ([]batchLine, datasetLayers, error) {
	ids, err := batchesOf(ctx, a, name, nil)
	if err != nil {
		return nil, datasetLayers{}, err
	}
	layers, err := layersIn(ctx, a, name)
	if err != nil {
		return nil, datasetLayers{}, err
	}
	var out []batchLine
	for _, id := range ids {
		snap, err := catalog.Open(ctx, a.store, id)
		if err != nil {
			return nil, datasetLayers{}, err
		}
		r := snap.Head.Record
		if r.Deleted {
			continue
		}
		line := batchLine{Dataset: name, Batch: id.Batch, Rows: r.Rows, Bytes: r.Bytes, Generation: r.Generation, LiveChunks: len(snap.Live), Layers: layers.batch(id.Batch)}
		if snap.Head.Exists() {
			line.UpdatedAt = &r.CommittedAt
		}
		for _, ch := range snap.Live {
			line.LiveBytes += ch.Size
			if line.UpdatedAt == nil || ch.Modified.After(*line.UpdatedAt) {
				line.UpdatedAt = &ch.Modified
			}
		}
		out = append(out, line)
	}
	return out, layers, nil
}

// batchesOf gives the batches of a dataset, or the one named, and says so when
// there is no such thing.
func batchesOf(ctx context.Context, a *app, name string, only *string) ([]dataset.BatchID, error) {
	if err := dataset.CheckDataset(name); err != nil {
		return nil, exit(exitUsage, err)
	}
	if only != nil { // the empty name is not all of them
		if err := dataset.CheckBatch(*only); err != nil {
			return nil, exit(exitUsage, err)
		}
	}
	ids, err := catalog.Batches(ctx, a.store, name)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("no dataset %q (siltstone ls shows what there is)", name)
	}
	if only == nil {
		return ids, nil
	}
	for _, id := range ids {
		if id.Batch == *only {
			return []dataset.BatchID{id}, nil
		}
	}
	return nil, fmt.Errorf("no batch %q in dataset %q (siltstone ls %s shows what there is)", *only, name, name)
}

// table prints rows for people, or one JSON object per line with --json.
type table struct {
	a *app
	w *tabwriter.Writer
}

func newTable(a *app, header string) *table {
	t := &table{a: a, w: tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)}
	if !a.json {
		fmt.Fprintln(t.w, header)
	}
	return t
}

func (t *table) row(v any, format string, args ...any) error {
	if t.a.json {
		return t.a.printJSON(v)
	}
	_, err := fmt.Fprintf(t.w, format+"\n", args...)
	return err
}

func (t *table) flush() error { return t.w.Flush() }

func size(n int64) string { return humanize.Bytes(uint64(n)) }

func ago(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return humanize.Time(*t)
}
