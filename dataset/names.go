package dataset

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"slices"
)

// name is a member's name in an object that is being passed. It has no pointer:
// a line may have millions of them.
type name struct {
	hash     uint64 // of the name without escapes
	from, to uint32 // where it stands in the line, with its quotes
}

// names are those of all objects that are open, the outer ones first.
type names []name

var nameSeed = maphash.MakeSeed()

// fewNames is how many are compared each with each, which is faster than to
// bring them into order.
const fewNames = 16

// distinct reports whether the names from first on differ from each other. It
// changes their order. The cost grows with n log n, whatever the names are.
func (all names) distinct(line []byte, first int) bool {
	of := all[first:]
	if len(of) <= fewNames {
		for i := 1; i < len(of); i++ {
			for j := range i {
				if of[i].hash == of[j].hash && of[i].equal(of[j], line) {
					return false
				}
			}
		}
		return true
	}
	slices.SortFunc(of, func(a, b name) int { return cmp.Compare(a.hash, b.hash) })
	for i := 1; i < len(of); i++ {
		// The hash has a seed of its own in every process: two names that
		// share one are equal, or as good as never there.
		for j := i - 1; j >= 0 && of[j].hash == of[i].hash; j-- {
			if of[i].equal(of[j], line) {
				return false
			}
		}
	}
	return true
}

func (n name) equal(m name, line []byte) bool {
	return bytes.Equal(unescape(line[n.from:n.to]), unescape(line[m.from:m.to]))
}
