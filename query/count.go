package query

import (
	"context"
	"errors"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
)

// maxProbes is the most frames that are read to count live rows which merged
// ones may beat.
const maxProbes = 64

// Count counts the rows of a dataset, or of some batches of it: those that all
// pages together give. Live rows count by their ids, once, and not where a
// merged row has the same. It is exact unless there are too many live rows to
// look at; then n counts each of them that may be new.
func (e *Engine) Count(ctx context.Context, dataset string, batches []string) (n int64, exact bool, err error) {
	q := e.ask(ctx)
	defer func() { e.m.bytesRead.Add(float64(q.read.Load())) }()
	views, err := q.open(dataset, batches)
	if err != nil {
		return 0, false, err
	}
	exact = true
	for _, v := range views {
		for {
			live, all, err := q.countLive(v)
			var lost *lostError
			if errors.As(err, &lost) && (gone(err) || damaged(err)) {
				if err := q.again(v, lost.key, lost.chunk, lost); err != nil {
					return 0, false, err
				}
				continue
			}
			if err != nil {
				return 0, false, err
			}
			n += live
			exact = exact && all
			break
		}
		if !v.head.Record.Deleted {
			n += v.head.Record.Rows
		}
	}
	return n, exact, nil
}

// countLive counts the live rows of a batch that no merged row beats.
func (q *ask) countLive(v *view) (n int64, exact bool, err error) {
	if len(v.chunks) == 0 || v.head.Record.Deleted {
		return 0, true, nil
	}
	if !q.countable(v) {
		rows := liveRows([]*view{v})
		return max(rows, 0), false, nil
	}
	ids := map[string]bool{}
	exact = true
	for _, c := range v.chunks {
		t, err := q.chunkTable(q.ctx, c)
		if err != nil {
			return 0, false, lostChunk(c, err)
		}
		if t.large {
			n += t.rows
			exact = false
		}
		for _, e := range t.entries {
			ids[e.id] = true
		}
	}
	blocks, err := sortedBlocks(v)
	if err != nil {
		return 0, false, err
	}
	probes := maxProbes
	for _, b := range blocks {
		beaten, all, err := q.beaten(v, b, ids, &probes)
		if err != nil {
			return 0, false, err
		}
		n -= beaten
		exact = exact && all
	}
	return n + int64(len(ids)), exact, nil
}

// countable reports whether the live chunks of a batch are few and small enough
// to be read for a number.
func (q *ask) countable(v *view) bool {
	var size int64
	for _, c := range v.chunks {
		size += c.Size
	}
	return len(v.chunks) <= maxCountChunks && size <= maxCountBytes
}

// beaten counts the ids that a block has too.
func (q *ask) beaten(v *view, bl catalog.Block, ids map[string]bool, probes *int) (n int64, exact bool, err error) {
	var within []string
	for id := range ids {
		if id >= bl.FirstID && id <= bl.LastID {
			within = append(within, id)
		}
	}
	if len(within) == 0 {
		return 0, true, nil
	}
	if *probes == 0 {
		return 0, false, nil
	}
	b := blockOf{bl, v.id}
	lost := func(err error) error { return (&mergedLane{}).lost(b, err) }
	frames, err := q.frames(q.ctx, b)
	if err != nil {
		return 0, false, lost(err)
	}
	need := map[int]bool{}
	for _, id := range within {
		need[holding(frames, id)] = true
	}
	if len(need) > *probes {
		*probes = 0
		return 0, false, nil
	}
	*probes -= len(need)
	for f := range need {
		if err := q.probe(b, frames, f, ids, &n); err != nil {
			return 0, false, lost(err)
		}
	}
	return n, true, nil
}

func (q *ask) probe(b blockOf, frames []block.Frame, f int, ids map[string]bool, n *int64) error {
	err := q.frameRows(q.ctx, b, frames, f, func(r dataset.Row) {
		if ids[r.ID] {
			*n++
		}
	})
	if damaged(err) {
		q.forget(b, frames[f])
	}
	return err
}
