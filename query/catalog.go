package query

import (
	"context"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// Catalog tells what exists and which chunks are live. It may be behind the
// store, and never ahead of it: what it says is read before the commit record,
// and the record has the last word.
type Catalog interface {
	// Datasets gives the names of all datasets, sorted.
	Datasets(ctx context.Context) ([]string, error)
	// Batches gives the names of the batches of a dataset, sorted; none for a
	// dataset that is not there.
	Batches(ctx context.Context, dataset string) ([]string, error)
	// Layer gives the names of the batches that an annotator has written to,
	// sorted; none for one who has not.
	Layer(ctx context.Context, dataset, annotator string) ([]string, error)
	// Live gives the live chunks of a batch, or of a layer's part of it. Chunks
	// that were absorbed already may be among them.
	Live(ctx context.Context, b dataset.BatchID) (LiveChunks, error)
}

// LiveChunks are the live chunks of a batch as a Catalog knows them. (Live is
// the option of Rows.)
type LiveChunks struct {
	// Generation of the commit record that the list goes with: every chunk that
	// it leaves out as absorbed is in a record of this generation or an earlier
	// one. 0 where the catalog does not know; then the record is always read.
	Generation int64
	Chunks     []Chunk
}

// Chunk is a live chunk of a batch.
type Chunk struct {
	Run    dataset.Run
	Number int
	ETag   string
	Bytes  int64
	Rows   int64 // -1: unknown
}

// Listed is the catalog that a store's listings give: always right, at the cost
// of a few requests for each question.
func Listed(store objstore.Store) Catalog { return listed{store} }

type listed struct{ store objstore.Store }

func (l listed) Datasets(ctx context.Context) ([]string, error) {
	return catalog.Datasets(ctx, l.store)
}

func (l listed) Batches(ctx context.Context, d string) ([]string, error) {
	ids, err := catalog.Batches(ctx, l.store, d)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(ids))
	for i, b := range ids {
		names[i] = b.Batch
	}
	return names, nil
}

func (l listed) Layer(ctx context.Context, d, annotator string) ([]string, error) {
	ids, err := catalog.LayerBatches(ctx, l.store, d, annotator)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(ids))
	for i, b := range ids {
		names[i] = b.Batch
	}
	return names, nil
}

func (l listed) Live(ctx context.Context, b dataset.BatchID) (LiveChunks, error) {
	list, err := catalog.ListLive(ctx, l.store, b)
	if err != nil {
		return LiveChunks{}, err
	}
	out := LiveChunks{Chunks: make([]Chunk, len(list.Chunks))}
	for i, c := range list.Chunks {
		out.Chunks[i] = Chunk{Run: c.Run, Number: c.Number, ETag: c.ETag, Bytes: c.Size, Rows: -1}
	}
	return out, nil
}
