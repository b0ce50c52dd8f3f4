package catalog

import (
	"context"
	"fmt"
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
