package merger

import (
	"cmp"
	"slices"
)

const (
	// growth is by how much at least a row's block grows when it is joined with
	// its neighbours. So a row is rewritten log16 times on the way from its first
	// block to one of half the full size, and once more from there.
	growth = 16
	// fresh blocks before new rows are not joined: late rows may still fall into
	// them, and what they were joined to would be written again.
	fresh = 4
	// mostSmall bounds the small blocks in a row, whatever their sizes.
	mostSmall = 64
)

// joinNeighbours makes segments of small blocks in a row that no new row
// touches. A block of at least half the full size is left alone for ever, and
// divides rows of small ones. Small ones are joined
//
//   - when together they fill a block: what comes out is never joined again;
//   - when together they are growth times the largest of them;
//   - when there are more than mostSmall: those of them that cost least.
//
// The first rule ends the life of a small block, the second makes it grow so
// much that it happens rarely, and leaves at most growth blocks of about one size in a row:
// some 15 for each factor 16 between the smallest and the full size where sizes
// fall from left to right, as appended ones do. The third holds where sizes are
// mixed.
func joinNeighbours(pieces []piece, limits Limits) []piece {
	small := func(p piece) bool { return !p.rewrite && limits.fill(p.Load) < 0.5 }
	var out []piece
	for i := 0; i < len(pieces); {
		if !small(pieces[i]) {
			out = append(out, pieces[i])
			i++
			continue
		}
		j := i
		for j < len(pieces) && small(pieces[j]) {
			j++
		}
		end := j
		if j < len(pieces) && pieces[j].rewrite {
			end = max(i, j-fresh)
		}
		out = append(out, joinSmall(pieces[i:end], limits)...)
		out = append(out, pieces[end:j]...)
		i = j
	}
	return joinMany(out, limits)
}

// joinSmall joins among small blocks in a row.
func joinSmall(row []piece, limits Limits) []piece {
	row, out := joinFull(row, limits)
	at := 0
	for _, r := range grown(row, limits) {
		out = append(out, row[at:r[0]]...)
		out = append(out, joined(row[r[0]:r[1]]))
		at = r[1]
	}
	return append(out, row[at:]...)
}

// joinMany joins where there are too many small blocks in a row, those that new
// rows fall into among them.
func joinMany(pieces []piece, limits Limits) []piece {
	var out []piece
	for i := 0; i < len(pieces); {
		j := i
		for j < len(pieces) && limits.fill(pieces[j].Load) < 0.5 {
			j++
		}
		if j == i {
			j++
		}
		out = append(out, joinCheapest(pieces[i:j], limits)...)
		i = j
	}
	return out
}

// joinFull joins from the left as long as there is enough for a block, and gives what is left.
func joinFull(row []piece, limits Limits) (left, out []piece) {
	for {
		n := 0
		var sum Load
		for n < len(row) && limits.fill(sum) < 1 {
			sum = sum.plus(row[n].Load)
			n++
		}
		if limits.fill(sum) < 1 {
			return row, out
		}
		out = append(out, joined(row[:n]))
		row = row[n:]
	}
}

// grown finds the ranges that are growth times their largest block, and within
// no other such range. For each block there is one range to look at: all around it
// that is no larger. Those are nested or apart.
func grown(row []piece, limits Limits) [][2]int {
	n := len(row)
	fill := make([]float64, n)
	sums := make([]Load, n+1)
	for i, p := range row {
		fill[i] = limits.fill(p.Load)
		sums[i+1] = sums[i].plus(p.Load)
	}
	left, right := make([]int, n), make([]int, n) // of the range of each block
	var open []int                                // blocks that nothing larger has followed yet
	for i := range n {
		for len(open) > 0 && fill[open[len(open)-1]] < fill[i] {
			right[open[len(open)-1]] = i
			open = open[:len(open)-1]
		}
		if len(open) > 0 {
			before := open[len(open)-1]
			left[i] = before + 1
			if fill[before] == fill[i] {
				left[i] = left[before]
			}
		}
		open = append(open, i)
	}
	for _, i := range open {
		right[i] = n
	}
	var out [][2]int
	for i := range n {
		if right[i]-left[i] > 1 && limits.fill(sums[right[i]].minus(sums[left[i]])) >= growth*fill[i] {
			out = append(out, [2]int{left[i], right[i]})
		}
	}
	slices.SortFunc(out, func(a, b [2]int) int { return cmp.Or(a[0]-b[0], b[1]-a[1]) })
	end := 0
	return slices.DeleteFunc(out, func(r [2]int) bool {
		within := r[1] <= end
		end = max(end, r[1])
		return within
	})
}

// joinCheapest joins until there are no more than mostSmall, each time the
// growth blocks in a row that are the least to write.
func joinCheapest(row []piece, limits Limits) []piece {
	row = slices.Clone(row)
	for len(row) > mostSmall {
		best, least := 0, 0.0
		for i := 0; i+growth <= len(row); i++ {
			all := limits.fill(joined(row[i : i+growth]).Load)
			if i == 0 || all < least {
				best, least = i, all
			}
		}
		row = slices.Replace(row, best, best+growth, joined(row[best:best+growth]))
	}
	return row
}
