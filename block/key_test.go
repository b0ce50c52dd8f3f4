package block_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone/block"
)

func TestKeysOrderAsTheirIDsWhateverFollows(t *testing.T) {
	ids := []string{"", "\x00", "\x00\x00", "\x00\x01", "\x00\xff", "\x01", "a", "a\x00", "a\x00b", "a\x01", "aa", "b", "é", "日本", "\xff", strings.Repeat("x", 256)}
	slices.Sort(ids)
	tails := []string{"", "\x00", "\xff", "\x00\x01", "zzz"}
	for i, a := range ids {
		for _, b := range ids[i+1:] {
			for _, ta := range tails {
				for _, tb := range tails {
					ka := append(block.AppendID([]byte("p"), a), ta...)
					kb := append(block.AppendID([]byte("p"), b), tb...)
					if bytes.Compare(ka, kb) >= 0 {
						t.Fatalf("%q with %q is not before %q with %q", a, ta, b, tb)
					}
				}
			}
		}
		for _, tail := range tails {
			id, rest, err := block.CutID(append(block.AppendID(nil, a), tail...))
			if id != a || string(rest) != tail || err != nil {
				t.Errorf("%q with %q reads back as %q, %q, %v", a, tail, id, rest, err)
			}
		}
	}
}

func TestAKeyWithoutAnIDIsRefused(t *testing.T) {
	for _, key := range []string{"", "a", "a\x00", "\x00\x02", "a\x00\xff", "a\x00\x00\x01"} {
		if id, _, err := block.CutID([]byte(key)); !errors.Is(err, block.ErrKey) {
			t.Errorf("%q has the id %q, %v", key, id, err)
		}
	}
}
