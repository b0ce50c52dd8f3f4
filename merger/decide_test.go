package merger_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/merger"
)

// The external decision against the rule in ten lines, over every way that few
// ids, digests and times can meet.
func TestTheExternalDecisionIsTheRuleForAnyInput(t *testing.T) {
	dir := t.TempDir()
	for seed := range uint64(6000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var rows []merger.Candidate
		var news []modelRow
		for i := range rng.IntN(14) {
			c := merger.Candidate{
				ID: string(rune('a' + rng.IntN(1+rng.IntN(8)))), Digest: byte(rng.IntN(1 + rng.IntN(8))),
				Source: uint32(i % 3), Line: uint64(i),
			}
			created := rng.IntN(4)
			if created > 0 {
				c.Created = time.Unix(int64(created)-2, 0) // before 1970 too
			}
			rows = append(rows, c)
			news = append(news, modelRow{id: c.ID, key: fmt.Sprint(c.Digest), created: created, chunk: fmt.Sprint(c.Source), line: i})
		}
		var old []modelRow
		var ids []string
		var digests []byte
		for i := range rng.IntN(4) {
			ids = append(ids, string(rune('a'+2*i)))
			digests = append(digests, byte(3*i))
			old = append(old, modelRow{id: ids[i], key: fmt.Sprint(digests[i])})
		}
		rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		budget := int64(1 << 20)
		if seed%100 == 0 {
			budget = 1 // everything is spilled
		}
		got, kept, err := merger.Decide(dir, budget, rows, ids, digests)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		want := map[[2]uint64]bool{}
		var wantDigests []byte
		for _, r := range model(old, news, true)[len(old):] {
			want[[2]uint64{uint64(r.line % 3), uint64(r.line)}] = true
			wantDigests = append(wantDigests, byte(r.key[0]-'0'))
		}
		slices.Sort(wantDigests)
		for at, fate := range got {
			if (fate == "stays") != want[at] {
				t.Fatalf("seed %d: row %v: %s, the rule says %t\n%+v\ntaken %q %v", seed, at, fate, want[at], rows, ids, digests)
			}
		}
		if diff := cmp.Diff(wantDigests, kept); diff != "" {
			t.Fatalf("seed %d: digests:\n%s", seed, diff)
		}
	}
}
