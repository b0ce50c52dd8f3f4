package query

import (
	"context"
	"fmt"
	"slices"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
)

// view is a batch as one question sees it.
type view struct {
	batch
	rows map[version]int64 // of live chunks, as far as they are known
}

// there reports whether the batch has anything to show.
func (v *view) there() bool {
	return v.head.Exists() && !v.head.Record.Deleted || len(v.chunks) > 0
}

// merged is the number of merged rows.
func (v *view) merged() int64 {
	if !v.head.Exists() || v.head.Record.Deleted {
		return 0
	}
	return v.head.Record.Rows
}

// open looks at the batches that are asked for, all where names is nil, and
// leaves out those that are not there. What does not exist at all is a
// *NotFoundError.
func (q *ask) open(name string, names []string) ([]*view, error) {
	o := Options{Dataset: name, Batches: names}
	if err := o.check(); err != nil {
		return nil, err
	}
	all, err := q.e.catalog.Batches(q.ctx, name)
	if err != nil {
		return nil, fmt.Errorf("list batches of %q: %w", name, err)
	}
	wanted := all
	if names != nil {
		wanted = o.wantedBatches()
		for _, b := range wanted {
			if len(all) > 0 && !slices.Contains(all, b) {
				return nil, &NotFoundError{What: "batch", Name: b, Nearest: Nearest(b, all)}
			}
		}
	}
	if len(all) == 0 {
		return nil, q.noDataset(name)
	}
	views, err := q.views(name, wanted)
	if err != nil {
		return nil, err
	}
	found := slices.ContainsFunc(views, (*view).there)
	for _, v := range views {
		if v.head.Foreign {
			return nil, adopt(v.id)
		}
		if v.there() || found && names == nil {
			continue
		}
		ok, _, err := written(q.ctx, q.store, &v.batch)
		switch {
		case err != nil:
			return nil, err
		case ok:
			found = true
		case names != nil:
			return nil, &NotFoundError{What: "batch", Name: v.id.Batch, Nearest: Nearest(v.id.Batch, except(all, v.id.Batch))}
		}
	}
	if !found && names == nil {
		return nil, q.noDataset(name)
	}
	return slices.DeleteFunc(views, func(v *view) bool { return !v.there() }), nil
}

// views looks at batches of a dataset.
func (q *ask) views(name string, batches []string) ([]*view, error) {
	views := make([]*view, len(batches))
	for i, b := range batches {
		views[i] = newView(dataset.BatchID{Dataset: name, Batch: b})
	}
	return views, q.lookAll(views)
}

func newView(b dataset.BatchID) *view {
	return &view{batch: batch{id: b, faults: map[string]int64{}}, rows: map[version]int64{}}
}

// lookAll looks at batches for the first time.
func (q *ask) lookAll(views []*view) error {
	return q.each(len(views), func(ctx context.Context, i int) error { return q.look(ctx, views[i], false) })
}

func (q *ask) noDataset(name string) error {
	names, err := q.e.catalog.Datasets(q.ctx)
	if err != nil {
		return fmt.Errorf("list datasets: %w", err)
	}
	return &NotFoundError{What: "dataset", Name: name, Nearest: Nearest(name, except(names, name))}
}

// look takes the chunk list first and the record second: the other way round, a
// chunk absorbed in between would be in neither. A record that is at hand serves
// if it is of the list's generation; with anew it is read in any case.
func (q *ask) look(ctx context.Context, v *view, anew bool) error {
	var behind error
	for range 3 {
		live, err := q.e.catalog.Live(ctx, v.id)
		if err != nil {
			return fmt.Errorf("list live chunks of %s: %w", v.id, err)
		}
		chunks := make([]catalog.Chunk, len(live.Chunks))
		for i, c := range live.Chunks {
			chunks[i] = catalog.Chunk{Batch: v.id, Run: c.Run, Number: c.Number, Size: c.Bytes, ETag: c.ETag}
			if c.Rows >= 0 {
				v.rows[versionOf(chunks[i])] = c.Rows
			}
		}
		if v.head, err = q.head(ctx, v.id, live.Generation, anew); err != nil {
			return err
		}
		v.chunks = catalog.Unabsorbed(v.head, chunks)
		if v.head.Record.Generation >= live.Generation {
			return nil
		}
		// The list may lack chunks that only a later record holds.
		behind = fmt.Errorf("%s: %w: it is of generation %d, and the catalog has seen generation %d",
			v.id.CommitKey(), ErrDamaged, v.head.Record.Generation, live.Generation)
		anew = true
	}
	return behind
}

// head gives the commit record of a generation, 0 where nobody knows which, if it
// is at hand, and otherwise the one that the store has, older or later.
func (q *ask) head(ctx context.Context, b dataset.BatchID, generation int64, anew bool) (catalog.Head, error) {
	if generation > 0 && !anew {
		if h, ok := q.e.heads.Peek(b); ok && h.Record.Generation == generation {
			return h, nil
		}
	}
	h, err := catalog.FindRecord(ctx, q.store, b)
	if err != nil {
		return catalog.Head{}, err
	}
	if h.Exists() {
		r := h.Record
		files := len(r.Blocks) + len(r.Digests) + len(r.Garbage)
		q.e.heads.Put(b, h, int64(1024+400*files+200*(len(r.Runs)+len(r.Chunks))))
	}
	return h, nil
}

// again looks at the batch anew after something of it was missing or wrong. A
// chunk that is gone was absorbed: the record says so now, and the list stays as
// it is, older than any record that is read. A block that is gone was replaced.
func (q *ask) again(v *view, key string, chunk bool, cause error) error {
	if err := v.again(key, cause); err != nil {
		return err
	}
	had := v.head.Exists()
	if chunk {
		h, err := q.head(q.ctx, v.id, 0, true)
		if err != nil {
			return err
		}
		v.head, v.chunks = h, catalog.Unabsorbed(h, v.chunks)
	} else if err := q.look(q.ctx, v, true); err != nil {
		return err
	}
	if had && !v.head.Exists() {
		return fmt.Errorf("%s: %w: there was a commit record, and there is none now", v.id.CommitKey(), ErrDamaged)
	}
	return nil
}
