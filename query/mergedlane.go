package query

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
)

// mergedLane is the merged rows of a batch in the order of a walk. It knows the
// next frame to read: of which block, and, once its table is read, which one.
type mergedLane struct {
	v      *view
	down   bool
	blocks []catalog.Block // with rows, in order of the walk, from the next one on
	frames []block.Frame   // of the first of blocks; nil: not read yet
	at     int             // the next of frames
}

// newMergedLane finds the blocks that a walk from a spot comes to.
func newMergedLane(v *view, from spot, down bool) (*mergedLane, error) {
	m := &mergedLane{v: v, down: down}
	if v.head.Record.Deleted {
		return m, nil
	}
	blocks, err := sortedBlocks(v)
	if err != nil {
		return nil, err
	}
	if down {
		slices.Reverse(blocks)
	}
	m.blocks = slices.DeleteFunc(blocks, func(b catalog.Block) bool {
		last := b.LastID
		if down {
			last = b.FirstID
		}
		return !from.beyond(Cursor{last, v.id.Batch}, down)
	})
	return m, nil
}

// sortedBlocks gives the blocks of a batch that have rows, in order.
func sortedBlocks(v *view) ([]catalog.Block, error) {
	var blocks []catalog.Block
	for _, b := range v.head.Record.Blocks {
		if b.Rows > 0 {
			blocks = append(blocks, b)
		}
	}
	slices.SortFunc(blocks, func(a, b catalog.Block) int { return strings.Compare(a.FirstID, b.FirstID) })
	for i, b := range blocks {
		if b.FirstID == "" || b.LastID < b.FirstID || i > 0 && b.FirstID <= blocks[i-1].LastID {
			return nil, fmt.Errorf("%s: %w: the id range of %s is empty or overlaps another's", v.id.CommitKey(), ErrDamaged, b.File)
		}
	}
	return blocks, nil
}

// done reports that there are no more rows. While it is not, there are.
func (m *mergedLane) done() bool { return len(m.blocks) == 0 }

// bound is a place that the next row does not come before, for a walk that has
// come to `from`; ok is false where nothing is known, and the next frame has to
// be read to go on.
func (m *mergedLane) bound(from spot) (c Cursor, ok bool) {
	c.Batch = m.v.id.Batch
	switch {
	case m.frames == nil && m.down:
		c.ID = m.blocks[0].LastID
	case m.frames == nil:
		c.ID = m.blocks[0].FirstID
	case m.down:
		return c, false
	default:
		c.ID = m.frames[m.at].FirstID
	}
	return c, from.beyond(c, m.down)
}

// fill reads the next frame and gives its rows from a spot on, at most n and
// some bytes of them. It may give none although there are some in the next one.
func (m *mergedLane) fill(ctx context.Context, q *ask, from spot, n int) ([]laneRow, error) {
	b := blockOf{m.blocks[0], m.v.id}
	if m.frames == nil {
		frames, err := q.frames(ctx, b)
		if err != nil {
			return nil, m.lost(b, err)
		}
		m.frames, m.at = frames, m.first(frames, from)
	}
	take := taking{down: m.down, most: n}
	err := q.frameRows(ctx, b, m.frames, m.at, func(r dataset.Row) {
		if c := (Cursor{r.ID, m.v.id.Batch}); from.beyond(c, m.down) {
			take.add(c, r)
		}
	})
	if err != nil {
		if damaged(err) {
			q.forget(b, m.frames[m.at])
		}
		return nil, m.lost(b, err)
	}
	if !take.cut {
		m.step()
	}
	return take.rows(), nil
}

// first is the frame of the block at hand to start with.
func (m *mergedLane) first(frames []block.Frame, from spot) int {
	switch {
	case from.end:
		return len(frames) - 1
	case m.down && from.ID > m.blocks[0].LastID:
		return len(frames) - 1
	}
	return holding(frames, from.ID)
}

// step goes to the next frame, or the next block.
func (m *mergedLane) step() {
	if m.at++; m.down {
		m.at -= 2
	}
	if m.at < 0 || m.at >= len(m.frames) {
		m.blocks, m.frames = m.blocks[1:], nil
	}
}

func (m *mergedLane) lost(b blockOf, err error) error {
	return &lostError{key: b.key(), cause: fmt.Errorf("read block %s: %w", b.key(), err)}
}

// lostError says of which object something was missing or wrong.
type lostError struct {
	key   string
	chunk bool
	cause error
}

func (e *lostError) Error() string { return e.cause.Error() }

// Unwrap gives what happened.
func (e *lostError) Unwrap() error { return e.cause }

// laneBytes bounds what a lane holds of one frame, but for one row.
const laneBytes = 8 << 20

// taking keeps the first rows of a frame in the order of the walk: the first
// ones up, the last ones down.
type taking struct {
	down bool
	most int
	kept []laneRow
	size int64
	cut  bool // there were more
}

func (t *taking) add(c Cursor, r dataset.Row) {
	if !t.down && t.full() {
		t.cut = true
		return
	}
	r.Raw = bytes.Clone(r.Raw)
	t.kept = append(t.kept, laneRow{Cursor: c, row: r})
	t.size += int64(len(r.Raw))
	for t.down && (len(t.kept) > t.most || len(t.kept) > 1 && t.size > laneBytes) {
		t.size -= int64(len(t.kept[0].row.Raw))
		t.kept[0] = laneRow{}
		t.kept = t.kept[1:]
		t.cut = true
	}
}

func (t *taking) full() bool { return len(t.kept) >= t.most || t.size >= laneBytes }

func (t *taking) rows() []laneRow {
	if t.down {
		slices.Reverse(t.kept)
	}
	return t.kept
}
