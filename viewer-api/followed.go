package viewerapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/query"
)

// KV follows a bucket, as *bus.KV does.
type KV interface {
	Follow(ctx context.Context, filter string, fn func(bus.Entry) error, synced func()) error
}

// Link tells whether NATS can be reached, as *bus.Bus does.
type Link interface{ Connected() bool }

// Followed is the catalog in memory: it follows the catalog bucket and answers
// from what it knows, while that is everything. It is not before a reconciler has
// seen the whole store since the bucket was made, nor while NATS is away; then
// the answers come from listings. What looks whole never lacks a part.
//
// It holds some 200 bytes for each live chunk and each batch. Merging keeps the
// chunks few.
type Followed struct {
	kv     KV
	link   Link
	listed query.Catalog
	log    *slog.Logger

	mu       sync.RWMutex
	synced   bool
	whole    bool
	revision uint64 // of the last entry
	batches  map[string]map[dataset.BatchID]*followedBatch
	broken   map[string]struct{} // keys whose values cannot be read
}

var _ query.Catalog = (*Followed)(nil)

// followedBatch is what the bucket says of a batch or of a layer's part of it.
type followedBatch struct {
	recorded   bool // it has a commit record
	deleted    bool
	generation int64
	chunks     map[chunkID]query.Chunk
}

type chunkID struct {
	run    dataset.Run
	number int
}

// NewFollowed makes a catalog over the bucket kv. Until Run has seen the bucket,
// and whenever that is not whole, listed answers.
func NewFollowed(kv KV, link Link, listed query.Catalog, log *slog.Logger) *Followed {
	return &Followed{kv: kv, link: link, listed: listed, log: quietLogger(log),
		batches: map[string]map[dataset.BatchID]*followedBatch{}, broken: map[string]struct{}{}}
}

// Run follows the bucket until ctx ends.
func (f *Followed) Run(ctx context.Context) error {
	for {
		err := f.kv.Follow(ctx, ">", f.take, f.complete)
		f.forget()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		f.log.Warn("cannot follow the catalog bucket: the store is listed instead", keyErr, err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Second):
		}
	}
}

func (f *Followed) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.synced, f.whole, f.revision = false, false, 0
	clear(f.batches)
	clear(f.broken)
}

func (f *Followed) complete() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.synced = true
}

// take brings an entry into memory.
func (f *Followed) take(e bus.Entry) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Revision != 0 {
		if e.Revision <= f.revision {
			// All is told again: the bucket was made anew, or this process was away
			// for long. Whether it is whole is among what it tells.
			f.whole = false
		}
		f.revision = e.Revision
	}
	if e.Key == bus.WholeKey {
		was := f.whole
		if f.whole = !e.Deleted; f.whole != was {
			f.log.Info("the catalog bucket", "whole", f.whole)
		}
		return nil
	}
	k, err := bus.ParseCatalogKey(e.Key)
	if err != nil {
		return nil // not an entry
	}
	delete(f.broken, e.Key)
	if err := f.enter(k, e); err != nil {
		f.broken[e.Key] = struct{}{}
		f.log.Warn("an entry of the catalog bucket cannot be read: the store is listed until it is written anew", keyPath, e.Key, keyErr, err)
	}
	return nil
}

func (f *Followed) enter(k bus.CatalogKey, e bus.Entry) error {
	b := f.batches[k.Batch.Dataset][k.Batch]
	if b == nil {
		if e.Deleted {
			return nil
		}
		b = &followedBatch{}
		if f.batches[k.Batch.Dataset] == nil {
			f.batches[k.Batch.Dataset] = map[dataset.BatchID]*followedBatch{}
		}
		f.batches[k.Batch.Dataset][k.Batch] = b
	}
	var err error
	switch id := (chunkID{k.Run, k.Number}); {
	case k.Run == "" && e.Deleted:
		b.recorded, b.deleted, b.generation = false, false, 0
	case k.Run == "":
		var v bus.BatchEntry
		err = json.Unmarshal(e.Value, &v)
		b.recorded, b.deleted, b.generation = true, v.Deleted, v.Generation
	case e.Deleted:
		delete(b.chunks, id)
	default:
		var v bus.ChunkEntry
		err = json.Unmarshal(e.Value, &v)
		c := query.Chunk{Run: k.Run, Number: k.Number, ETag: v.ETag, Bytes: v.Bytes, Rows: -1}
		if v.Rows != nil {
			c.Rows = *v.Rows
		}
		if b.chunks == nil {
			b.chunks = map[chunkID]query.Chunk{}
		}
		b.chunks[id] = c
	}
	if len(b.chunks) == 0 {
		b.chunks = nil // a map keeps the room that it once had
		if !b.recorded {
			delete(f.batches[k.Batch.Dataset], k.Batch)
			if len(f.batches[k.Batch.Dataset]) == 0 {
				delete(f.batches, k.Batch.Dataset)
			}
		}
	}
	return err
}

// knows tells whether memory holds everything. It must be called with the lock.
func (f *Followed) knows() bool {
	return f.synced && f.whole && len(f.broken) == 0 && f.link.Connected()
}

// State says in a few words where answers come from.
func (f *Followed) State() string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	switch {
	case !f.link.Connected():
		return "NATS cannot be reached: the store is listed, and no events come"
	case !f.synced:
		return "the catalog bucket has not been read yet: the store is listed"
	case !f.whole:
		return "no reconciler has seen the whole store yet: the store is listed"
	case len(f.broken) > 0:
		return fmt.Sprintf("%d entries of the catalog bucket cannot be read: the store is listed", len(f.broken))
	}
	return "whole"
}

// Datasets gives the names of all datasets, sorted.
func (f *Followed) Datasets(ctx context.Context) ([]string, error) {
	f.mu.RLock()
	if !f.knows() {
		f.mu.RUnlock()
		return f.listed.Datasets(ctx)
	}
	defer f.mu.RUnlock()
	var names []string
	for d := range f.batches {
		if len(f.names(d)) > 0 {
			names = append(names, d)
		}
	}
	slices.Sort(names)
	return names, nil
}

// names are the batches of a dataset. It must be called with the lock.
func (f *Followed) names(d string) (names []string) {
	for id, b := range f.batches[d] {
		if id.Annotator == "" && !b.deleted {
			names = append(names, id.Batch)
		}
	}
	return names
}

// Batches gives the names of the batches of a dataset, sorted.
func (f *Followed) Batches(ctx context.Context, d string) ([]string, error) {
	f.mu.RLock()
	if f.knows() {
		if names := f.names(d); len(names) > 0 {
			f.mu.RUnlock()
			slices.Sort(names)
			return names, nil
		}
	}
	f.mu.RUnlock()
	// What is not known here may have begun a moment ago, or hold runs alone.
	return f.listed.Batches(ctx, d)
}

// Layer gives the names of the batches that an annotator has written to, sorted.
func (f *Followed) Layer(ctx context.Context, d, annotator string) ([]string, error) {
	f.mu.RLock()
	if f.knows() {
		var names []string
		for id, b := range f.batches[d] {
			if id.Annotator == annotator && !b.deleted {
				names = append(names, id.Batch)
			}
		}
		if len(names) > 0 {
			f.mu.RUnlock()
			slices.Sort(names)
			return names, nil
		}
	}
	f.mu.RUnlock()
	return f.listed.Layer(ctx, d, annotator) // as with Batches
}

// Live gives the live chunks of a batch. The generation was written before the
// chunks that it absorbed were taken out, and both are read at one moment.
func (f *Followed) Live(ctx context.Context, id dataset.BatchID) (query.LiveChunks, error) {
	f.mu.RLock()
	b := f.batches[id.Dataset][id]
	if !f.knows() || b == nil {
		f.mu.RUnlock()
		return f.listed.Live(ctx, id)
	}
	out := query.LiveChunks{Generation: b.generation, Chunks: make([]query.Chunk, 0, len(b.chunks))}
	for _, c := range b.chunks {
		out.Chunks = append(out.Chunks, c)
	}
	f.mu.RUnlock()
	slices.SortFunc(out.Chunks, func(x, y query.Chunk) int {
		return cmp.Or(cmp.Compare(x.Run, y.Run), cmp.Compare(x.Number, y.Number))
	})
	return out, nil
}
