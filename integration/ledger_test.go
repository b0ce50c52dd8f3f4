package integration_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/siltstone-data/siltstone/dataset"
)

// ledger knows every row that the writers of a simulation may write, and which
// of them were acknowledged.
type ledger struct {
	ids, keys int        // how many there are to draw from
	lists     [][]string // what each writer deduplicates on
	opinions  [][]string // those and the stranger's
	rows      []simRow
	inherited []simRow // of another tool's merged file

	mu      sync.Mutex
	acks    map[simRow]bool
	merged  map[string]string // rows that a read found merged, by id
	digests map[string]dataset.Digest
}

// simRow is a row to be written. Its line has its id, but no _created_at; a
// line that is no row has no id here.
type simRow struct{ ID, line string }

// newLedger draws what the writers of a schedule say about duplicates.
func newLedger(rnd *rand.Rand) *ledger {
	all := [][][]string{
		{nil, nil},
		{nil, nil, nil},
		{{"k"}, {"k"}},
		{{"k", "m"}, {"k"}},
		{nil, {"k"}},
		{{"k"}, {}},
		{{"k", "m"}, {"m", "k"}, nil},
		{{"k"}, {"m"}},
	}
	lists := all[rnd.IntN(len(all))]
	return &ledger{
		ids: 12, keys: 4, lists: lists, opinions: slices.Clone(lists),
		acks: map[simRow]bool{}, merged: map[string]string{}, digests: map[string]dataset.Digest{},
	}
}

// opinion adds the list of somebody who is no writer.
func (l *ledger) opinion(list []string) { l.opinions = append(l.opinions, list) }

// columns gives every list that can come to be in force.
func (l *ledger) columns() (lists [][]string) {
	for subset := 1; subset < 1<<len(l.opinions); subset++ {
		var of [][]string
		for i, list := range l.opinions {
			if subset&(1<<i) != 0 {
				of = append(of, list)
			}
		}
		if in := intersection(of); len(in) > 0 {
			lists = append(lists, in)
		}
	}
	return lists
}

// intersection is the list in force where these are known.
func intersection(lists [][]string) []string {
	var in []string
	for _, list := range lists {
		switch {
		case list == nil:
		case in == nil:
			in = append([]string{}, list...)
		default:
			in = slices.DeleteFunc(in, func(c string) bool { return !slices.Contains(list, c) })
		}
	}
	return in
}

// draw makes rows with few ids and fewer keys, so that they meet.
func (l *ledger) draw(rnd *rand.Rand, n int) []simRow {
	var rows []simRow
	for range n {
		id := fmt.Sprintf("id%02d", rnd.IntN(l.ids))
		if slices.ContainsFunc(rows, func(r simRow) bool { return r.ID == id }) {
			continue // a writer gives an id once
		}
		k := rnd.IntN(l.keys)
		r := simRow{id, fmt.Sprintf(`{"id":%q,"k":%d,"m":%d,"v":1.0}`, id, k, k%2)}
		for _, other := range l.rows {
			if other.ID == id && rnd.IntN(2) == 0 {
				r = other // the same row from two writers, rather than a conflict
			}
		}
		rows = append(rows, l.add(r))
	}
	return rows
}

func (l *ledger) add(r simRow) simRow {
	l.rows = append(l.rows, r)
	return r
}

func (l *ledger) acknowledge(rows ...simRow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range rows {
		l.acks[r] = true
	}
}

func (l *ledger) acknowledged(r simRow) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acks[r]
}

// constant tells whether one list is in force from the first chunk on.
func (l *ledger) constant() bool {
	return !slices.ContainsFunc(l.opinions, func(list []string) bool {
		return (list == nil) != (l.opinions[0] == nil) || !slices.Equal(list, l.opinions[0])
	})
}

// due is what a read must show: what is acknowledged when it begins, and what
// an earlier read found merged; and what it must not, as live rows.
type due struct {
	rows     []simRow
	merged   map[string]string
	absorbed map[string]int // by line, the chunks that had it
	loose    bool           // a record was lost: which row of an id stays may be decided again
}

func (l *ledger) due() due {
	l.mu.Lock()
	defer l.mu.Unlock()
	rows := slices.SortedFunc(maps.Keys(l.acks), func(a, b simRow) int { return strings.Compare(a.line, b.line) })
	return due{rows: rows, merged: maps.Clone(l.merged)}
}
