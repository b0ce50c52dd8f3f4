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

// Sweep deletes what no record of the batch can ever name again. The number
// rule is its only judge: a file below next_file that the record names nowhere
// can never be named, because every later record names files of this one or
// files numbered from its next_file on. Nothing goes before a record exists.
func Sweep(ctx context.Context, s objstore.Store, b dataset.BatchID, p SweepPolicy, c Committer) (Swept, error) {
	var swept Swept
	h, err := ReadHead(ctx, s, b)
	if err != nil || !h.Exists() {
		return swept, err
	}
	now := c.Now()
	kept, stale, err := readHistory(ctx, s, h, p, now)
	if err != nil {
		return swept, err
	}
	files, err := numbered(ctx, s, b)
	if err != nil {
		return swept, err
	}
	old := now.Add(-p.Grace)
	todo := judge(h.Record, kept, files, old)
	for _, f := range todo.garbage {
		if err := s.Delete(ctx, b.Dir()+f); err != nil {
			return swept, fmt.Errorf("delete garbage %s: %w", b.Dir()+f, err)
		}
		swept.Garbage++
	}
	for _, f := range todo.orphans {
		if err := s.Delete(ctx, b.Dir()+f); err != nil {
			return swept, fmt.Errorf("delete orphan %s: %w", b.Dir()+f, err)
		}
		swept.Orphans++
	}
	for _, key := range stale {
		if err := s.Delete(ctx, key); err != nil {
			return swept, fmt.Errorf("delete history %s: %w", key, err)
		}
		swept.History++
	}
	if todo.raiseTo > h.Record.NextFile {
		next := h.Record.Next(c.Commit(), c.By, now)
		next.NextFile = todo.raiseTo
		_, err := Commit(ctx, s, h, next)
		if errors.Is(err, objstore.ErrLost) {
			return swept, nil // somebody commits: the next sweep looks again
		}
		if err != nil {
			return swept, err
		}
		swept.Raised = true
	}
	return swept, nil
}

// file is a numbered file of a batch: its path within the batch.
type file struct {
	path     string
	number   int
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
				files = append(files, file{info.Key[len(b.Dir()):], k.Number, info.Modified})
			}
		}
	}
	return files, nil
}

// readHistory gives the files that history still needs, and the keys of earlier
// records that are no longer kept.
func readHistory(ctx context.Context, s objstore.Store, h Head, p SweepPolicy, now time.Time) (kept map[string]bool, stale []string, err error) {
	b := h.Record.ID()
	var keys []dataset.Key
	for info, err := range s.List(ctx, b.HistoryDir(), "") {
		if err != nil {
			return nil, nil, fmt.Errorf("list %s: %w", b.HistoryDir(), err)
		}
		if k := dataset.ParseKey(info.Key); k.Kind == dataset.KindHistory && k.Batch == b {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b dataset.Key) int { return b.Number - a.Number }) // newest first
	kept = make(map[string]bool)
	replaced := h.Record.CommittedAt // when the record at hand ceased to be current
	for i, k := range keys {
		if i >= HistoryKeep {
			stale = append(stale, b.HistoryKey(int64(k.Number)))
			continue
		}
		if k.Number == 0 || p.HistoryMaxAge == 0 || now.Sub(replaced) > p.HistoryMaxAge {
			continue // number 0 is what another tool had left
		}
		raw, _, err := objstore.ReadAll(ctx, s, b.HistoryKey(int64(k.Number)))
		if errors.Is(err, objstore.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read history: %w", err)
		}
		r, foreign, err := parseRecord(raw)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", b.HistoryKey(int64(k.Number)), err)
		}
		if foreign {
			continue
		}
		for _, bl := range r.Blocks {
			kept[bl.File] = true
		}
		replaced = r.CommittedAt
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
