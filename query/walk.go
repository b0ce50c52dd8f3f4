package query

import (
	"container/heap"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
)

// A lane is one ordered input of a walk: the merged or the live rows of a batch.
type lane interface {
	// done reports that there are no rows behind those that fill gave.
	done() bool
	// bound is a place that the next row does not come before, if one is known.
	bound(from spot) (c Cursor, ok bool)
	// fill gives the next rows from a spot on, some, none or at most n.
	fill(ctx context.Context, q *ask, from spot, n int) ([]laneRow, error)
}

// laneRow is a row of a lane. A live one is read when it is its turn.
type laneRow struct {
	Cursor
	row  dataset.Row
	live *liveEntry
}

// track is a lane and what it gave that the walk has not come to.
type track struct {
	lane
	v    *view
	live bool
	rows []laneRow
	at   Cursor // of the first of rows, or a bound
	now  bool   // there is neither: it has to be filled before anything is given
	err  error  // of a fill ahead of its time
}

// walk goes through the rows of batches, merged and live together, up or down
// from a spot. What mergers take away under it, it finds again where it was.
type walk struct {
	q     *ask
	views []*view
	down  bool
	n     int  // rows that are wanted
	from  spot // behind the row given last
	tracks
}

// newWalk sets a walk up, and reads together what is needed before the first row.
func (q *ask) newWalk(views []*view, from spot, down bool, n int) (*walk, error) {
	w := &walk{q: q, views: views, down: down, n: n, from: from, tracks: tracks{down: down}}
	for _, v := range views {
		if err := w.add(v); err != nil {
			return nil, err
		}
	}
	if err := q.preload(views); err != nil {
		return nil, err
	}
	var ahead []*track
	for _, t := range w.list {
		if t.now && !t.live { // a live lane asks many chunks at once by itself
			ahead = append(ahead, t)
		}
	}
	err := q.each(len(ahead), func(ctx context.Context, i int) error {
		ahead[i].rows, ahead[i].err = ahead[i].fill(ctx, q, from, n)
		return ctx.Err()
	})
	if err != nil {
		return nil, context.Cause(q.ctx)
	}
	w.list = slices.DeleteFunc(w.list, func(t *track) bool { return !w.settle(t) })
	heap.Init(&w.tracks)
	return w, nil
}

// maxPreload bounds the live chunks that are read for several batches at once.
const maxPreload = 64 << 20

// preload reads the live chunks of all batches that were not read before. What
// goes wrong goes wrong again when their lane asks, and is dealt with there.
func (q *ask) preload(views []*view) error {
	var todo []catalog.Chunk
	var size int64
	for _, v := range views {
		for _, c := range v.chunks {
			if _, ok := q.e.chunks.Peek(keyOf(c)); !ok && size <= maxPreload {
				todo = append(todo, c)
				size += c.Size
			}
		}
	}
	if len(views) < 2 || size > maxPreload {
		return nil
	}
	err := q.eachChunk(len(todo), func(ctx context.Context, i int) error {
		_, _ = q.chunkTable(ctx, todo[i])
		return ctx.Err()
	})
	if err != nil {
		return context.Cause(q.ctx)
	}
	return nil
}

// add adds the tracks of a batch, from where the walk stands.
func (w *walk) add(v *view) error {
	m, err := newMergedLane(v, w.from, w.down)
	if err != nil {
		return err
	}
	for _, t := range []*track{{lane: m, v: v}, {lane: newLiveLane(v, w.down), v: v, live: true}} {
		if w.settle(t) {
			heap.Push(&w.tracks, t)
		}
	}
	return nil
}

// settle says where a track stands now; false: it has no more.
func (w *walk) settle(t *track) bool {
	t.now = false
	switch {
	case len(t.rows) > 0:
		t.at = t.rows[0].Cursor
	case t.err != nil:
		t.now = true
	case t.done():
		return false
	default:
		at, ok := t.bound(w.from)
		t.at, t.now = at, !ok
	}
	return true
}

// next gives the next row, and io.EOF after the last.
func (w *walk) next() (Row, error) {
	for len(w.list) > 0 {
		if err := w.q.ctx.Err(); err != nil {
			return Row{}, context.Cause(w.q.ctx)
		}
		t := w.list[0]
		row, given, err := w.step(t)
		var lost *lostError
		switch {
		case errors.As(err, &lost) && !errors.Is(err, errPermanent) && (gone(err) || damaged(err)):
			if err := w.again(t.v, lost); err != nil {
				return Row{}, err
			}
			continue
		case err != nil:
			return Row{}, err
		}
		if w.settle(t) {
			heap.Fix(&w.tracks, 0)
		} else {
			heap.Pop(&w.tracks)
		}
		if given {
			t.v.rounds = 0
			return row, nil
		}
	}
	return Row{}, io.EOF
}

// step moves the track that comes first: it gives its row, passes a live one
// that a merged one or an earlier one beats, or fills it.
func (w *walk) step(t *track) (row Row, given bool, err error) {
	if len(t.rows) == 0 {
		if err := t.err; err != nil {
			t.err = nil
			return Row{}, false, err
		}
		from := w.from
		t.rows, err = t.fill(w.q.ctx, w.q, from, w.n)
		return Row{}, false, err
	}
	r := t.rows[0]
	if w.from.beyond(r.Cursor, w.down) {
		if r.live != nil {
			if r.row, err = w.q.liveRow(w.q.ctx, *r.live); err != nil {
				return Row{}, false, lostChunk(*r.live.chunk, err)
			}
		}
		row, given = Row{Batch: r.Batch, Live: t.live, Row: r.row}, true
		w.from = spot{Cursor: r.Cursor}
	}
	t.rows[0] = laneRow{}
	t.rows = t.rows[1:]
	return row, given, nil
}

// again looks at a batch anew and starts its tracks where the walk stands.
func (w *walk) again(v *view, lost *lostError) error {
	if err := w.q.again(v, lost.key, lost.chunk, lost); err != nil {
		return err
	}
	w.list = slices.DeleteFunc(w.list, func(t *track) bool { return t.v == v })
	heap.Init(&w.tracks)
	return w.add(v)
}

// more reports whether there is a row behind the last one given.
func (w *walk) more() (bool, error) {
	for _, t := range w.list {
		// A merged lane that is not done has rows that were not given.
		if !t.live {
			return true, nil
		}
	}
	at := w.from
	_, err := w.next()
	w.from = at
	if err == io.EOF {
		return false, nil
	}
	return err == nil, err
}

// tracks is a heap: on top is the track that a walk comes to first. In one place
// a track that is only bound there comes first, and a merged row before a live
// one, which it beats.
type tracks struct {
	list []*track
	down bool
}

func (h *tracks) Len() int { return len(h.list) }

func (h *tracks) Less(i, j int) bool {
	a, b := h.list[i], h.list[j]
	if a.now || b.now {
		return a.now && !b.now
	}
	if d := ordered(a.at, b.at, h.down); d != 0 {
		return d < 0
	}
	if (len(a.rows) == 0) != (len(b.rows) == 0) {
		return len(a.rows) == 0
	}
	return !a.live && b.live
}

func (h *tracks) Swap(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] }

// Push adds a track.
func (h *tracks) Push(x any) { h.list = append(h.list, x.(*track)) }

// Pop removes the last track.
func (h *tracks) Pop() any {
	last := len(h.list) - 1
	t := h.list[last]
	h.list[last] = nil
	h.list = h.list[:last]
	return t
}
