package merger_test

import (
	"testing"

	"github.com/siltstone-data/siltstone/objstore/mem"
)

// What the record says of it decides when the next merge is due.
func TestTheRecordSaysHowMuchWasWrittenAgainBecauseOfWhereIDsLie(t *testing.T) {
	s := mem.New()
	cfg := config(t, newClock())
	cfg.BlockRows = 1000
	e := engine(t, s, cfg)
	put := func(n int, ids ...string) int64 {
		var lines []string
		for _, id := range ids {
			lines = append(lines, row(id, "x", 1))
		}
		putChunk(t, s, theBatch, "aaaaaa", n, lines...)
		merge(t, e, theBatch)
		return record(t, s, theBatch).Spread
	}
	if got := put(0, "b", "d", "f"); got != 0 {
		t.Errorf("the first rows: %d", got)
	}
	all := record(t, s, theBatch).RawBytes
	if got := put(1, "g"); got != 0 {
		t.Errorf("rows past the last block: %d", got)
	}
	if got := put(2, "c"); got != all {
		t.Errorf("a row inside a block of %d bytes: %d", all, got)
	}
	for n, want := range []int64{all / 2, all / 4} {
		if got := put(3+n, "h"+string(rune('a'+n))); got != want {
			t.Errorf("%d merges past the last block: %d, want %d", n+1, got, want)
		}
	}
}
