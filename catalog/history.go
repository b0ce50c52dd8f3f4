package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// ErrNotKept reports a generation that history does not have: it never was, was
// pruned, or its record is lost.
var ErrNotKept = errors.New("not in history")

// generations lists the numbers of a batch's earlier records, newest first.
// Number 0 is what another tool had left before the first one.
func generations(ctx context.Context, s objstore.Store, b dataset.BatchID) ([]int64, error) {
	var out []int64
	for info, err := range s.List(ctx, b.HistoryDir(), "") {
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", b.HistoryDir(), err)
		}
		if k := dataset.ParseKey(info.Key); k.Kind == dataset.KindHistory && k.Batch == b {
			out = append(out, int64(k.Number))
		}
	}
	slices.SortFunc(out, func(a, b int64) int { return int(b - a) })
	return out, nil
}

// readPast reads the record of an earlier generation. objstore.ErrNotFound means
// that it is not there, or not there any more.
func readPast(ctx context.Context, s objstore.Store, b dataset.BatchID, generation int64) (Head, error) {
	key := b.HistoryKey(generation)
	raw, info, err := objstore.ReadAll(ctx, s, key)
	if err != nil {
		return Head{}, fmt.Errorf("read %s: %w", key, err)
	}
	r, foreign, err := parseRecord(raw)
	switch {
	case err != nil:
		return Head{}, fmt.Errorf("%s: %w", key, err)
	case foreign:
		return Head{}, fmt.Errorf("%s: %w: it is no commit record", key, ErrDamaged)
	case r.ID() != b || r.Generation != generation:
		return Head{}, fmt.Errorf("%s: %w: it says that it is generation %d of %s", key, ErrDamaged, r.Generation, r.ID())
	}
	return Head{Record: r, etag: info.ETag, raw: raw}, nil
}

// HeadOf gives the record of a generation, which may be the current one:
// ErrNotKept where there is none. Nothing can be committed on an earlier one.
func HeadOf(ctx context.Context, s objstore.Store, b dataset.BatchID, generation int64) (Head, error) {
	now, err := FindRecord(ctx, s, b)
	if err != nil || now.Exists() && now.Record.Generation == generation {
		return now, err
	}
	if !now.Exists() {
		return Head{}, fmt.Errorf("generation %d of %s: %w: nothing of the batch is merged yet", generation, b, ErrNotKept)
	}
	var h Head
	if generation > 0 && generation < now.Record.Generation {
		if h, err = readPast(ctx, s, b, generation); !errors.Is(err, objstore.ErrNotFound) {
			return h, err
		}
	}
	return Head{}, fmt.Errorf("generation %d of %s: %w: the current one is %d, and the last %d before it are kept (siltstone describe %s --history lists them)",
		generation, b, ErrNotKept, now.Record.Generation, HistoryKeep, b)
}

// HeadAt gives the record that was current at a time: the latest one committed
// by then. Where nothing had been committed it is a head without a record.
// ErrNotKept says that history does not reach back so far, or has a gap there.
// existed tells whether the batch has a record now.
func HeadAt(ctx context.Context, s objstore.Store, b dataset.BatchID, t time.Time) (h Head, existed bool, err error) {
	now, err := FindRecord(ctx, s, b)
	if err != nil || !now.Exists() {
		return Head{Record: blank(b)}, false, err
	}
	if !now.Record.CommittedAt.After(t) {
		return now, true, nil
	}
	numbers, err := generations(ctx, s, b)
	if err != nil {
		return Head{}, true, err
	}
	next := now.Record // the record after the one that is looked at
	for _, n := range numbers {
		if n == 0 || n >= next.Generation {
			continue // another tool's text; or of commits made since
		}
		if n != next.Generation-1 {
			break
		}
		past, err := readPast(ctx, s, b, n)
		if errors.Is(err, objstore.ErrNotFound) {
			break // swept meanwhile, and so are all before it
		}
		if err != nil {
			return Head{}, true, err
		}
		if !past.Record.CommittedAt.After(t) {
			return past, true, nil
		}
		next = past.Record
	}
	if next.Generation > 1 {
		return Head{}, true, fmt.Errorf("%s at %s: %w: it reaches back to generation %d, committed at %s, and lacks the one before (siltstone describe %s --history lists them)",
			b, t.Format(time.RFC3339Nano), ErrNotKept, next.Generation, next.CommittedAt.Format(time.RFC3339Nano), b)
	}
	return Head{Record: blank(b)}, true, nil
}

// Past sums up a record of a batch, current or in history.
type Past struct {
	Generation  int64
	Current     bool
	CommittedAt time.Time
	CommittedBy string
	Rows, Bytes int64
	Deleted     bool
	Damaged     string // why it cannot be read; then nothing else is known
	Gone        int    // blocks that are not there any more
}

// Readable reports whether the batch can still be read as it was then.
func (p Past) Readable() bool { return p.Damaged == "" && p.Gone == 0 }

// History lists the records of a batch, the newest first.
func History(ctx context.Context, s objstore.Store, b dataset.BatchID) ([]Past, error) {
	now, err := FindRecord(ctx, s, b)
	if err != nil || !now.Exists() {
		return nil, err
	}
	numbers, err := generations(ctx, s, b)
	if err != nil {
		return nil, err
	}
	files, err := Files(ctx, s, b)
	if err != nil {
		return nil, err
	}
	sum := func(r Record) Past {
		return Past{Generation: r.Generation, CommittedAt: r.CommittedAt, CommittedBy: r.CommittedBy,
			Rows: r.Rows, Bytes: r.Bytes, Deleted: r.Deleted, Gone: len(files.Lacks(r))}
	}
	out := []Past{sum(now.Record)}
	out[0].Current, out[0].Gone = true, 0 // a merge may have replaced them since
	for _, n := range numbers {
		if n == 0 || n >= now.Record.Generation {
			continue
		}
		past, err := readPast(ctx, s, b, n)
		switch {
		case errors.Is(err, objstore.ErrNotFound):
			continue
		case errors.Is(err, ErrDamaged):
			out = append(out, Past{Generation: n, Damaged: err.Error()})
		case err != nil:
			return nil, err
		default:
			out = append(out, sum(past.Record))
		}
	}
	return out, nil
}

// FileSet are the merged files of a batch that lie in the store, as paths within
// the batch.
type FileSet map[string]bool

// Files lists the merged files of a batch.
func Files(ctx context.Context, s objstore.Store, b dataset.BatchID) (FileSet, error) {
	set := FileSet{}
	for info, err := range s.List(ctx, b.Dir()+"merged", "") {
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", b.Dir(), err)
		}
		set[info.Key[len(b.Dir()):]] = true
	}
	return set, nil
}

// Lacks gives the blocks of a record that are not in the set.
func (f FileSet) Lacks(r Record) []string {
	var out []string
	for _, b := range r.Blocks {
		if !r.Deleted && !f[b.File] {
			out = append(out, b.File)
		}
	}
	return out
}
