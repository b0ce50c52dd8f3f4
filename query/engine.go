package query

import (
	"context"
	"errors"
	"iter"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/objstore"
)

// EngineConfig holds the settings of an Engine.
type EngineConfig struct {
	WorkDir    string // for spill files; the system's temporary folder when empty
	CacheDir   string // of the disk cache; none when empty
	CacheBytes int64  // bound of the disk cache; 1 GiB when 0
	Parallel   int    // most requests to the store at once for one question; 8 when 0
}

// Engine answers questions about datasets: pages, rows, counts, what there is.
// All methods may be called at once from many goroutines.
type Engine struct {
	store   objstore.Store
	catalog Catalog
	cfg     EngineConfig
	log     *slog.Logger
}

// NewEngine makes an Engine over a store. With a CacheDir it takes the folder
// for this process alone, until Close.
func NewEngine(store objstore.Store, cat Catalog, cfg EngineConfig, log *slog.Logger, reg prometheus.Registerer) (*Engine, error) {
	return &Engine{store: store, catalog: cat, cfg: cfg, log: log}, nil
}

// Close gives the cache folder back.
func (e *Engine) Close() error { return nil }

// Rows is the function Rows over the engine's store.
func (e *Engine) Rows(ctx context.Context, o Options) iter.Seq2[Row, error] {
	if o.WorkDir == "" {
		o.WorkDir = e.cfg.WorkDir
	}
	return Rows(ctx, e.store, o)
}

// Datasets sums up all datasets, in order of their names.
func (e *Engine) Datasets(ctx context.Context) ([]DatasetInfo, error) {
	return nil, errors.ErrUnsupported
}

// Dataset sums up a dataset and its batches. A *NotFoundError names the nearest
// dataset where there is none of that name.
func (e *Engine) Dataset(ctx context.Context, name string) (DatasetInfo, []BatchInfo, error) {
	return DatasetInfo{}, nil, errors.ErrUnsupported
}

// Schema tells the columns of a dataset.
func (e *Engine) Schema(ctx context.Context, name string) ([]Column, error) {
	return nil, errors.ErrUnsupported
}

// Page gives one page of rows.
func (e *Engine) Page(ctx context.Context, q PageRequest) (Page, error) {
	return Page{}, errors.ErrUnsupported
}

// Row gives the row of that id in a batch, or in all batches where batch is
// empty, in order of the batches. None is a *NotFoundError.
func (e *Engine) Row(ctx context.Context, dataset, id, batch string) ([]Row, error) {
	return nil, errors.ErrUnsupported
}

// Count counts the rows of a dataset, or of some batches of it.
func (e *Engine) Count(ctx context.Context, dataset string, batches []string) (n int64, exact bool, err error) {
	return 0, false, errors.ErrUnsupported
}
