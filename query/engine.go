package query

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/cache"
)

// EngineConfig holds the settings of an Engine.
type EngineConfig struct {
	WorkDir    string // for spill files; the system's temporary folder when empty
	CacheDir   string // of the disk cache; none when empty
	CacheBytes int64  // bound of the disk cache; 1 GiB when 0
	// Parallel is the most requests to the store at once for one question; 8
	// when 0. For live chunks, which are small and many, it may be four times
	// that, unless it is 1.
	Parallel int
}

// The bounds of what an Engine keeps in memory.
const (
	headsBytes  = 32 << 20  // commit records
	footerBytes = 96 << 20  // footers of parquet blocks
	tablesBytes = 64 << 20  // frame tables: some 30 KB for a block of 50,000 rows
	chunksBytes = 192 << 20 // tables of live chunks: some 120 bytes for a row
	bodiesBytes = 64 << 20  // live chunks themselves

	annotatorsBytes = 4 << 20
)

const defaultCacheBytes = 1 << 30

// Validate names the field that makes a configuration unusable.
func (c EngineConfig) Validate() error {
	switch {
	case c.CacheBytes < 0:
		return fmt.Errorf("query: CacheBytes is %d, it must not be negative", c.CacheBytes)
	case c.Parallel < 0:
		return fmt.Errorf("query: Parallel is %d, it must not be negative", c.Parallel)
	}
	return nil
}

// Engine answers questions about datasets: pages, rows, counts, what there is.
// All methods may be called at once from many goroutines.
//
// Whatever it keeps never changes: frame tables and frames of blocks, chunks by
// their ETag, commit records by their generation. What may change is asked of
// the catalog and the store for every question.
type Engine struct {
	store   objstore.Store
	catalog Catalog
	cfg     EngineConfig
	log     *slog.Logger
	m       *engineMetrics

	maxTable int64
	scanTime time.Duration

	heads   *cache.Memory[dataset.BatchID, catalog.Head]
	tables  *cache.Memory[cache.Key, []block.Frame]
	footers *cache.Memory[cache.Key, *block.Parquet]
	chunks  *cache.Memory[chunkKey, *chunkTable]
	bodies  *cache.Memory[chunkKey, []byte]
	disk    *cache.Disk // may be nil

	annotators *cache.Memory[string, annotatorList]
}

// NewEngine makes an Engine over a store. With a CacheDir it takes the folder
// for this process alone, until Close; cache.ErrInUse says that another has it.
func NewEngine(store objstore.Store, cat Catalog, cfg EngineConfig, log *slog.Logger, reg prometheus.Registerer) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := cache.NewMetrics(reg)
	e := &Engine{
		store: store, catalog: cat, cfg: cfg, log: log, m: newEngineMetrics(reg), maxTable: maxTable, scanTime: scanTime,
		heads:   cache.NewMemory[dataset.BatchID, catalog.Head]("records", headsBytes, m),
		tables:  cache.NewMemory[cache.Key, []block.Frame]("frame_tables", tablesBytes, m),
		footers: cache.NewMemory[cache.Key, *block.Parquet]("footers", footerBytes, m),
		chunks:  cache.NewMemory[chunkKey, *chunkTable]("chunk_tables", chunksBytes, m),
		bodies:  cache.NewMemory[chunkKey, []byte]("chunks", bodiesBytes, m),

		annotators: cache.NewMemory[string, annotatorList]("annotators", annotatorsBytes, m),
	}
	if cfg.CacheDir == "" {
		return e, nil
	}
	var err error
	e.disk, err = cache.OpenDisk(cache.DiskConfig{Dir: cfg.CacheDir, MaxBytes: cmp.Or(cfg.CacheBytes, defaultCacheBytes)}, log, m)
	return e, err
}

// Close gives the cache folder back.
func (e *Engine) Close() error {
	if e.disk == nil {
		return nil
	}
	return e.disk.Close()
}

func (e *Engine) parallel() int { return cmp.Or(e.cfg.Parallel, 8) }

// kept gives bytes from the disk cache, where there is one, or from load.
func (e *Engine) kept(ctx context.Context, key cache.Key, load func() ([]byte, error)) ([]byte, error) {
	if e.disk == nil {
		return load()
	}
	return e.disk.Get(ctx, key, load)
}

// Rows is the function Rows over the engine's store.
func (e *Engine) Rows(ctx context.Context, o Options) iter.Seq2[Row, error] {
	if o.WorkDir == "" {
		o.WorkDir = e.cfg.WorkDir
	}
	return Rows(ctx, e.store, o)
}
