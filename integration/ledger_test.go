package integration_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query"
)

// ledger knows every row that the writers of a simulation may write, and which
// of them were acknowledged.
type ledger struct {
	lists   [][]string // what each writer deduplicates on
	columns [][]string // every list that can come to be in force
	rows    []simRow

	mu   sync.Mutex
	acks map[string]bool // by id
}

// simRow is a row to be written.
type simRow struct {
	ID   string
	line string
}

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
	l := &ledger{lists: all[rnd.IntN(len(all))], acks: map[string]bool{}}
	for subset := 1; subset < 1<<len(l.lists); subset++ {
		if in := l.intersection(subset); len(in) > 0 {
			l.columns = append(l.columns, in)
		}
	}
	return l
}

// intersection is the list in force where just the writers of subset are known.
func (l *ledger) intersection(subset int) []string {
	var in []string
	for i, list := range l.lists {
		switch {
		case subset&(1<<i) == 0 || list == nil:
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
		id := fmt.Sprintf("id%02d", rnd.IntN(12))
		if slices.ContainsFunc(rows, func(r simRow) bool { return r.ID == id }) {
			continue // a writer gives an id once
		}
		// The content follows from the id: an acknowledgement names no more.
		k := rnd.IntN(4)
		r := simRow{id, fmt.Sprintf(`{"id":%q,"k":%d,"m":%d,"v":1.0}`, id, k, k%2)}
		for _, other := range l.rows {
			if other.ID == id && rnd.IntN(2) == 0 {
				r = other // the same row from two writers, rather than a conflict
			}
		}
		rows = append(rows, r)
		l.rows = append(l.rows, r)
	}
	return rows
}

func (l *ledger) acknowledge(ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.acks[id] = true
	}
}

func (l *ledger) acknowledged(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acks[id]
}

// stored gives the ids that are acknowledged by now.
func (l *ledger) stored() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for id := range l.acks {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// check compares a read with the ids that were acknowledged before it began.
func (l *ledger) check(due []string, seen []query.Row) error {
	visible := map[string]bool{}
	last := ""
	for _, r := range seen {
		if r.ID <= last {
			return fmt.Errorf("%s comes after %s", r.ID, last)
		}
		last = r.ID
		visible[r.ID] = true
		if !slices.ContainsFunc(l.rows, func(w simRow) bool { return w.ID == r.ID && sameValues(w.line, string(r.Raw)) }) {
			return fmt.Errorf("nobody wrote %s", r.Raw)
		}
	}
	reached := l.reach(visible)
	for _, id := range due {
		if !reached[id] {
			return fmt.Errorf("%s was acknowledged, is not there, and no rule dropped it; there are %v", id, slices.Sorted(maps.Keys(visible)))
		}
	}
	return nil
}

// reach gives the ids that are visible or may have been dropped for a visible
// row's sake. A row is dropped for one with its id or its values in the list in
// force, which may itself be dropped later, when the list changes.
func (l *ledger) reach(visible map[string]bool) map[string]bool {
	reached := map[string]bool{}
	for id := range visible {
		reached[id] = true
	}
	for grown := true; grown; {
		grown = false
		for _, a := range l.rows {
			for _, b := range l.rows {
				if reached[a.ID] && !reached[b.ID] && l.agree(a, b) {
					reached[b.ID], grown = true, true
				}
			}
		}
	}
	return reached
}

// agree reports whether two rows may be duplicates at some time.
func (l *ledger) agree(a, b simRow) bool {
	return slices.ContainsFunc(l.columns, func(cols []string) bool { return digestOf(a.line, cols) == digestOf(b.line, cols) })
}

func digestOf(line string, columns []string) dataset.Digest {
	r, err := dataset.ParseRow([]byte(line))
	if err != nil {
		panic(err)
	}
	d, err := dataset.DigestOf(r, columns)
	if err != nil {
		panic(err)
	}
	return d
}

// checkNoDuplicates looks for rows that the list in force makes duplicates.
func (l *ledger) checkNoDuplicates(inForce []string, seen []query.Row) error {
	if len(inForce) == 0 {
		return nil
	}
	by := map[dataset.Digest]string{}
	for _, r := range seen {
		d := digestOf(string(r.Raw), inForce)
		if other, ok := by[d]; ok {
			return fmt.Errorf("%s and %s agree on %v", other, r.ID, inForce)
		}
		by[d] = r.ID
	}
	return nil
}

// sameValues reports whether a stored line is the written one with _created_at.
func sameValues(written, stored string) bool {
	head, rest, ok := strings.Cut(stored, `,"_created_at":"`)
	_, tail, ok2 := strings.Cut(rest, `",`)
	return ok && ok2 && head+","+tail == written
}
