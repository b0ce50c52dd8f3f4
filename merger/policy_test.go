package merger_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/merger"
)

func TestPlan(t *testing.T) {
	limits := merger.Limits{Rows: 1000, Bytes: 10_000}
	// blocks of the given numbers of rows, one byte a row
	blocks := func(rows ...int64) []catalog.Block {
		var out []catalog.Block
		for _, n := range rows {
			out = append(out, catalog.Block{Rows: n, RawBytes: n})
		}
		return out
	}
	small := func(n int, rows int64) []int64 { return slices.Repeat([]int64{rows}, n) }
	for _, c := range []struct {
		name   string
		blocks []catalog.Block
		news   map[int]int64 // slot -> rows
		want   []merger.Segment
	}{
		{"the first rows", nil, map[int]int64{0: 7}, []merger.Segment{{0, 0, merger.Load{7, 7}, 7}}},
		{"nothing new", blocks(1000, 100), nil, nil},
		{"rows past full blocks leave them alone", blocks(1000, 600), map[int]int64{4: 10}, []merger.Segment{{4, 4, merger.Load{10, 10}, 10}}},
		{"rows past small ones too", blocks(1000, 10, 10), map[int]int64{6: 10}, []merger.Segment{{6, 6, merger.Load{10, 10}, 10}}},
		{"sixteen of a size are joined, but for the four before new rows", blocks(append([]int64{1000}, small(20, 10)...)...), map[int]int64{42: 10},
			[]merger.Segment{{3, 33, merger.Load{160, 160}, 0}, {42, 42, merger.Load{10, 10}, 10}}},
		{"fifteen are not", blocks(append([]int64{1000}, small(19, 10)...)...), map[int]int64{40: 10}, []merger.Segment{{40, 40, merger.Load{10, 10}, 10}}},
		{"without new rows all are", blocks(append([]int64{1000}, small(16, 10)...)...), nil, []merger.Segment{{3, 33, merger.Load{160, 160}, 0}}},
		{"those behind a larger one are joined without it", blocks(append([]int64{160}, small(16, 10)...)...), nil, []merger.Segment{{3, 33, merger.Load{160, 160}, 0}}},
		{"the widest range is joined at once", blocks(append(small(15, 16), small(16, 1)...)...), nil, []merger.Segment{{1, 61, merger.Load{256, 256}, 0}}},
		{"enough for a block is joined whatever the sizes", blocks(450, 450, 100, 3, 1), nil, []merger.Segment{{1, 5, merger.Load{1000, 1000}, 0}}},
		{"large blocks divide small ones", blocks(300, 300, 500, 300, 300), nil, nil},
		{"a block that rows fall into is rewritten", blocks(1000, 1000, 1000), map[int]int64{3: 1}, []merger.Segment{{3, 3, merger.Load{1001, 1001}, 1}}},
		{"so is each of several", blocks(1000, 1000, 1000), map[int]int64{1: 1, 5: 1},
			[]merger.Segment{{1, 1, merger.Load{1001, 1001}, 1}, {5, 5, merger.Load{1001, 1001}, 1}}},
		{"rows between full blocks become a block of their own", blocks(1000, 1000), map[int]int64{2: 3}, []merger.Segment{{2, 2, merger.Load{3, 3}, 3}}},
		{"rows between go with a neighbour that is rewritten", blocks(1000, 1000), map[int]int64{2: 3, 3: 1}, []merger.Segment{{2, 3, merger.Load{1004, 1004}, 4}}},
		{"many rows between stay apart from it", blocks(1000, 1000), map[int]int64{2: 800, 3: 1},
			[]merger.Segment{{2, 2, merger.Load{800, 800}, 800}, {3, 3, merger.Load{1001, 1001}, 1}}},
		{"small blocks that rows fall into are written together", blocks(1000, 10, 20), map[int]int64{3: 1, 5: 1, 6: 1}, []merger.Segment{{3, 6, merger.Load{33, 33}, 3}}},
		{"a small block beside them stays", blocks(1000, 10, 20), map[int]int64{5: 1}, []merger.Segment{{5, 5, merger.Load{21, 21}, 1}}},
		{"bytes count as well", []catalog.Block{{Rows: 1, RawBytes: 4500}, {Rows: 1, RawBytes: 4500}, {Rows: 1, RawBytes: 1000}}, nil,
			[]merger.Segment{{1, 5, merger.Load{3, 10_000}, 0}}},
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

func TestWhereASegmentIsCut(t *testing.T) {
	limits := merger.Limits{Rows: 1000, Bytes: 10_000}
	for _, c := range []struct {
		name       string
		s          merger.Segment
		cold, rest int64
		want       bool
	}{
		{"the cold part of a small segment", merger.Segment{From: 1, To: 1, Load: merger.Load{Rows: 100}, New: 1}, 60, 40, true},
		{"not where the rest is larger", merger.Segment{From: 1, To: 1, Load: merger.Load{Rows: 100}, New: 1}, 40, 60, false},
		{"not where there is none", merger.Segment{From: 1, To: 1, Load: merger.Load{Rows: 100}, New: 1}, 0, 0, false},
		{"not before the end", merger.Segment{From: 1, To: 1, Load: merger.Load{Rows: 100}, New: 1}, 100, 0, false},
		{"a large segment with one new row inside", merger.Segment{From: 1, To: 1, Load: merger.Load{Rows: 900}, New: 1}, 600, 300, false},
		{"with many", merger.Segment{From: 1, To: 1, Load: merger.Load{Rows: 900}, New: 16}, 600, 300, true},
		{"with one past its end", merger.Segment{From: 1, To: 2, Load: merger.Load{Rows: 900}, New: 2}, 600, 300, true},
	} {
		if got := c.s.Cuts(merger.Load{Rows: c.cold}, merger.Load{Rows: c.rest}, limits); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestALoadIsSplitIntoFewBlocksOfOneSize(t *testing.T) {
	limits := merger.Limits{Rows: 1000, Bytes: 10_000}
	for _, c := range []struct{ load, want merger.Limits }{
		{merger.Limits{}, limits},
		{merger.Limits{Rows: 1000, Bytes: 100}, limits},
		{merger.Limits{Rows: 1001, Bytes: 100}, merger.Limits{Rows: 501, Bytes: 10_000}},
		{merger.Limits{Rows: 10_000, Bytes: 100}, limits},
		{merger.Limits{Rows: 100, Bytes: 10_100}, merger.Limits{Rows: 1000, Bytes: 5152}},
	} {
		if got := limits.Split(merger.Load(c.load)); got != c.want {
			t.Errorf("%v: %v, want %v", c.load, got, c.want)
		}
	}
}

// The plan for any input: segments ascend, hold every new row, and touch no
// block without a reason.
func TestEveryNewRowIsInOneSegmentAndFullBlocksStay(t *testing.T) {
	limits := merger.Limits{Rows: 100, Bytes: 1000}
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var blocks []catalog.Block
		for range rng.IntN(200) {
			n := 1 + rng.Int64N(100)>>rng.IntN(7)
			blocks = append(blocks, catalog.Block{Rows: n, RawBytes: n + rng.Int64N(10*n)})
		}
		news := make([]merger.Load, 2*len(blocks)+1)
		for range rng.IntN(6) {
			i := rng.IntN(len(news))
			news[i].Rows += 1 + rng.Int64N(80)
			news[i].Bytes += 1 + rng.Int64N(500)
		}
		in := make([]int, len(news))
		last := -1
		small, most := 0, 0
		for _, s := range merger.Plan(blocks, news, limits) {
			if s.From <= last || s.To < s.From {
				t.Fatalf("seed %d: segments %v", seed, merger.Plan(blocks, news, limits))
			}
			last = s.To
			sum := merger.Load{}
			for slot := s.From; slot <= s.To; slot++ {
				sum.Rows, sum.Bytes = sum.Rows+news[slot].Rows, sum.Bytes+news[slot].Bytes
				if slot%2 == 1 {
					sum.Rows, sum.Bytes = sum.Rows+blocks[slot/2].Rows, sum.Bytes+blocks[slot/2].RawBytes
				}
			}
			if sum != s.Load {
				t.Fatalf("seed %d: segment %v has %v", seed, s, sum)
			}
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
			if slot%2 == 1 {
				if b := blocks[slot/2]; n == 0 && b.Rows < 50 && b.RawBytes < 500 {
					small++
				} else {
					small = 0
				}
				most = max(most, small)
			}
		}
		if most > 70 {
			t.Fatalf("seed %d: %d small blocks in a row stay", seed, most)
		}
	}
}
