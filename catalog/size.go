package catalog

import (
	"context"

	"github.com/siltstone-data/siltstone/objstore"
)

// DatasetBytes sums up the blocks of all batches of a dataset, without layers,
// by reading every commit record. Batches that change meanwhile count as they
// were or as they are.
func DatasetBytes(ctx context.Context, s objstore.Store, name string) (int64, error) {
	batches, err := Batches(ctx, s, name)
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, b := range batches {
		h, err := ReadHead(ctx, s, b)
		if err != nil {
			return 0, err
		}
		if !h.Record.Deleted {
			sum += h.Record.Bytes
		}
	}
	return sum, nil
}
