package query

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/siltstone-data/siltstone/catalog"
)

// merged is the source of a batch's merged rows: its blocks one after the
// other, each opened when the read reaches its first id.
type merged struct {
	r      *reader
	b      *batch
	place  place
	blocks []catalog.Block // not opened yet
	pass   *pass           // through the open block
	redo   *pass           // a broken one that gave rows and must be confirmed
}

func (m *merged) at() *place { return &m.place }

func (m *merged) close() {
	if m.pass != nil {
		m.pass.close()
		m.pass = nil
	}
}

// start sets the blocks up that have rows behind the last one given, and
// reports whether there are any.
func (m *merged) start() (bool, error) {
	m.blocks = nil
	rec := m.b.head.Record
	if rec.Deleted {
		return false, nil
	}
	var rows int64
	for _, bl := range rec.Blocks {
		if rows += bl.Rows; bl.Rows > 0 {
			m.blocks = append(m.blocks, bl)
		}
	}
	if rows != rec.Rows {
		return false, fmt.Errorf("%s: %w: it says %d rows, and its blocks have %d together", m.b.id.CommitKey(), ErrDamaged, rec.Rows, rows)
	}
	slices.SortFunc(m.blocks, func(a, b catalog.Block) int { return strings.Compare(a.FirstID, b.FirstID) })
	for i, bl := range m.blocks {
		if bl.FirstID == "" || bl.LastID < bl.FirstID || i > 0 && bl.FirstID <= m.blocks[i-1].LastID {
			return false, fmt.Errorf("%s: %w: the id range of %s is empty or overlaps another's", m.b.id.CommitKey(), ErrDamaged, bl.File)
		}
	}
	m.blocks = slices.DeleteFunc(m.blocks, func(bl catalog.Block) bool {
		return Cursor{bl.LastID, m.b.id.Batch}.Compare(m.r.last) <= 0 && !m.confirms(bl)
	})
	return m.bound(), nil
}

// confirms reports whether rows that were given are to be met again in bl.
func (m *merged) confirms(bl catalog.Block) bool {
	return m.redo != nil && m.redo.given > 0 && m.redo.same(bl)
}

// bound goes to the first id of the next block without opening it.
func (m *merged) bound() bool {
	if len(m.blocks) == 0 {
		return false
	}
	m.place = place{Cursor: Cursor{m.blocks[0].FirstID, m.b.id.Batch}}
	return true
}

func (m *merged) advance() error {
	if m.pass == nil {
		p, err := m.r.openPass(m.b, m.blocks[0], m.redo)
		if err != nil {
			return m.recover(p, err)
		}
		m.pass = p
	}
	row, err := m.pass.next()
	switch {
	case err == nil:
		m.b.rounds = 0
		m.place = place{Cursor: Cursor{row.ID, m.b.id.Batch}, ready: true, row: row}
		return nil
	case err != io.EOF:
		return m.recover(m.pass, err)
	}
	m.close()
	m.redo = nil
	m.blocks = m.blocks[1:]
	if !m.bound() {
		return io.EOF
	}
	return nil
}

// recover goes on after a block was missing or wrong: it was replaced, so list
// and record are read again.
func (m *merged) recover(p *pass, cause error) error {
	m.close()
	cause = fmt.Errorf("read block %s: %w", p.key, cause)
	if errors.Is(cause, errPermanent) || !gone(cause) && !damaged(cause) {
		return cause
	}
	if m.r.fixed() && gone(cause) {
		return notThere(m.b, p.block.File)
	}
	if err := m.b.again(p.key, cause); err != nil {
		return err
	}
	if err := m.r.refresh(m.b); err != nil {
		return err
	}
	if m.redo == nil || p.given > m.redo.given || p.key != m.redo.key {
		m.redo, p.damaged = p, damaged(cause)
	}
	ok, err := m.start()
	if err != nil {
		return err
	}
	if m.redo.damaged && m.redo.given > 0 && !slices.ContainsFunc(m.blocks, m.confirms) {
		// The bytes were wrong, rows of them are given, and the block that
		// could confirm them is gone.
		return fmt.Errorf("%w: %w (%d rows of it were given)", ErrDamaged, cause, m.redo.given)
	}
	if !ok {
		return io.EOF
	}
	return nil
}

// refresh takes a new snapshot of a batch that changes while it is read. Live
// rows of chunks that are not live any more will not be given.
func (r *reader) refresh(b *batch) error {
	was := b.head.Record.Generation
	if err := r.snapshot(r.ctx, b); err != nil {
		return err
	}
	if r.o.Live {
		if err := r.loadLive([]*batch{b}); err != nil {
			return err
		}
	}
	if rec := b.head.Record; r.o.Moved != nil && rec.Generation != was && !rec.Deleted {
		r.o.Moved(r.layer, Pin{Batch: b.id.Batch, Generation: rec.Generation, Commit: rec.Commit, Rows: rec.Rows})
	}
	switch {
	case !b.head.Exists():
		return fmt.Errorf("%s: %w: there was a commit record, and there is none now", b.id.CommitKey(), ErrDamaged)
	case b.head.Record.Deleted:
		return fmt.Errorf("batch %s was removed while it was read", b.id)
	}
	return nil
}
