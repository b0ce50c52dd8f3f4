package block

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// arena holds records in memory within a budget that counts every byte it has
// taken, used or not.
type arena struct {
	budget   int64
	slabSize int
	slabs    [][]byte
	slab     int // the one being filled
	used     int // of it
	entries  []entry
	taken    int64 // bytes of slabs
}

// entry is where a record lies. The first bytes of the key are in it, since
// most comparisons need no more.
type entry struct {
	prefix            uint64
	slab, at          uint32
	keyLen, payLength uint32
}

const entryBytes = 24

func newArena(budget int64) *arena {
	return &arena{budget: budget, slabSize: int(min(max(budget/64, 1<<10), 1<<20))}
}

// add copies a record, or reports that there is no room for it.
func (a *arena) add(key, payload []byte) bool {
	n := max(len(key)+len(payload), 1) // a place of its own, which tells the order of Add
	if !a.growEntries() {
		return false
	}
	if a.slab == len(a.slabs) || a.used+n > len(a.slabs[a.slab]) {
		// A record larger than a slab gets one of its own.
		if !a.nextSlab(max(n, a.slabSize)) {
			return false
		}
	}
	a.entries = append(a.entries, entry{
		prefix: prefixOf(key), slab: uint32(a.slab), at: uint32(a.used),
		keyLen: uint32(len(key)), payLength: uint32(len(payload)),
	})
	slab := a.slabs[a.slab][a.used:]
	copy(slab[copy(slab, key):], payload)
	a.used += n
	return true
}

// nextSlab moves on to a slab of at least size bytes, taking one if it must.
func (a *arena) nextSlab(size int) bool {
	next := a.slab
	if next < len(a.slabs) && a.used > 0 {
		next++
	}
	if next == len(a.slabs) || len(a.slabs[next]) < size {
		// Slabs kept from an earlier filling may be in the way.
		for last := len(a.slabs) - 1; last >= next && a.full(size); last-- {
			a.taken -= int64(len(a.slabs[last]))
			a.slabs[last] = nil
			a.slabs = a.slabs[:last]
		}
		if a.full(size) {
			return false
		}
		a.slabs = slices.Insert(a.slabs, next, make([]byte, size))
		a.taken += int64(size)
	}
	a.slab, a.used = next, 0
	return true
}

func (a *arena) full(more int) bool {
	return a.taken+int64(more)+int64(cap(a.entries))*entryBytes > a.budget
}

// growEntries makes room for one more entry. While it grows, both copies count.
func (a *arena) growEntries() bool {
	have := cap(a.entries)
	if len(a.entries) < have {
		return true
	}
	more := max(have/2, 16)
	if a.taken+int64(2*have+more)*entryBytes > a.budget {
		return false
	}
	a.entries = append(make([]entry, 0, have+more), a.entries...)
	return true
}

// reset empties the arena and keeps the slabs of the usual size.
func (a *arena) reset() {
	a.slabs = slices.DeleteFunc(a.slabs, func(s []byte) bool { return len(s) != a.slabSize })
	a.taken = int64(len(a.slabs)) * int64(a.slabSize)
	a.entries = a.entries[:0]
	a.slab, a.used = 0, 0
}

// sort puts the entries in order. What all keys begin with tells nothing, and
// ids that are times begin with a lot of it: prefixes start behind that.
func (a *arena) sort() {
	common := a.common()
	if common > 0 {
		for i, e := range a.entries {
			a.entries[i].prefix = prefixOf(a.key(e)[common:])
		}
	}
	slices.SortFunc(a.entries, func(x, y entry) int {
		if x.prefix != y.prefix {
			if x.prefix < y.prefix {
				return -1
			}
			return 1
		}
		if c := bytes.Compare(a.key(x)[common:], a.key(y)[common:]); c != 0 {
			return c
		}
		if c := cmp.Compare(x.slab, y.slab); c != 0 {
			return c
		}
		return cmp.Compare(x.at, y.at)
	})
}

// common is the length of what all keys begin with.
func (a *arena) common() int {
	if len(a.entries) < 2 {
		return 0
	}
	first := a.key(a.entries[0])
	n := len(first)
	for _, e := range a.entries[1:] {
		k := a.key(e)
		n = min(n, len(k))
		for i := 0; i < n; i++ {
			if k[i] != first[i] {
				n = i
			}
		}
	}
	return n
}

func (a *arena) key(e entry) []byte {
	return a.slabs[e.slab][e.at : e.at+e.keyLen : e.at+e.keyLen]
}

func (a *arena) record(e entry) Record {
	at := e.at + e.keyLen
	return Record{Key: a.key(e), Payload: a.slabs[e.slab][at : at+e.payLength : at+e.payLength]}
}

func prefixOf(key []byte) uint64 {
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}
