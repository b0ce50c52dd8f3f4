package merger_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/merger"
)

func TestPlan(t *testing.T) {
	limits := merger.Limits{Rows: 100, Bytes: 1000}
	// blocks of the given numbers of rows, one byte a row
	blocks := func(rows ...int64) []catalog.Block {
		var out []catalog.Block
		for _, n := range rows {
			out = append(out, catalog.Block{Rows: n, RawBytes: n})
		}
		return out
	}
	for _, c := range []struct {
		name   string
		blocks []catalog.Block
		news   map[int]int64 // slot -> rows
		want   []merger.Segment
	}{
		{"the first rows", nil, map[int]int64{0: 7}, []merger.Segment{{0, 0}}},
		{"nothing new", blocks(100, 10), nil, nil},
		{"rows past full blocks leave them alone", blocks(100, 60), map[int]int64{4: 10}, []merger.Segment{{4, 4}}},
		{"rows past a larger small block leave it alone", blocks(100, 11), map[int]int64{4: 10}, []merger.Segment{{4, 4}}},
		{"rows past a block that is no larger take it in", blocks(100, 10), map[int]int64{4: 10}, []merger.Segment{{3, 4}}},
		{"small blocks fall like dominoes", blocks(100, 40, 20, 10, 5), map[int]int64{10: 6}, []merger.Segment{{3, 10}}},
		{"until one is larger than all behind it", blocks(49, 40, 20, 5, 5), map[int]int64{10: 6}, []merger.Segment{{7, 10}}},
		{"a block that rows fall into is rewritten", blocks(100, 100, 100), map[int]int64{3: 1}, []merger.Segment{{3, 3}}},
		{"so is each of several", blocks(100, 100, 100), map[int]int64{1: 1, 5: 1}, []merger.Segment{{1, 1}, {5, 5}}},
		{"rows between full blocks become a block of their own", blocks(100, 100), map[int]int64{2: 3}, []merger.Segment{{2, 2}}},
		{"rows between go with a neighbour that is rewritten", blocks(100, 100), map[int]int64{2: 3, 3: 1}, []merger.Segment{{2, 3}}},
		{"many rows between stay apart from it", blocks(100, 100), map[int]int64{2: 80, 3: 1}, []merger.Segment{{2, 2}, {3, 3}}},
		{"a small block beside a rewritten one goes along", blocks(100, 20, 100), map[int]int64{1: 1}, []merger.Segment{{1, 3}}},
		{"also before it", blocks(20, 100), map[int]int64{3: 1}, []merger.Segment{{1, 3}}},
		{"bytes count as well", []catalog.Block{{Rows: 1, RawBytes: 990}, {Rows: 1, RawBytes: 400}}, map[int]int64{4: 30}, []merger.Segment{{4, 4}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			news := make([]merger.Load, 2*len(c.blocks)+1)
			for slot, n := range c.news {
				news[slot] = merger.Load{Rows: n, Bytes: n}
			}
			if diff := cmp.Diff(c.want, merger.Plan(c.blocks, news, limits)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The plan for any input: segments ascend, hold every new row, and touch no
// block without a reason.
func TestEveryNewRowIsInOneSegmentAndFullBlocksStay(t *testing.T) {
	limits := merger.Limits{Rows: 100, Bytes: 1000}
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var blocks []catalog.Block
		for range rng.IntN(10) {
			blocks = append(blocks, catalog.Block{Rows: 1 + rng.Int64N(100), RawBytes: 1 + rng.Int64N(1000)})
		}
		news := make([]merger.Load, 2*len(blocks)+1)
		for range rng.IntN(6) {
			i := rng.IntN(len(news))
			news[i].Rows += 1 + rng.Int64N(80)
			news[i].Bytes += 1 + rng.Int64N(500)
		}
		in := make([]int, len(news))
		last := -1
		for _, s := range merger.Plan(blocks, news, limits) {
			if s.From <= last || s.To < s.From {
				t.Fatalf("seed %d: segments %v", seed, merger.Plan(blocks, news, limits))
			}
			last = s.To
			for slot := s.From; slot <= s.To; slot++ {
				in[slot]++
			}
		}
		for slot, n := range in {
			if news[slot].Rows > 0 && n != 1 {
				t.Fatalf("seed %d: new rows of slot %d are in %d segments", seed, slot, n)
			}
			if slot%2 == 1 && n > 0 && news[slot].Rows == 0 {
				b := blocks[slot/2]
				if b.Rows >= 50 || b.RawBytes >= 500 {
					t.Fatalf("seed %d: block %d is rewritten for nothing", seed, slot/2)
				}
			}
		}
	}
}

// A trickle of small merges: blocks do not stay tiny, and no row is rewritten
// often.
func TestATrickleCostsFewRewritesAndLeavesFewBlocks(t *testing.T) {
	limits := merger.Limits{Rows: 50_000, Bytes: 256 << 20}
	for _, each := range []int64{1, 100, 3000} {
		t.Run(fmt.Sprint(each), func(t *testing.T) {
			var blocks []catalog.Block
			var written, total int64
			most := 0
			for total < 3000*each {
				news := make([]merger.Load, 2*len(blocks)+1)
				news[len(news)-1] = merger.Load{Rows: each, Bytes: 100 * each}
				segments := merger.Plan(blocks, news, limits)
				from, _ := segments[0].Blocks()
				rows := each
				for _, b := range blocks[from:] {
					rows += b.Rows
				}
				blocks = blocks[:from]
				for written += rows; rows > 0; {
					n := min(rows, limits.Rows)
					blocks = append(blocks, catalog.Block{Rows: n, RawBytes: 100 * n})
					rows -= n
				}
				total += each
				small := 0
				for _, b := range blocks {
					if b.Rows < limits.Rows/2 {
						small++
					}
				}
				most = max(most, small)
			}
			if each := float64(written) / float64(total); each > 17 {
				t.Errorf("each row was written %.1f times", each)
			}
			if most > 17 {
				t.Errorf("there were %d small blocks at once", most)
			}
			t.Logf("%.1f writes a row, at most %d small blocks", float64(written)/float64(total), most)
		})
	}
}
