package catalog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// Datasets lists the datasets of a store.
func Datasets(ctx context.Context, s objstore.Store) ([]string, error) {
	ds, err := names(ctx, s, "", dataset.CheckDataset)
	if err != nil {
		return nil, fmt.Errorf("list datasets: %w", err)
	}
	return ds, nil
}

// Batches lists the batches of a dataset, merged or not; those of layers are
// not among them.
func Batches(ctx context.Context, s objstore.Store, d string) ([]dataset.BatchID, error) {
	bs, err := names(ctx, s, d+"/", dataset.CheckBatch)
	if err != nil {
		return nil, fmt.Errorf("list batches of %s: %w", d, err)
	}
	ids := make([]dataset.BatchID, len(bs))
	for i, b := range bs {
		ids[i] = dataset.BatchID{Dataset: d, Batch: b}
	}
	return ids, nil
}

// AllBatches lists the batches of a dataset and, after them, those of its layers,
// merged or not.
func AllBatches(ctx context.Context, s objstore.Store, d string) ([]dataset.BatchID, error) {
	ids, err := Batches(ctx, s, d)
	if err != nil {
		return nil, err
	}
	annotators, err := Annotators(ctx, s, d)
	if err != nil {
		return nil, err
	}
	for _, a := range annotators {
		of, err := LayerBatches(ctx, s, d, a)
		if err != nil {
			return nil, err
		}
		ids = append(ids, of...)
	}
	return ids, nil
}

// LayerBatches lists the batches that an annotator has written to, merged or not.
func LayerBatches(ctx context.Context, s objstore.Store, d, annotator string) ([]dataset.BatchID, error) {
	seen := map[string]bool{}
	of := dataset.BatchID{Dataset: d, Batch: "b", Annotator: annotator}
	// Live first: what a merge takes away there in between is in the other then.
	for _, dir := range []string{of.LiveDir(), of.Dir()} {
		bs, err := names(ctx, s, strings.TrimSuffix(dir, "b/"), dataset.CheckBatch)
		if err != nil {
			return nil, fmt.Errorf("list batches of layer %s of %s: %w", annotator, d, err)
		}
		for _, b := range bs {
			seen[b] = true
		}
	}
	var ids []dataset.BatchID
	for _, b := range slices.Sorted(maps.Keys(seen)) {
		ids = append(ids, dataset.BatchID{Dataset: d, Batch: b, Annotator: annotator})
	}
	return ids, nil
}

// OlderChunks lists the live chunks of a layer that an older tool has written,
// with rows of many batches, and that are not split yet.
func OlderChunks(ctx context.Context, s objstore.Store, d, annotator string) ([]objstore.Info, error) {
	prefix := dataset.OldChunkDir(d, annotator) + "chunk_"
	var out []objstore.Info
	for info, err := range s.List(objstore.ExpectFew(ctx), prefix, "") {
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", prefix, err)
		}
		if k := dataset.ParseKey(info.Key); k.Kind == dataset.KindOldChunk && info.Size > 0 {
			out = append(out, info)
		}
	}
	return out, nil
}

// Annotators lists who has a layer of a dataset.
func Annotators(ctx context.Context, s objstore.Store, d string) ([]string, error) {
	as, err := names(ctx, s, dataset.LayersDir(d), dataset.CheckAnnotator)
	if err != nil {
		return nil, fmt.Errorf("list layers of %s: %w", d, err)
	}
	return as, nil
}

func names(ctx context.Context, s objstore.Store, prefix string, check func(string) error) ([]string, error) {
	var out []string
	for dir, err := range s.Dirs(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		if n := strings.TrimSuffix(dir, "/"); check(n) == nil {
			out = append(out, n)
		}
	}
	return out, nil
}
