package merger

import (
	"slices"

	"github.com/siltstone-data/siltstone/catalog"
)

// Load is a number of rows and their raw bytes, newlines included.
type Load struct{ Rows, Bytes int64 }

func (l Load) plus(m Load) Load { return Load{l.Rows + m.Rows, l.Bytes + m.Bytes} }

// Limits bound a block.
type Limits struct{ Rows, Bytes int64 }

// fill is how full a block with that load is: 1 is full.
func (l Limits) fill(x Load) float64 {
	return max(float64(x.Rows)/float64(l.Rows), float64(x.Bytes)/float64(l.Bytes))
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
type Segment struct{ From, To int }

// Blocks gives the blocks of the segment, as a half-open range of indexes.
func (s Segment) Blocks() (from, to int) { return s.From / 2, (s.To + 1) / 2 }

// Plan decides which blocks are written anew. blocks are those that hold rows,
// in order; news has the new rows by slot. Blocks in no segment stay as they
// are.
//
// A block is rewritten when new rows fall into its range, since ranges must not
// overlap. New rows elsewhere become blocks of their own, but a neighbour that
// is less than half full and no larger than what it joins is taken in: so each
// time a row is rewritten its block has at least doubled, which a trickle of
// small merges does O(log n) times to a row and leaves O(log n) small blocks.
func Plan(blocks []catalog.Block, news []Load, limits Limits) []Segment {
	var pieces []piece
	for slot := range 2*len(blocks) + 1 {
		p := piece{Segment: Segment{slot, slot}, load: news[slot], rewrite: news[slot].Rows > 0}
		if slot%2 == 1 {
			b := blocks[slot/2]
			p.load = p.load.plus(Load{b.Rows, b.RawBytes})
		} else if !p.rewrite {
			continue
		}
		pieces = append(pieces, p)
		for n := len(pieces); n > 1 && pieces[n-2].joins(pieces[n-1], limits); n-- {
			pieces[n-2] = piece{
				Segment: Segment{pieces[n-2].From, pieces[n-1].To},
				load:    pieces[n-2].load.plus(pieces[n-1].load),
				rewrite: true,
			}
			pieces = pieces[:n-1]
		}
	}
	var out []Segment
	for _, p := range pieces {
		if p.rewrite {
			out = append(out, p.Segment)
		}
	}
	return out
}

// piece is a block that stays, or a segment.
type piece struct {
	Segment
	load    Load
	rewrite bool
}

// joins tells whether two neighbours become one segment.
func (p piece) joins(q piece, limits Limits) bool {
	a, b := limits.fill(p.load), limits.fill(q.load)
	switch {
	case p.rewrite && q.rewrite: // both are written anyway
		return min(a, b) < 0.5
	case p.rewrite:
		return b < 0.5 && b <= a
	case q.rewrite:
		return a < 0.5 && a <= b
	}
	return false
}

// PlanAll is one segment of all blocks: for when every row is decided again.
func PlanAll(blocks []catalog.Block) []Segment { return []Segment{{0, 2 * len(blocks)}} }
