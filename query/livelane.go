package query

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/siltstone-data/siltstone/catalog"
)

// liveLane is the live rows of a batch in the order of a walk. It holds only the
// next few of all chunks together, however many there are.
type liveLane struct {
	v     *view
	down  bool
	ended bool // there are no more behind those that were given
}

func newLiveLane(v *view, down bool) *liveLane {
	return &liveLane{v: v, down: down, ended: len(v.chunks) == 0}
}

func (l *liveLane) done() bool { return l.ended }

// bound knows nothing before the chunks were asked.
func (l *liveLane) bound(spot) (c Cursor, ok bool) { return c, false }

// fill gives the next n rows from a spot on; their lines are read when it is
// their turn. Each chunk gives the n that come first of its own, so the first n
// of all are among these, each with all its rivals.
func (l *liveLane) fill(_ context.Context, q *ask, from spot, n int) ([]laneRow, error) {
	var mu sync.Mutex
	var near []liveEntry
	more, worst := false, "" // id behind which nothing is needed
	err := q.eachChunk(len(l.v.chunks), func(ctx context.Context, i int) error {
		c := l.v.chunks[i]
		es, rows, err := q.nearChunk(ctx, l.v, c, from, l.down, n)
		if err != nil {
			return lostChunk(c, err)
		}
		mu.Lock()
		defer mu.Unlock()
		l.v.rows[versionOf(c)] = rows
		more = more || len(es) == n
		if worst != "" {
			i := sort.Search(len(es), func(i int) bool { return ordered(Cursor{ID: es[i].id}, Cursor{ID: worst}, l.down) > 0 })
			more = more || i < len(es)
			es = es[:i]
		}
		if near = append(near, es...); len(near) > 4*n+1000 {
			if near = nearest(near, l.down, n); len(near) == n {
				worst, more = near[n-1].id, true
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := len(near)
	near = nearest(near, l.down, n)
	l.ended = !more && all <= n
	rows := make([]laneRow, len(near))
	for i := range near {
		rows[i] = laneRow{Cursor: Cursor{near[i].id, l.v.id.Batch}, live: &near[i]}
	}
	return slices.Clip(rows), nil
}

func lostChunk(c catalog.Chunk, err error) error {
	return &lostError{key: c.Key() + "@" + c.ETag, chunk: true, cause: fmt.Errorf("read chunk %s: %w", c.Key(), err)}
}
