package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// Missing are chunks that a completed run has stored, and that are neither
// there nor absorbed: their rows are lost, or the commit record is.
type Missing struct {
	Run   dataset.Run
	First int // number of the first one
	Count int
}

func (m Missing) String() string {
	if m.Count == 1 {
		return fmt.Sprintf("run %s has stored a chunk, number %d, that is neither merged nor there", m.Run, m.First)
	}
	return fmt.Sprintf("run %s has stored %d chunks, from number %d on, that are neither merged nor there", m.Run, m.Count, m.First)
}

// FindMissing compares what completed runs say of themselves with the chunks of
// a listing and with the record h, read after it. Where it finds something, a
// record read after the call tells chunks absorbed meanwhile from lost ones.
func FindMissing(ctx context.Context, s objstore.Store, b dataset.BatchID, h Head, l Listing) ([]Missing, error) {
	out, _, err := findMissing(ctx, s, b, h, l)
	return out, err
}

// AbsorbMissing notes in a record about to be committed, in place of one that is
// lost, the chunks of completed runs that are gone: only the lost record can have
// absorbed them. runs are those of the new record.
func AbsorbMissing(ctx context.Context, s objstore.Store, b dataset.BatchID, h Head, l Listing, runs map[dataset.Run]RunState) ([]Missing, error) {
	out, gone, err := findMissing(ctx, s, b, h, l)
	if err != nil {
		return nil, err
	}
	for _, m := range out {
		st := runs[m.Run]
		st.Absorbed = st.Absorbed.union(gone[m.Run])
		runs[m.Run] = st
	}
	return out, nil
}

// findMissing gives the chunks that are missing, and their numbers by run.
func findMissing(ctx context.Context, s objstore.Store, b dataset.BatchID, h Head, l Listing) ([]Missing, map[dataset.Run]Ranges, error) {
	if h.Record.Deleted {
		return nil, nil, nil
	}
	var runs []RunManifest
	for _, id := range l.Runs {
		m, err := ReadRun(ctx, s, b, id)
		if errors.Is(err, objstore.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if m.State == RunCompleted && m.Chunks > 0 {
			runs = append(runs, m)
		}
	}
	out, _ := missing(b, h.Record, runs, l)
	if len(out) == 0 {
		return nil, nil, nil
	}
	// Or they came after the listing.
	later, err := ListLive(ctx, s, b)
	if err != nil {
		return nil, nil, err
	}
	out, gone := missing(b, h.Record, runs, l, later)
	return out, gone, nil
}

func missing(b dataset.BatchID, r Record, runs []RunManifest, listings ...Listing) ([]Missing, map[dataset.Run]Ranges) {
	have := make(map[dataset.Run]Ranges)
	for _, m := range runs {
		have[m.Run] = r.Runs[m.Run].Absorbed
	}
	for _, l := range listings {
		for _, c := range l.Chunks {
			have[c.Run] = have[c.Run].Add(c.Number)
		}
	}
	for name := range r.Chunks {
		if k := dataset.ParseKey(b.LiveDir() + name); k.Kind == dataset.KindChunk {
			have[k.Run] = have[k.Run].Add(k.Number)
		}
	}
	var out []Missing
	gone := make(map[dataset.Run]Ranges)
	for _, m := range runs {
		lost := Missing{Run: m.Run, Count: m.Chunks}
		for _, s := range have[m.Run].spans { // not number by number: a manifest may claim any count
			if s.lo <= lost.First {
				lost.First = s.hi + 1
			}
			lost.Count -= max(0, min(s.hi, m.Chunks-1)-s.lo+1)
		}
		if lost.Count > 0 {
			out = append(out, lost)
			gone[m.Run] = have[m.Run].holes(m.Chunks)
		}
	}
	return out, gone
}
