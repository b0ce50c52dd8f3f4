package main

import (
	"fmt"
	"slices"

	"github.com/siltstone-data/siltstone/query"
)

// exportResult is what export says of itself with --json: on stdout when the
// rows go to a file, otherwise on stderr.
type exportResult struct {
	Dataset string `json:"dataset"`
	Rows    int64  `json:"rows"`
	Live    bool   `json:"live"`
	LeftOut
	Rejected int64 `json:"rejected"` // lines of live chunks that are no rows
	// UnknownColumns are columns of the filter that no row has: it cannot be true
	// for their sake. MissingColumns were asked for, and no exported row has them.
	UnknownColumns []string `json:"unknown_columns,omitempty"`
	MissingColumns []string `json:"missing_columns,omitempty"`
	// At is the moment that was read; AbsentBatches had no record then.
	At            string   `json:"at,omitempty"`
	AbsentBatches []string `json:"absent_batches,omitempty"`
	Format        string   `json:"format"`
	File          string   `json:"file,omitempty"`
	Bytes         int64    `json:"bytes"` // written, before compression
	FileBytes     int64    `json:"file_bytes,omitempty"`
	SHA256        string   `json:"sha256,omitempty"` // of the file
	Manifest      string   `json:"manifest,omitempty"`
}

// LeftOut is what is not merged yet.
type LeftOut struct {
	// LiveRows are the rows that are not merged yet: those among Rows with
	// --live, those left out otherwise.
	LiveRows      int64 `json:"live_rows"`
	LiveRowsExact bool  `json:"live_rows_exact"` // false: at least so many
	// LiveAnnotations are the annotations that are not merged yet and left out,
	// by annotator; LiveAnnotationsExact is false where there are at least so many.
	LiveAnnotations      map[string]int64 `json:"live_annotations,omitempty"`
	LiveAnnotationsExact bool             `json:"live_annotations_exact"`
	// ForeignBatches are left out until a merge adopts the files that another
	// tool has written there.
	ForeignBatches int64 `json:"foreign_batches"`
}

func leftOutOf(rows query.LeftOut, layers map[string]query.LeftOut) LeftOut {
	l := LeftOut{LiveRows: rows.Rows, LiveRowsExact: rows.Exact, LiveAnnotationsExact: true, ForeignBatches: rows.Foreign}
	for name, out := range layers {
		if l.LiveAnnotations == nil {
			l.LiveAnnotations = map[string]int64{}
		}
		l.LiveAnnotations[name] = out.Rows
		l.LiveAnnotationsExact = l.LiveAnnotationsExact && out.Exact
	}
	return l
}

// rows counts live rows for people.
func (l LeftOut) rows() string { return atLeast(l.LiveRows, l.LiveRowsExact, "row") }

func atLeast(n int64, exact bool, noun string) string {
	if exact {
		return count(n, noun)
	}
	return "at least " + count(n, noun)
}

// tell says what was written and what was not.
func (r exportResult) tell(a *app) error {
	if a.json {
		w := *a
		if r.File == "" {
			w.stdout = a.stderr // stdout is the data's
		}
		return w.printJSON(r)
	}
	say := func(format string, args ...any) { fmt.Fprintf(a.stderr, "siltstone: "+format+"\n", args...) }
	for _, name := range r.UnknownColumns {
		say("no row has a column %q, which --where asks for", name)
	}
	for _, name := range r.MissingColumns {
		say("no exported row has a column %q", name)
	}
	if r.Rejected > 0 {
		say("left out %s of live chunks that could not be read as rows", count(r.Rejected, "line"))
	}
	if n := len(r.AbsentBatches); n > 0 {
		say("%s had no rows merged at %s: %s", count(n, "batch"), r.At, few(r.AbsentBatches))
	}
	if !r.Live {
		r.tellLeftOut(say)
	}
	if r.ForeignBatches > 0 {
		say("%s of another tool not adopted yet and left out; `siltstone merge %s` does it", count(r.ForeignBatches, "batch"), r.Dataset)
	}
	if r.File != "" {
		fmt.Fprintf(a.stderr, "%s in %s\n", count(r.Rows, "row"), r.File)
	}
	return nil
}

func (r exportResult) tellLeftOut(say func(string, ...any)) {
	if r.LiveRows > 0 || !r.LiveRowsExact {
		say("%s not merged yet and left out; --live adds them", r.rows())
	}
	var names []string
	for name := range r.LiveAnnotations {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		say("%s of %s not merged yet and left out; --live adds them", atLeast(r.LiveAnnotations[name], r.LiveAnnotationsExact, "annotation"), name)
	}
}
