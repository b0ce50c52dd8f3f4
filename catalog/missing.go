package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
	return fmt.Sprintf("run %s has stored %d chunks, from number %d on, that are neither merged nor there", m.Run, m.Count, m.First)
}

// FindMissing compares what completed runs say of themselves with the chunks of
// a listing and with the record h, read after it. Where it finds something, a
// record read after the call tells chunks absorbed meanwhile from lost ones.
func FindMissing(ctx context.Context, s objstore.Store, b dataset.BatchID, h Head, l Listing) ([]Missing, error) {
	if h.Record.Deleted {
		return nil, nil
	}
	var runs []RunManifest
	for _, id := range l.Runs {
		m, err := ReadRun(ctx, s, b, id)
		if errors.Is(err, objstore.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if m.State == RunCompleted && m.Chunks > 0 {
			m.Run = id
			runs = append(runs, m)
		}
	}
	out := missing(b, h.Record, runs, l)
	if len(out) == 0 {
		return nil, nil
	}
	// Or they came after the listing.
	later, err := ListLive(ctx, s, b)
	if err != nil {
		return nil, err
	}
	return missing(b, h.Record, runs, l, later), nil
}

func missing(b dataset.BatchID, r Record, runs []RunManifest, listings ...Listing) []Missing {
	there := make(map[string]bool)
	for _, l := range listings {
		for _, c := range l.Chunks {
			there[c.Key()] = true
		}
	}
	var out []Missing
	for _, m := range runs {
		lost := Missing{Run: m.Run}
		for n := range m.Chunks {
			key := b.ChunkKey(m.Run, n)
			_, alone := r.Chunks[strings.TrimPrefix(key, b.LiveDir())]
			if alone || there[key] || r.Runs[m.Run].Absorbed.Has(n) {
				continue
			}
			if lost.Count == 0 {
				lost.First = n
			}
			lost.Count++
		}
		if lost.Count > 0 {
			out = append(out, lost)
		}
	}
	return out
}
