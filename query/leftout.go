package query

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/objstore"
)

// LeftOut says what a read without live rows leaves out.
type LeftOut struct {
	Rows   int64 `json:"rows"` // at least, unless Exact
	Chunks int64 `json:"chunks"`
	Bytes  int64 `json:"bytes"`
	Exact  bool  `json:"exact"` // the rows of all chunks were counted
	// Foreign are the batches of another tool that no merge has adopted yet;
	// their rows are not counted.
	Foreign int64 `json:"foreign"`
}

// The bounds of what LiveRows reads to count rows.
const (
	maxCountChunks = 1000
	maxCountBytes  = 32 << 20
)

// LiveRows counts the rows of a dataset, or of some batches of it, that lie in
// live chunks. Only their chunks tell, so up to 1,000 of them and 32 MiB are
// read; past that, Rows is what was counted so far and Exact is false. A row
// counts although a merge may find it to be a duplicate of another.
func LiveRows(ctx context.Context, s objstore.Store, dataset string, batches []string) (LeftOut, error) {
	return liveOf(&reader{ctx: ctx, store: s, o: Options{Dataset: dataset, Batches: batches}})
}

// LiveAnnotations counts the annotations of a layer, or of some batches of it,
// that lie in live chunks, as LiveRows counts rows.
func LiveAnnotations(ctx context.Context, s objstore.Store, dataset, annotator string, batches []string) (LeftOut, error) {
	return liveOf(&reader{ctx: ctx, store: s, layer: annotator, o: Options{Dataset: dataset, Annotators: []string{annotator}, Batches: batches}})
}

// LeftOutBy says what a read with these options leaves out, were they without
// Live: rows, and annotations by annotator, of the layers that it lays beside them
// or that its filter asks.
func LeftOutBy(ctx context.Context, s objstore.Store, o Options) (rows LeftOut, layers map[string]LeftOut, err error) {
	if rows, err = LiveRows(ctx, s, o.Dataset, o.Batches); err != nil {
		return rows, nil, err
	}
	names := slices.Clone(o.Annotators)
	q, err := newQuestion(ctx, o)
	if err != nil {
		return rows, nil, err
	}
	if q.mayUseLayers() {
		known, err := catalog.Annotators(ctx, s, o.Dataset)
		if err != nil {
			return rows, nil, err
		}
		if q, err = q.resolve(known); err != nil {
			return rows, nil, err
		}
		for _, c := range q.columns() {
			if c.Layer != "" {
				names = append(names, c.Layer)
			}
		}
	}
	slices.Sort(names)
	layers = map[string]LeftOut{}
	for _, a := range slices.Compact(names) {
		out, err := LiveAnnotations(ctx, s, o.Dataset, a, o.Batches)
		if err != nil {
			return rows, nil, fmt.Errorf("layer %s: %w", a, err)
		}
		if out.Chunks > 0 {
			layers[a] = out
		}
	}
	return rows, layers, nil
}

func liveOf(r *reader) (LeftOut, error) {
	if err := r.o.check(); err != nil {
		return LeftOut{}, err
	}
	ctx, s := r.ctx, r.store
	ids, err := r.list()
	if r.layer != "" && r.o.Batches == nil && err == nil {
		ids, err = catalog.LayerBatches(ctx, s, r.o.Dataset, r.layer)
	}
	if err != nil {
		return LeftOut{}, err
	}
	var mu sync.Mutex
	var out LeftOut
	var count []catalog.Chunk
	err = each(ctx, r.o.parallel(), len(ids), func(ctx context.Context, i int) error {
		snap, err := catalog.Open(ctx, s, ids[i])
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if snap.Head.Foreign {
			out.Foreign++
		}
		for _, c := range snap.Live {
			out.Chunks++
			if out.Bytes += c.Size; out.Chunks <= maxCountChunks && out.Bytes <= maxCountBytes {
				count = append(count, c)
			}
		}
		return nil
	})
	if err != nil {
		return LeftOut{}, err
	}
	out.Exact = int64(len(count)) == out.Chunks
	err = each(ctx, r.o.parallel(), len(count), func(ctx context.Context, i int) error {
		n, err := countRows(ctx, s, count[i])
		mu.Lock()
		defer mu.Unlock()
		out.Rows += n
		return err
	})
	return out, err
}

// countRows counts the rows of a chunk. One that is gone was merged meanwhile.
func countRows(ctx context.Context, s objstore.Store, c catalog.Chunk) (n int64, err error) {
	body, err := fetch(ctx, s, c)
	if gone(err) {
		return 0, nil
	}
	if err == nil {
		for _, rowErr := range chunkRows(bytes.NewReader(body), c, nil) {
			if err = rowErr; err != nil {
				break
			}
			n++
		}
	}
	if err != nil {
		return 0, fmt.Errorf("count rows of %s: %w", c.Key(), err)
	}
	return n, nil
}
