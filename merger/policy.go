package merger

import (
	"slices"

	"github.com/siltstone-data/siltstone/catalog"
)

// Load is a number of rows and their raw bytes, newlines included.
type Load struct{ Rows, Bytes int64 }

func (l Load) plus(m Load) Load  { return Load{l.Rows + m.Rows, l.Bytes + m.Bytes} }
func (l Load) minus(m Load) Load { return Load{l.Rows - m.Rows, l.Bytes - m.Bytes} }

// Limits bound a block.
type Limits struct{ Rows, Bytes int64 }

// fill is how full a block with that load is: 1 is full.
func (l Limits) fill(x Load) float64 {
	return max(float64(x.Rows)/float64(l.Rows), float64(x.Bytes)/float64(l.Bytes))
}

// Split gives the limits under which a load becomes as few blocks as it can,
// all of about one size: 1.02 blocks become two halves, not a full one and a
// crumb, so that each is large enough to be left alone.
func (l Limits) Split(x Load) Limits {
	fill := l.fill(x)
	n := int64(fill)
	if float64(n) < fill {
		n++
	}
	switch {
	case n < 2:
		return l
	case float64(x.Rows)/float64(l.Rows) == fill:
		return Limits{Rows: (x.Rows + n - 1) / n, Bytes: l.Bytes}
	}
	return Limits{Rows: l.Rows, Bytes: min(l.Bytes, x.Bytes/n+x.Bytes/max(x.Rows, 1)+1)}
}

// Slots tell where ids lie relative to n blocks in order: slot 2i+1 is within
// the range of block i, slot 2i between the blocks i-1 and i, and 2n past the
// last. slotOf finds the slot of an id, from is where the search begins.
func slotOf(blocks []catalog.Block, id string) int {
	i, _ := slices.BinarySearchFunc(blocks, id, func(b catalog.Block, id string) int {
		if b.LastID < id {
			return -1
		}
		return 1
	})
	if i < len(blocks) && blocks[i].FirstID <= id {
		return 2*i + 1
	}
	return 2 * i
}

// Segment is a range of slots, both ends included, whose rows are written
// anew: the blocks in it and the new rows.
type Segment struct {
	From, To int
	Load     Load  // of all its rows, at most; zero where that is not known
	New      int64 // how many of them are new
}

// Blocks gives the blocks of the segment, as a half-open range of indexes.
func (s Segment) Blocks() (from, to int) { return s.From / 2, (s.To + 1) / 2 }

// many new rows that fall into one place are no accident: more will.
const many = 16

// Cuts tells whether a block ends between a part of the segment without new
// rows, before the first or past the last of them, and the rest with them. So
// what has grown cold is not written again when more new rows follow there: the
// tail of writers whose ids overlap in time stays small, and rows that go on
// between two others' get a place of their own. The part must be the larger one:
// the rest at least doubles before it is cut again.
//
// Few rows that fall far inside a large block cut nothing. They may fall
// anywhere next time, and blocks would crumble.
func (s Segment) Cuts(cold, rest Load, limits Limits) bool {
	if cold.Rows <= 0 || rest.Rows <= 0 || limits.fill(cold) < limits.fill(rest) {
		return false
	}
	return limits.fill(s.Load) < 0.5 || s.New >= many || s.To%2 == 0
}

// Plan decides which blocks are written anew. blocks are those that hold rows,
// in order; news has the new rows by slot. Blocks in no segment stay as they
// are.
//
// A block is rewritten when new rows fall into its range, since ranges must not
// overlap. New rows elsewhere become blocks of their own. Besides, small
// neighbours that no new row touches are joined: see joinNeighbours.
func Plan(blocks []catalog.Block, news []Load, limits Limits) []Segment {
	var pieces []piece
	for slot := range 2*len(blocks) + 1 {
		p := piece{Segment: Segment{From: slot, To: slot, Load: news[slot], New: news[slot].Rows}}
		p.rewrite = p.New > 0
		if slot%2 == 1 {
			b := blocks[slot/2]
			p.Load = p.Load.plus(Load{b.Rows, b.RawBytes})
		} else if !p.rewrite {
			continue
		}
		pieces = append(pieces, p)
		// Neighbours that are both written anyhow are written together, unless
		// both are large.
		for n := len(pieces); n > 1 && pieces[n-2].rewrite && pieces[n-1].rewrite &&
			min(limits.fill(pieces[n-2].Load), limits.fill(pieces[n-1].Load)) < 0.5; n-- {
			pieces[n-2] = joined(pieces[n-2 : n])
			pieces = pieces[:n-1]
		}
	}
	var out []Segment
	for _, p := range joinNeighbours(pieces, limits) {
		if p.rewrite {
			out = append(out, p.Segment)
		}
	}
	return out
}

// piece is a block that stays, or a segment.
type piece struct {
	Segment
	rewrite bool
}

// joined is one segment of neighbours.
func joined(ps []piece) piece {
	p := ps[0]
	p.rewrite = true
	for _, q := range ps[1:] {
		p.To = q.To
		p.Load = p.Load.plus(q.Load)
		p.New += q.New
	}
	return p
}

// PlanAll is one segment of all blocks: for when every row is decided again.
func PlanAll(blocks []catalog.Block) []Segment { return []Segment{{From: 0, To: 2 * len(blocks)}} }
