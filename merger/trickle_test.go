package merger_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/merger"
)

// laid is a batch as the rules lay it down: the ids of each block. It does with
// segments what a merge does with rows.
type laid struct {
	limits  merger.Limits
	blocks  [][]int
	written int // rows
	added   int
	most    int // small blocks at once
	largest int // rows written by one merge
}

const (
	rowBytes = 1850
	spacing  = 100_000 // between the ids that are there
)

func load(rows int) merger.Load { return merger.Load{Rows: int64(rows), Bytes: int64(rows) * rowBytes} }

func id(n int) string { return fmt.Sprintf("%012d", n) }

// merge adds ids, in order, that are not there yet.
func (l *laid) merge(ids []int) {
	var blocks []catalog.Block
	for _, b := range l.blocks {
		blocks = append(blocks, catalog.Block{Rows: int64(len(b)), RawBytes: int64(len(b)) * rowBytes,
			FirstID: id(b[0]), LastID: id(b[len(b)-1])})
	}
	bySlot := make([][]int, 2*len(blocks)+1)
	at := 0
	ids = slices.DeleteFunc(ids, l.has)
	for _, n := range ids {
		for at < len(l.blocks) && l.blocks[at][len(l.blocks[at])-1] < n {
			at++
		}
		slot := 2 * at
		if at < len(l.blocks) && l.blocks[at][0] <= n {
			slot++
		}
		bySlot[slot] = append(bySlot[slot], n)
	}
	news := make([]merger.Load, len(bySlot))
	for slot, ids := range bySlot {
		news[slot] = load(len(ids))
	}
	var out [][]int
	at = 0 // block
	written := 0
	for _, s := range merger.Plan(blocks, news, l.limits) {
		from, to := s.Blocks()
		out = append(out, l.blocks[at:from]...)
		at = to
		var fresh []int
		old := slices.Concat(l.blocks[from:to]...)
		for slot := s.From; slot <= s.To; slot++ {
			fresh = append(fresh, bySlot[slot]...)
		}
		if int64(len(fresh)) != s.New || s.Load != load(len(fresh)+len(old)) {
			panic(fmt.Sprint(s, len(fresh), len(old)))
		}
		written += len(old) + len(fresh)
		for _, rows := range l.parts(s, old, fresh) {
			limit := int(l.limits.Split(load(len(rows))).Rows)
			for ; len(rows) > limit; rows = rows[limit:] {
				out = append(out, rows[:limit])
			}
			out = append(out, rows)
		}
	}
	l.blocks = append(out, l.blocks[at:]...)
	l.written += written
	l.added += len(ids)
	l.largest = max(l.largest, written)
	small := 0
	for _, b := range l.blocks {
		if int64(2*len(b)) < l.limits.Rows {
			small++
		}
	}
	l.most = max(l.most, small)
}

func (l *laid) has(n int) bool {
	i, _ := slices.BinarySearchFunc(l.blocks, n, func(b []int, n int) int { return b[len(b)-1] - n })
	if i == len(l.blocks) {
		return false
	}
	_, has := slices.BinarySearch(l.blocks[i], n)
	return has
}

// parts cuts what is cold off a segment.
func (l *laid) parts(s merger.Segment, old, fresh []int) (parts [][]int) {
	if len(fresh) == 0 {
		return [][]int{old}
	}
	rows := make([]int, 0, len(old)+len(fresh))
	for _, n := range fresh {
		i, _ := slices.BinarySearch(old, n)
		rows, old = append(append(rows, old[:i]...), n), old[i:]
	}
	rows = append(rows, old...)
	if i, _ := slices.BinarySearch(rows, fresh[0]); s.Cuts(load(i), load(len(rows)-i), l.limits) {
		parts = append(parts, rows[:i])
		rows = rows[i:]
	}
	i, _ := slices.BinarySearch(rows, fresh[len(fresh)-1]+1)
	if s.Cuts(load(len(rows)-i), load(i), l.limits) {
		return append(parts, rows[:i], rows[i:])
	}
	return append(parts, rows)
}

func newLaid(rows int) *laid {
	l := &laid{limits: merger.Limits{Rows: 50_000, Bytes: 256 << 20}}
	for n := 0; n < rows; n += 50_000 {
		b := make([]int, min(50_000, rows-n))
		for i := range b {
			b[i] = (n + i) * spacing
		}
		l.blocks = append(l.blocks, b)
	}
	return l
}

// trickle makes merges of ids that next gives.
func (l *laid) trickle(merges int, next func(i int) []int) {
	for i := range merges {
		ids := next(i)
		slices.Sort(ids)
		l.merge(slices.Compact(ids))
	}
}

func (l *laid) ratio() float64 { return float64(l.written) / float64(l.added) }

// What it costs to add rows in small merges, for many mixes of sizes and places:
// how often each new row is written, rewritten old ones included, and how many
// small blocks there are at once.
func TestATrickleCostsFewRewritesAndLeavesFewBlocks(t *testing.T) {
	const base = 300_000
	end := base*spacing + 1
	appended := func(size func(i int, rng *rand.Rand) int) func(*rand.Rand) func(int) []int {
		return func(rng *rand.Rand) func(int) []int {
			at := end
			return func(i int) []int {
				ids := make([]int, size(i, rng))
				for j := range ids {
					at++
					ids[j] = at
				}
				return ids
			}
		}
	}
	each := func(n int) func(*rand.Rand) func(int) []int {
		return appended(func(int, *rand.Rand) int { return n })
	}
	// n rows a merge whose ids overlap those of some merges before
	staggered := func(n int, overlap float64) func(*rand.Rand) func(int) []int {
		return func(rng *rand.Rand) func(int) []int {
			return func(i int) []int {
				ids := make([]int, n)
				for j := range ids {
					ids[j] = end + int((float64(i)+rng.Float64()*(1+overlap))*float64(n)*5000)
				}
				return ids
			}
		}
	}
	for _, c := range []struct {
		name   string
		merges int
		next   func(*rand.Rand) func(int) []int
		ratio  float64
		small  int
	}{
		{"appended 1", 3000, each(1), 4.5, 60},
		{"appended 4", 3000, each(4), 4.5, 60},
		{"appended 20", 2000, each(20), 4.1, 50},
		{"appended 90", 1000, each(90), 4, 40},
		{"appended 100", 1000, each(100), 3.1, 40},
		{"appended 150", 1000, each(150), 3.1, 40},
		{"appended 1000", 500, each(1000), 3.1, 40},
		{"appended 3000", 300, each(3000), 3.1, 40},
		{"appended 20000", 100, each(20_000), 3.1, 10},
		{"appended 60000", 30, each(60_000), 3.1, 10},
		{"appended 1 to 200", 2000, appended(func(_ int, r *rand.Rand) int { return 1 + r.IntN(200) }), 4, 60},
		{"appended 1 or 1000", 2000, appended(func(i int, _ *rand.Rand) int { return 1 + i%2*999 }), 4, 70},
		{"appended 1 to 10,000, log-uniform", 1000, appended(func(_ int, r *rand.Rand) int {
			n := 1
			for range r.IntN(14) {
				n *= 2
			}
			return n
		}), 4, 70},
		{"staggered over half a merge", 1000, staggered(100, 0.5), 4.6, 40},
		{"staggered over one merge", 1000, staggered(100, 1), 4.8, 40},
		{"staggered over three merges", 1000, staggered(100, 3), 6.2, 40},
		{"staggered single rows", 1000, staggered(4, 1), 4.2, 60},
		{"appended, and now and then one row late", 1000, func(rng *rand.Rand) func(int) []int {
			next := each(100)(rng)
			return func(i int) []int {
				ids := next(i)
				for j := range ids {
					ids[j] *= 2
				}
				if i%10 == 9 {
					ids = append(ids, ids[0]-2*rng.IntN(1000)-1)
				}
				return ids
			}
		}, 3.5, 70},
		{"four writers, each with ids after its own", 1000, func(rng *rand.Rand) func(int) []int {
			return func(i int) []int {
				var ids []int
				for w := range 4 {
					for j := range 25 {
						ids = append(ids, ((w+1)*base/5+20_000)*spacing+i*26+j+1)
					}
				}
				return ids
			}
		}, 5, 170},
		{"single rows in no order", 200, func(rng *rand.Rand) func(int) []int {
			return func(int) []int { return []int{rng.IntN(end)} }
		}, 50_000, 40},
		{"five hundred rows in no order", 5, func(rng *rand.Rand) func(int) []int {
			return func(int) []int {
				ids := make([]int, 500)
				for i := range ids {
					ids[i] = rng.IntN(end)
				}
				return ids
			}
		}, 650, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLaid(base)
			l.trickle(c.merges, c.next(rand.New(rand.NewPCG(7, 7))))
			if r := l.ratio(); r > c.ratio {
				t.Errorf("each row was written %.1f times", r)
			}
			if l.most > c.small {
				t.Errorf("there were %d small blocks at once", l.most)
			}
			t.Logf("%.2f writes a row, at most %d small blocks at once, %d rows written at once, %d blocks at the end", l.ratio(), l.most, l.largest, len(l.blocks))
		})
	}
}
