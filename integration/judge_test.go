package integration_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query"
)

// check compares what a read gave with what was due when it began. now reads
// the batch as it is after that: a row may have been dropped, while the read
// went on, for one that came when the read was past its place.
func (l *ledger) check(d due, seen []query.Row, now func() ([]query.Row, error)) error {
	last := ""
	for _, r := range seen {
		if r.ID <= last {
			return fmt.Errorf("%w: %s comes after %s", errBroken, r.ID, last)
		}
		last = r.ID
		if l.written(r) < 0 {
			return fmt.Errorf("%w: nobody wrote %s", errBroken, r.Raw)
		}
		if r.Live && d.absorbed[string(r.Raw)] > 0 {
			return fmt.Errorf("%w: the chunk of %s was absorbed, and it is live", errBroken, r.Raw)
		}
	}
	lost := l.missing(d, seen)
	if len(lost) > 0 && now != nil && len(l.columns()) > 0 {
		later, err := now()
		if err != nil {
			return err
		}
		gone := l.missing(d, later)
		lost = slices.DeleteFunc(lost, func(r simRow) bool {
			visible := slices.ContainsFunc(later, func(v query.Row) bool { return v.ID == r.ID })
			return !visible && !slices.Contains(gone, r)
		})
	}
	if len(lost) > 0 {
		return fmt.Errorf("%w: %v was acknowledged, is not there, and no rule dropped it; there are %s", errBroken, lost, listOf(seen))
	}
	if l.constant() && !d.loose {
		return l.steady(d, seen)
	}
	return nil
}

// steady checks, where the list in force never changes, that what was merged
// stays as it is.
func (l *ledger) steady(d due, seen []query.Row) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range seen {
		if was, ok := d.merged[r.ID]; ok && was != string(r.Raw) {
			return fmt.Errorf("%w: %s was merged and is %s now", errBroken, was, r.Raw)
		}
		if !r.Live {
			l.merged[r.ID] = string(r.Raw)
		}
	}
	return nil
}

// missing gives the rows that are due, not there, and not dropped by a rule for
// one that is.
func (l *ledger) missing(d due, seen []query.Row) []simRow {
	kept := l.kept(seen)
	return slices.DeleteFunc(slices.Clone(d.rows), func(r simRow) bool {
		return r.ID == "" || slices.ContainsFunc(l.rows, func(w simRow) bool { return w.ID == r.ID && kept[w] })
	})
}

// kept gives the rows that are visible, or that may have been kept once and
// then dropped for a visible one with the same values, when the list in force
// changed. A row that was never kept has the id of one that was.
func (l *ledger) kept(seen []query.Row) map[simRow]bool {
	kept := map[simRow]bool{}
	for _, r := range seen {
		if i := l.written(r); i >= 0 {
			kept[l.rows[i]] = true
		}
	}
	lists := l.columns()
	if len(lists) == 0 {
		return kept
	}
	type class struct {
		list int
		of   dataset.Digest
	}
	classes := func(r simRow) (out []class) {
		for i, cols := range lists {
			out = append(out, class{i, l.digest(r.line, cols)})
		}
		return out
	}
	reached := map[class]bool{}
	for r := range kept {
		for _, c := range classes(r) {
			reached[c] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, r := range l.rows {
			if kept[r] {
				continue
			}
			if of := classes(r); slices.ContainsFunc(of, func(c class) bool { return reached[c] }) {
				kept[r], grown = true, true
				for _, c := range of {
					reached[c] = true
				}
			}
		}
	}
	return kept
}

// written gives the index of the row that was written so, or -1.
func (l *ledger) written(r query.Row) int {
	return slices.IndexFunc(l.rows, func(w simRow) bool { return w.ID == r.ID && sameValues(w.line, string(r.Raw)) })
}

// untold gives the rows that are due, neither there nor dropped for the sake of
// their values, and not among the rejected lines.
func (l *ledger) untold(d due, seen []query.Row, rejected []string) []simRow {
	kept := l.kept(seen)
	return slices.DeleteFunc(slices.Clone(d.rows), func(r simRow) bool {
		return kept[r] || slices.ContainsFunc(rejected, func(raw string) bool { return sameValues(r.line, raw) })
	})
}

// twins looks for rows that the list in force makes duplicates.
func (l *ledger) twins(inForce []string, seen []query.Row) error {
	by := map[dataset.Digest]string{}
	for _, r := range seen {
		if len(inForce) == 0 {
			return nil
		}
		d := l.digest(string(r.Raw), inForce)
		if other, ok := by[d]; ok {
			return fmt.Errorf("%s and %s agree on %v", other, r.ID, inForce)
		}
		by[d] = r.ID
	}
	return nil
}

func (l *ledger) digest(line string, columns []string) dataset.Digest {
	key := line + strings.Join(columns, ",")
	l.mu.Lock()
	defer l.mu.Unlock()
	d, ok := l.digests[key]
	if !ok {
		r, err := dataset.ParseRow([]byte(line))
		if err == nil {
			d, err = dataset.DigestOf(r, columns)
		}
		if err != nil {
			panic(err)
		}
		l.digests[key] = d
	}
	return d
}

// sameValues reports whether a stored line is the written one, with or without
// a _created_at.
func sameValues(written, stored string) bool {
	head, rest, ok := strings.Cut(stored, `,"_created_at":"`)
	if !ok {
		return written == stored
	}
	_, tail, ok := strings.Cut(rest, `",`)
	return ok && head+","+tail == written
}

func listOf(rows []query.Row) string {
	var raw []json.RawMessage
	for _, r := range rows {
		raw = append(raw, r.Raw)
	}
	out, _ := json.Marshal(raw)
	return string(out)
}
