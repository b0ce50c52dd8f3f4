package consumers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore"
)

// KV is a bucket of small values, as *bus.KV has it.
type KV interface {
	Get(ctx context.Context, key string) (bus.Entry, error)
	Create(ctx context.Context, key string, value []byte) (uint64, error)
	Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)
	Delete(ctx context.Context, key string, revision uint64) error
	List(ctx context.Context, filter string) iter.Seq2[bus.Entry, error]
}

// ledger writes the catalog bucket from the present state of the store. Every
// write is by the revision that was read before the store was looked at: if
// anybody has written since, it looks again. So whoever comes last has seen the
// latest state, in whatever order events arrive.
//
// A reader takes the chunks from the bucket and then a record of the generation
// that the bucket names, or a later one. Therefore a generation is written
// before the chunks that it absorbed are removed, and the record is read again
// after a chunk was added, because its merge may have passed by in between.
type ledger struct {
	store objstore.Store
	kv    KV
}

// rounds bounds how often a write is tried again because others write too.
const rounds = 50

var errBusy = errors.New("others change it all the time")

// state is where a chunk is.
type state int

const (
	gone     state = iota // not in the store
	absorbed              // in the store although its rows are in blocks
	live
)

// batchEntry is what the bucket says of a record.
func batchEntry(h catalog.Head) bus.BatchEntry {
	r := h.Record
	return bus.BatchEntry{Generation: r.Generation, Commit: r.Commit, Rows: r.Rows, Bytes: r.Bytes,
		UpdatedAt: r.CommittedAt.UTC(), DeduplicateOn: r.DeduplicateOn, Deleted: r.Deleted, Spread: r.Spread}
}

// debounce makes a merge due as the policy says for what the bucket knows of the
// batch.
func (l *ledger) debounce(ctx context.Context, jobs Scheduler, b dataset.BatchID, p Policy) error {
	entry, _, err := get[bus.BatchEntry](ctx, l.kv, bus.BatchKey(b))
	if err != nil {
		return err
	}
	quiet, most := p.Waits(entry.Spread)
	return jobs.Debounce(ctx, bus.Job{Kind: bus.KindMerge, Batch: b}, quiet, most)
}

// get reads a key of the bucket; revision 0 means that it is not there.
func get[T any](ctx context.Context, kv KV, key string) (T, uint64, error) {
	var none T
	e, err := kv.Get(ctx, key)
	if errors.Is(err, bus.ErrNoKey) {
		return none, 0, nil
	}
	if err != nil {
		return none, 0, err
	}
	v, err := decode[T](e.Value)
	if err != nil {
		return none, e.Revision, nil // somebody's hand was here: it is written anew
	}
	return v, e.Revision, nil
}

// put writes a key over the revision that was read; ok is false where somebody
// was faster.
func put(ctx context.Context, kv KV, key string, value any, revision uint64) (rev uint64, ok bool, err error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return 0, false, fmt.Errorf("encode %s: %w", key, err)
	}
	if revision == 0 {
		rev, err = kv.Create(ctx, key, raw)
	} else {
		rev, err = kv.Update(ctx, key, raw, revision)
	}
	if errors.Is(err, bus.ErrExists) || errors.Is(err, bus.ErrRevision) {
		return 0, false, nil
	}
	return rev, err == nil, err
}

// remove deletes a key at a revision; ok is false where somebody was faster.
func remove(ctx context.Context, kv KV, key string, revision uint64) (ok bool, err error) {
	err = kv.Delete(ctx, key, revision)
	if errors.Is(err, bus.ErrRevision) {
		return false, nil
	}
	return err == nil, err
}

func decode[T any](value []byte) (T, error) {
	var v T
	err := json.Unmarshal(value, &v)
	return v, err
}

func same(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// sync makes the bucket name the generation of the batch's record and gives the
// record. changed says that the bucket named another.
func (l *ledger) sync(ctx context.Context, b dataset.BatchID) (h catalog.Head, changed bool, err error) {
	key := bus.BatchKey(b)
	for range rounds {
		have, rev, err := get[bus.BatchEntry](ctx, l.kv, key)
		if err != nil {
			return catalog.Head{}, false, err
		}
		h, err := catalog.ReadHead(ctx, l.store, b)
		if err != nil {
			return catalog.Head{}, false, err
		}
		want := batchEntry(h)
		var ok bool
		switch {
		case !h.Exists() && rev == 0, h.Exists() && rev != 0 && same(have, want):
			return h, false, nil
		case !h.Exists(): // taken away by hand: a reader would wait for it for ever
			ok, err = remove(ctx, l.kv, key, rev)
		default:
			_, ok, err = put(ctx, l.kv, key, want, rev)
		}
		if ok || err != nil {
			return h, true, err
		}
	}
	return catalog.Head{}, false, fmt.Errorf("catalog key %s: %w", key, errBusy)
}

// batch brings the entries of a batch in line with its record: first the
// generation, then the chunks that it has absorbed.
func (l *ledger) batch(ctx context.Context, b dataset.BatchID) (h catalog.Head, changed bool, err error) {
	h, changed, err = l.sync(ctx, b)
	if err != nil {
		return h, changed, err
	}
	for e, err := range l.kv.List(ctx, bus.ChunksOf(b)) {
		if err != nil {
			return h, changed, err
		}
		k, err := bus.ParseCatalogKey(e.Key)
		if err != nil {
			continue // not ours
		}
		c, _ := decode[bus.ChunkEntry](e.Value)
		if !isAbsorbed(h, catalog.Chunk{Batch: b, Run: k.Run, Number: k.Number, ETag: c.ETag}) {
			continue
		}
		ok, err := remove(ctx, l.kv, e.Key, e.Revision)
		if err == nil && !ok {
			_, err = l.chunk(ctx, b, k.Run, k.Number, nil)
		}
		if err != nil {
			return h, changed, err
		}
	}
	return h, changed, nil
}

func isAbsorbed(h catalog.Head, c catalog.Chunk) bool {
	return h.Record.Deleted || h.Record.Absorbed(c)
}

// told is what an event says about a chunk that the store does not.
type told struct {
	etag string
	rows *int64
}

// chunk brings the entry of a chunk in line with the store.
func (l *ledger) chunk(ctx context.Context, b dataset.BatchID, r dataset.Run, n int, by *told) (state, error) {
	key := bus.ChunkKey(b, r, n)
	for range rounds {
		have, rev, err := get[bus.ChunkEntry](ctx, l.kv, key)
		if err != nil {
			return gone, err
		}
		c, err := l.look(ctx, b, r, n)
		if errors.Is(err, objstore.ErrNotFound) {
			// It may have been absorbed: then the generation comes first.
			if _, _, err := l.sync(ctx, b); err != nil || rev == 0 {
				return gone, err
			}
			if ok, err := remove(ctx, l.kv, key, rev); ok || err != nil {
				return gone, err
			}
			continue
		}
		if err != nil {
			return gone, err
		}
		want := entryOf(c, have)
		if by != nil && by.rows != nil && by.etag == c.ETag {
			want.Rows = by.rows
		}
		if rev == 0 || !same(have, want) {
			var ok bool
			if rev, ok, err = put(ctx, l.kv, key, want, rev); err != nil {
				return gone, err
			} else if !ok {
				continue
			}
		}
		h, _, err := l.sync(ctx, b)
		if err != nil {
			return gone, err
		}
		if !isAbsorbed(h, c) {
			return live, nil
		}
		if ok, err := remove(ctx, l.kv, key, rev); ok || err != nil {
			return absorbed, err
		}
	}
	return gone, fmt.Errorf("catalog key %s: %w", key, errBusy)
}

// look asks the store for a chunk.
func (l *ledger) look(ctx context.Context, b dataset.BatchID, r dataset.Run, n int) (catalog.Chunk, error) {
	info, err := stat(ctx, l.store, b.ChunkKey(r, n))
	if err != nil {
		return catalog.Chunk{}, err
	}
	return catalog.Chunk{Batch: b, Run: r, Number: n, Size: info.Size, ETag: info.ETag, Modified: info.Modified}, nil
}

// stat describes an object by reading its first byte.
func stat(ctx context.Context, s objstore.Store, key string) (objstore.Info, error) {
	body, info, err := s.Get(ctx, key, objstore.Span{Length: 1})
	if err != nil {
		return objstore.Info{}, fmt.Errorf("look at %s: %w", key, err)
	}
	_, _ = io.Copy(io.Discard, body) // so that the connection can be used again
	return info, body.Close()
}

// entryOf is the entry of a chunk as the store shows it. What an earlier entry
// knows of the same version's rows stays.
func entryOf(c catalog.Chunk, have bus.ChunkEntry) bus.ChunkEntry {
	e := bus.ChunkEntry{ETag: c.ETag, Bytes: c.Size, At: c.Modified.UTC()}
	if have.ETag == c.ETag {
		e.Rows = have.Rows
	}
	return e
}

// listed is a chunk that a listing shows, with the entry that was read before
// that listing.
type listed struct {
	chunk    catalog.Chunk
	have     bus.ChunkEntry
	revision uint64 // 0: no entry
}

// add enters chunks of one batch that a listing shows: chunk for many at once,
// with the listing in place of a look at each. h was read after that listing. It
// gives those that are live.
func (l *ledger) add(ctx context.Context, h catalog.Head, chunks []listed) (lives []catalog.Chunk, err error) {
	b := h.Record.ID()
	written := make([]bool, len(chunks))
	for i, c := range chunks {
		if isAbsorbed(h, c.chunk) {
			continue
		}
		key := bus.ChunkKey(b, c.chunk.Run, c.chunk.Number)
		if _, written[i], err = put(ctx, l.kv, key, entryOf(c.chunk, c.have), c.revision); err != nil {
			return nil, err
		}
	}
	if h, _, err = l.sync(ctx, b); err != nil {
		return nil, err
	}
	for i, c := range chunks {
		if !isAbsorbed(h, c.chunk) {
			lives = append(lives, c.chunk)
		} else if written[i] || c.revision != 0 {
			if _, err := l.chunk(ctx, b, c.chunk.Run, c.chunk.Number, nil); err != nil {
				return nil, err
			}
		}
	}
	return lives, nil
}
