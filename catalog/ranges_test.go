package catalog_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/siltstone-data/siltstone/catalog"
)

func TestRangesHoldWhatWasAddedInAnyOrder(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		want := map[int]bool{}
		var r catalog.Ranges
		for range rnd.IntN(60) {
			n := rnd.IntN(40)
			want[n] = true
			r = r.Add(n)
		}
		for n := range 42 {
			if r.Has(n) != want[n] {
				t.Fatalf("seed %d: Has(%d) = %v in %s", seed, n, r.Has(n), r)
			}
		}
		again, err := catalog.ParseRanges(r.String())
		if err != nil || again.String() != r.String() {
			t.Fatalf("seed %d: %q parses to %q, %v", seed, r, again, err)
		}
	}
}

func TestRangesJoinNeighbours(t *testing.T) {
	var r catalog.Ranges
	for _, n := range []int{3, 1, 14, 0, 2} {
		r = r.Add(n)
	}
	b, err := json.Marshal(r)
	if err != nil || string(b) != `"0-3,14"` {
		t.Fatalf("got %s, %v", b, err)
	}
}

func TestAddLeavesTheReceiverAlone(t *testing.T) {
	var r catalog.Ranges
	r = r.Add(1).Add(5)
	_ = r.Add(2)
	_ = r.Add(4)
	if r.String() != "1,5" {
		t.Fatalf("receiver became %s", r)
	}
}

func FuzzParseRanges(f *testing.F) {
	for _, s := range []string{"", "0", "0-11,14", "1-0", "5,4", "1,2", "-1", "0-99999999999999", "a", ","} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := catalog.ParseRanges(s)
		if err != nil {
			return
		}
		again, err := catalog.ParseRanges(r.String())
		if err != nil || again.String() != r.String() {
			t.Fatalf("%q gives %q, which gives %q, %v", s, r, again, err)
		}
	})
}
