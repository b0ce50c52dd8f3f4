package merger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
)

// thread is a row on its way into a block.
type thread struct {
	key    []byte // row key
	id     string // empty: to be cut from the key
	raw    []byte
	offset int64
	origin int // index of its block, or newRow
}

// sortedRows gives the rows of a sorter.
type sortedRows struct {
	recs    block.Stream[block.Record]
	columns []string
}

func (s sortedRows) Next() (thread, error) {
	rec, err := s.recs.Next()
	if err == io.EOF {
		return thread{}, io.EOF
	}
	if err != nil {
		return thread{}, fmt.Errorf("sort rows: %w", err)
	}
	t := thread{raw: rec.Payload, origin: newRow}
	t.key, _, t.offset, err = cutSuffix(rec.Key, s.columns)
	return t, err
}

// mergedRows gives the rows of blocks.
type mergedRows struct {
	scan *blockScan
	key  []byte
}

func (m *mergedRows) Next() (thread, error) {
	r, err := m.scan.Next()
	if err != nil {
		return thread{}, err
	}
	m.key = appendRowKey(m.key[:0], r.ID, r.place())
	return thread{key: m.key, id: r.ID, raw: r.Raw, origin: r.block}, nil
}

// weaver brings new and merged rows together in order of their ids, drops
// those that do not stay, and gives the others to a shelf.
type weaver struct {
	dir      string
	blocks   []catalog.Block
	segments []Segment
	drops    *cursor // of rows that do not stay; nil without deduplication
	limits   Limits
	shelf    *shelf
	rejects  *rejects
	progress func(rows int64)
	overlap  bool // merged files are adopted that may hold the same rows

	seen       int64
	added      int64
	adopted    int64
	kept       int64 // rows that passed through, old ones included
	duplicates int64
	conflicts  int64

	segment int    // that of the row before
	slot    int    // its slot
	part    part   // of that segment
	id      []byte // encoded id of the row before
	winner  winner
}

// winner is the row that stays of all that have the present id.
type winner struct {
	is      bool
	raw     []byte
	file    *scratch // holds the row where it is huge: memory need not hold it once more
	id      string
	hasSum  bool
	content dataset.Digest
}

const hugeRow = 1 << 20

// hold keeps a row until the next one that stays.
func (w *winner) hold(dir string, raw []byte) error {
	w.drop()
	if len(raw) <= hugeRow {
		w.raw = append(w.raw[:0], raw...)
		return nil
	}
	w.file = newScratch(dir)
	_, err := w.file.Write(raw)
	return err
}

// digest is that of the row that is held.
func (w *winner) digest() (dataset.Digest, error) {
	if w.hasSum {
		return w.content, nil
	}
	raw := w.raw
	if w.file != nil {
		in, err := w.file.reader()
		if err != nil {
			return dataset.Digest{}, err
		}
		raw = make([]byte, w.file.size)
		if _, err := io.ReadFull(in, raw); err != nil {
			return dataset.Digest{}, fmt.Errorf("read a scratch file: %w", err)
		}
	}
	w.content, w.hasSum = dataset.ContentDigest(dataset.Row{ID: w.id, Raw: raw}), true
	return w.content, nil
}

func (w *winner) drop() {
	if w.file != nil {
		w.file.close()
		w.file = nil
	}
}

var errWeave = errors.New("internal error: rows and decisions do not fit together")

// run takes all rows.
func (w *weaver) run(ctx context.Context, rows, merged block.Stream[thread]) error {
	all := block.Merge(func(a, b thread) int { return bytes.Compare(a.key, b.key) }, merged, rows)
	w.segment, w.slot = -1, -1
	defer w.winner.drop()
	for {
		t, err := all.Next()
		if err == io.EOF {
			if w.drops != nil && w.drops.ok {
				return errWeave
			}
			return nil
		}
		if err == nil {
			err = w.take(t)
		}
		if err != nil {
			return err
		}
		if w.seen++; w.seen%10_000 == 0 {
			if w.progress(w.seen); ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
}

func (w *weaver) take(t thread) error {
	if id := idOfRow(t.key); w.seen == 0 || !bytes.Equal(id, w.id) {
		w.id = append(w.id[:0], id...)
		w.winner.is = false
	}
	if t.id == "" {
		var err error
		if t.id, _, err = block.CutID(t.key); err != nil {
			return fmt.Errorf("sort rows: %w", err)
		}
	}
	if err := w.move(t); err != nil {
		return err
	}
	dropped, why, err := w.dropped(t)
	switch {
	case err != nil:
		return err
	case !dropped:
		err = w.keep(t)
	case why == dropDigest:
		w.duplicate(t)
	default:
		err = w.lose(t)
	}
	if err == nil && w.part.after(int64(len(t.raw))+1, t.origin == newRow, !dropped) {
		err = w.cut()
	}
	return err
}

// cut ends the block at hand within a segment.
func (w *weaver) cut() error {
	err := w.shelf.cut()
	w.shelf.limits = w.part.cut()
	return err
}

// dropped tells whether a row does not stay, and why.
func (w *weaver) dropped(t thread) (bool, byte, error) {
	if w.drops == nil {
		return w.winner.is, dropID, nil
	}
	if !w.drops.ok || !bytes.Equal(w.drops.rec.Key, t.key) {
		if w.winner.is {
			return false, 0, errWeave // a second row of one id
		}
		return false, 0, nil
	}
	why := w.drops.rec.Payload[0]
	return true, why, w.drops.advance()
}

func (w *weaver) keep(t thread) error {
	if w.part.before(t.origin == newRow) {
		if err := w.cut(); err != nil {
			return err
		}
	}
	w.winner.is, w.winner.hasSum, w.winner.id = true, false, t.id
	if err := w.winner.hold(w.dir, t.raw); err != nil {
		return err
	}
	w.kept++
	switch {
	case t.origin != newRow:
	case classOfRow(t.key) == classNew:
		w.added++
	default:
		w.adopted++
	}
	return w.shelf.add(dataset.Row{ID: t.id, Raw: t.raw}, t.origin)
}

// duplicate counts a row that does not stay, but for one that an unfinished
// merge may have left: then the row that it was made of counts. Nor for one of
// the files that are adopted in place of a lost record, which overlap: it was
// counted when it was new.
func (w *weaver) duplicate(t thread) {
	class := classOfRow(t.key)
	if t.origin != newRow || class == classNew || class == classMerged && !w.overlap {
		w.duplicates++
	}
}

// lose counts a row whose id another one has: a repeated write, or a conflict,
// which is kept among the rejected lines.
func (w *weaver) lose(t thread) error {
	win := &w.winner
	if !win.is {
		return errWeave
	}
	content, err := win.digest()
	if err != nil {
		return err
	}
	if dataset.ContentDigest(dataset.Row{ID: t.id, Raw: t.raw}) == content {
		w.duplicate(t)
		return nil
	}
	if t.origin != newRow {
		return errWeave // blocks hold no id twice
	}
	w.conflicts++
	source, line := sourceOfRow(t.key)
	return w.rejects.add(source, line, t.offset, reasonConflict, t.raw)
}

// move goes to the segment of a row, and ends the block at hand where that is
// another one: a block that stays lies between them.
func (w *weaver) move(t thread) error {
	if t.origin != newRow {
		w.slot = 2*t.origin + 1
	} else {
		i := max(w.slot, 0) / 2
		for i < len(w.blocks) && w.blocks[i].LastID < t.id {
			i++
		}
		if w.slot = 2 * i; i < len(w.blocks) && w.blocks[i].FirstID <= t.id {
			w.slot++
		}
	}
	before := w.segment
	if w.segment < 0 {
		w.segment = 0
	}
	for w.segment < len(w.segments) && w.segments[w.segment].To < w.slot {
		w.segment++
	}
	if w.segment == len(w.segments) || w.slot < w.segments[w.segment].From {
		return errWeave
	}
	if before != w.segment {
		if err := w.shelf.cut(); err != nil {
			return err
		}
		w.shelf.limits = w.part.enter(w.segments[w.segment], w.limits)
	}
	return nil
}
