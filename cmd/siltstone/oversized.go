package main

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/nats/bus"
)

// sizeAge is how long the size of a dataset is taken for right: it decides what
// new blocks are, and nothing else.
const sizeAge = time.Minute

// datasetSizes tells mergers how large the blocks of a dataset are together.
type datasetSizes struct {
	a     *app
	mu    sync.Mutex
	known map[string]knownSize
}

type knownSize struct {
	bytes int64
	at    time.Time
}

func newDatasetSizes(a *app) *datasetSizes {
	return &datasetSizes{a: a, known: map[string]knownSize{}}
}

// of gives the size from the catalog bucket where the bucket is whole, and
// otherwise from the commit records.
func (d *datasetSizes) of(ctx context.Context, name string) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k, ok := d.known[name]; ok && time.Since(k.at) < sizeAge {
		return k.bytes, nil
	}
	n, ok, err := d.listed(ctx, name)
	if err != nil || !ok {
		n, err = catalog.DatasetBytes(ctx, d.a.store, name)
	}
	if err != nil {
		return 0, err
	}
	if len(d.known) > 10_000 {
		clear(d.known)
	}
	d.known[name] = knownSize{n, time.Now()}
	return n, nil
}

func (d *datasetSizes) listed(ctx context.Context, name string) (sum int64, ok bool, err error) {
	if d.a.bus == nil {
		return 0, false, nil
	}
	kv := d.a.bus.KV(bus.Catalog)
	if _, err := kv.Get(ctx, bus.WholeKey); err != nil {
		return 0, false, err
	}
	for e, err := range kv.List(ctx, bus.DatasetKeys(name)) {
		if err != nil {
			return 0, false, err
		}
		var b bus.BatchEntry
		if err := json.Unmarshal(e.Value, &b); err != nil {
			return 0, false, err
		}
		if !b.Deleted {
			sum += b.Bytes
		}
	}
	return sum, true, nil
}
