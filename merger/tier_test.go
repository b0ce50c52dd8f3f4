package merger_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

// Hundreds of merges whose blocks are joined, cut and split, and whose digest
// files are joined: what is there is always what the rule gives.
func TestTiersKeepEveryRow(t *testing.T) {
	merges := 300
	if testing.Short() {
		merges = 100
	}
	for _, c := range []struct {
		name    string
		columns []string
		most    int // blocks
		id      func(rng *rand.Rand, m, j int) int
	}{
		{"appended", nil, 60, func(_ *rand.Rand, m, j int) int { return m*100 + j }},
		{"appended, deduplicated", []string{"k"}, 60, func(_ *rand.Rand, m, j int) int { return m*100 + j }},
		{"staggered, deduplicated", []string{"k"}, 70, func(rng *rand.Rand, m, _ int) int { return m*100 + rng.IntN(300) }},
		{"late ones", nil, 80, func(rng *rand.Rand, m, j int) int {
			if rng.IntN(20) == 0 {
				return rng.IntN(m*100 + 1)
			}
			return m*100 + rng.IntN(150)
		}},
		{"three places, deduplicated", []string{"k"}, 120, func(_ *rand.Rand, m, j int) int { return j%3*1_000_000 + m*100 + j }},
		{"in no order", nil, 90, func(rng *rand.Rand, _, _ int) int { return rng.IntN(100_000) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(11, 4))
			s := mem.New()
			cfg := config(t, newClock())
			cfg.BlockRows, cfg.Memory = 400, 16<<20
			e := engine(t, s, cfg)
			putRun(t, s, theBatch, "aaaaaa", c.columns, catalog.RunOpen)
			var state []modelRow
			most, files, joined := 0, 0, 0
			for m := range merges {
				key := theBatch.ChunkKey("aaaaaa", m)
				var news []modelRow
				var lines []string
				for j := range 1 + rng.IntN(6) {
					r := modelRow{id: fmt.Sprintf("%08d", c.id(rng, m, j)), key: fmt.Sprint(rng.IntN(20 * merges)), created: 1 + rng.IntN(6), chunk: key, line: j + 1}
					r.raw = row(r.id, r.key, r.created)
					news = append(news, r)
					lines = append(lines, r.raw)
				}
				putChunk(t, s, theBatch, "aaaaaa", m, lines...)
				before := record(t, s, theBatch)
				merge(t, e, theBatch)
				state = model(state, news, c.columns != nil)
				r := record(t, s, theBatch)
				if len(r.Blocks) < len(before.Blocks)-3 {
					joined++
				}
				most, files = max(most, len(r.Blocks)), max(files, len(r.Digests))
				if m%50 == 49 || m == merges-1 {
					if diff := cmp.Diff(byID(state), merged(t, s, theBatch)); diff != "" {
						t.Fatalf("merge %d (rule first):\n%s", m, diff)
					}
					healthy(t, s, theBatch)
				}
			}
			if most > c.most || files > 40 || joined == 0 && c.name == "appended" {
				t.Errorf("at most %d blocks and %d digest files, %d joins", most, files, joined)
			}
			t.Logf("at most %d blocks and %d digest files, %d joins", most, files, joined)
		})
	}
}
