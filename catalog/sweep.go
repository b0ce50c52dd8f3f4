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

// HistoryKeep is how many earlier commit records are kept.
const HistoryKeep = 100

// SweepPolicy says what is old enough to go.
type SweepPolicy struct {
	// Grace spares readers a 404; it carries no safety.
	Grace time.Duration
	// HistoryMaxAge keeps the blocks of every record that was current within
	// that time. 0 keeps none.
	HistoryMaxAge time.Duration
}

// Swept counts what a sweep did.
type Swept struct {
	Garbage, Orphans, History int
	Raised                    bool // next_file was raised over stray files
}

// Committer names and times the commits of whoever sweeps or merges.
type Committer struct {
	By     string
	Now    func() time.Time
	Commit func() string // a fresh commit id
}

// Doomed is an object that a sweep deletes.
type Doomed struct {
	Key  string
	Size int64 // bytes; 0 where nobody has asked
}

// SweepPlan says what a sweep would do with a batch.
type SweepPlan struct {
	Garbage []Doomed // replaced files that no reader needs any more
	Orphans []Doomed // files that no record can ever name again
	History []Doomed // records past the last HistoryKeep
	// RaiseTo is what next_file must rise to before the stray files at or above
	// it can go; 0 where there are none.
	RaiseTo int

	head Head
}

// Head is the record that the plan was made for.
func (p SweepPlan) Head() Head { return p.head }

// PlanSweep finds what of a batch can go at a time. The number rule is its only
// judge: a file below next_file that the record names nowhere can never be
// named, because every later record names files of this one or files numbered
// from its next_file on. Nothing goes before a record exists.
func PlanSweep(ctx context.Context, s objstore.Store, b dataset.BatchID, p SweepPolicy, now time.Time) (SweepPlan, error) {
	h, err := ReadHead(ctx, s, b)
	plan := SweepPlan{head: h}
	if err != nil || !h.Exists() {
		return plan, err
	}
	kept, stale, err := readHistory(ctx, s, h, p, now)
	if err != nil {
		return plan, err
	}
	plan.History = stale
	files, err := numbered(ctx, s, b)
	if err != nil {
		return plan, err
	}
	todo := judge(h.Record, kept, files, now.Add(-p.Grace))
	sizes := make(map[string]int64, len(files))
	for _, f := range files {
		sizes[f.path] = f.size
	}
	doom := func(paths []string) (out []Doomed) {
		for _, path := range paths {
			out = append(out, Doomed{Key: b.Dir() + path, Size: sizes[path]})
		}
		return out
	}
	plan.Garbage, plan.Orphans = doom(todo.garbage), doom(todo.orphans)
	if todo.raiseTo > h.Record.NextFile {
		plan.RaiseTo = todo.raiseTo
	}
	return plan, nil
}

// Sweep deletes what no record of the batch can ever name again.
func Sweep(ctx context.Context, s objstore.Store, b dataset.BatchID, p SweepPolicy, c Committer) (Swept, error) {
	plan, err := PlanSweep(ctx, s, b, p, c.Now())
	if err != nil {
		return Swept{}, err
	}
	return plan.Carry(ctx, s, c)
}

// Carry carries the plan out. It may be old: what it deletes stays what nobody
// can name.
func (p SweepPlan) Carry(ctx context.Context, s objstore.Store, c Committer) (Swept, error) {
	var swept Swept
	for _, part := range []struct {
		what  string
		files []Doomed
		count *int
	}{{"garbage", p.Garbage, &swept.Garbage}, {"orphan", p.Orphans, &swept.Orphans}, {"history", p.History, &swept.History}} {
		for _, f := range part.files {
			if err := s.Delete(ctx, f.Key); err != nil {
				return swept, fmt.Errorf("delete %s %s: %w", part.what, f.Key, err)
			}
			*part.count++
		}
	}
	if p.RaiseTo == 0 {
		return swept, nil
	}
	next := p.head.Record.Next(c.Commit(), c.By, c.Now())
	next.NextFile = p.RaiseTo
	_, err := Commit(ctx, s, p.head, next)
	if errors.Is(err, objstore.ErrLost) {
		return swept, nil // somebody commits: the next sweep looks again
	}
	swept.Raised = err == nil
	return swept, err
}

// file is a numbered file of a batch: its path within the batch.
type file struct {
	path     string
	number   int
	size     int64
	modified time.Time
}

// verdict is what judge found.
type verdict struct {
	garbage, orphans []string
	raiseTo          int // next_file must rise to this before strays can go
}

// judge applies the number rule; it is a pure function of what was read.
func judge(r Record, kept map[string]bool, files []file, old time.Time) verdict {
	var v verdict
	present := make(map[string]bool, len(files))
	for _, f := range files {
		present[f.path] = true
	}
	for _, g := range r.Garbage {
		if g.Since.Before(old) && !kept[g.File] && (present[g.File] || g.File == legacyFile) {
			v.garbage = append(v.garbage, g.File)
		}
	}
	names := r.Names()
	for _, f := range files {
		switch {
		case !f.modified.Before(old) || names[f.path]:
		case f.number >= r.NextFile:
			v.raiseTo = max(v.raiseTo, f.number+1)
		case !kept[f.path]:
			v.orphans = append(v.orphans, f.path)
		}
	}
	return v
}

// legacyFile has no number: only garbage may remove it.
const legacyFile = "merged.parquet"

// numbered lists the blocks and digest files of a batch.
func numbered(ctx context.Context, s objstore.Store, b dataset.BatchID) ([]file, error) {
	var files []file
	for _, prefix := range []string{b.Dir() + "merged_", b.DigestDir()} {
		for info, err := range s.List(ctx, prefix, "") {
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", prefix, err)
			}
			k := dataset.ParseKey(info.Key)
			if k.Batch == b && (k.Kind == dataset.KindBlock || k.Kind == dataset.KindDigest) {
				files = append(files, file{info.Key[len(b.Dir()):], k.Number, info.Size, info.Modified})
			}
		}
	}
	return files, nil
}

// readHistory gives the blocks that history still needs, and the earlier records
// that are no longer kept. Digest files of earlier records are not needed: to
// read a batch takes its blocks alone.
func readHistory(ctx context.Context, s objstore.Store, h Head, p SweepPolicy, now time.Time) (kept map[string]bool, stale []Doomed, err error) {
	b := h.Record.ID()
	sizes := map[int64]int64{}
	var numbers []int64
	for info, err := range s.List(ctx, b.HistoryDir(), "") {
		if err != nil {
			return nil, nil, fmt.Errorf("list %s: %w", b.HistoryDir(), err)
		}
		if k := dataset.ParseKey(info.Key); k.Kind == dataset.KindHistory && k.Batch == b {
			numbers = append(numbers, int64(k.Number))
			sizes[int64(k.Number)] = info.Size
		}
	}
	slices.SortFunc(numbers, func(a, b int64) int { return int(b - a) }) // newest first
	kept = make(map[string]bool)
	replaced := h.Record.CommittedAt // when the record at hand ceased to be current
	for i, n := range numbers {
		if i >= HistoryKeep {
			stale = append(stale, Doomed{b.HistoryKey(n), sizes[n]})
			continue
		}
		if n == 0 || p.HistoryMaxAge == 0 || now.Sub(replaced) > p.HistoryMaxAge {
			continue // number 0 is what another tool had left
		}
		past, err := readPast(ctx, s, b, n)
		if errors.Is(err, objstore.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("what history needs cannot be told: %w; put it back, or delete it to give that generation up", err)
		}
		for _, bl := range past.Record.Blocks {
			kept[bl.File] = true
		}
		replaced = past.Record.CommittedAt
	}
	return kept, stale, nil
}

// GoneGarbage reports which garbage entries of the head have no file any more.
// The listing is made now, after the head was read, so a commit that builds on
// the head may drop those entries.
func GoneGarbage(ctx context.Context, s objstore.Store, h Head) (map[string]bool, error) {
	gone := make(map[string]bool, len(h.Record.Garbage))
	if len(h.Record.Garbage) == 0 {
		return gone, nil
	}
	for _, g := range h.Record.Garbage {
		gone[g.File] = true
	}
	files, err := numbered(ctx, s, h.Record.ID())
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		delete(gone, f.path)
	}
	if gone[legacyFile] {
		r, _, err := s.Get(ctx, h.Record.ID().BlockKey(legacyFile), objstore.Span{})
		if err == nil {
			r.Close()
			delete(gone, legacyFile)
		} else if !errors.Is(err, objstore.ErrNotFound) {
			return nil, err
		}
	}
	return gone, nil
}
