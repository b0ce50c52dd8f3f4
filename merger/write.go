package merger

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
)

// write stores blocks, rejected lines and digests, and gives the record that
// names them. Nothing of it counts before that record is committed.
func (a *attempt) write(ctx context.Context, segments []Segment, v *verdict) (catalog.Record, Result, error) {
	var none catalog.Record
	r := a.head.Record
	files := &numbers{store: a.store, batch: a.batch, next: max(r.NextFile, a.adopted.next)}
	refused := a.in.rejects.sorter.Len()
	w, blocks, err := a.weave(ctx, segments, v, files)
	if err != nil {
		return none, Result{}, err
	}
	if err := a.storeRejected(ctx); err != nil {
		return none, Result{}, err
	}
	commit, err := a.commitID()
	if err != nil {
		return none, Result{}, err
	}
	now := a.cfg.Now()
	next := r.Next(commit, a.cfg.By, now)
	next.DeduplicateOn = a.columns
	next.Blocks = blocks
	if err := a.digests(ctx, &next, v, files); err != nil {
		return none, Result{}, err
	}
	next.NextFile = files.nextFile()
	next.Rows, next.Bytes, next.RawBytes = 0, 0, 0
	named := map[string]bool{}
	for _, b := range blocks {
		named[b.File] = true
		next.Rows += b.Rows
		next.Bytes += b.Bytes
		next.RawBytes += b.RawBytes
	}
	next.Spread = a.spread()
	next.Duplicates += w.duplicates
	next.Rejected += refused
	next.IDConflicts += w.conflicts
	kept := 0
	for _, b := range r.Blocks {
		if named[b.File] {
			kept++
		} else {
			next.Garbage = append(next.Garbage, catalog.GarbageBlock(b, now))
		}
	}
	next.Garbage = append(next.Garbage, a.adopted.garbage(now)...)
	if err := a.forgetGarbage(ctx, &next); err != nil {
		return none, Result{}, err
	}
	a.absorb(&next)
	return next, Result{
		FullPass: a.fullPass() || a.head.Foreign || a.head.Lost, Generation: next.Generation, Commit: commit, Rows: next.Rows,
		Chunks: len(a.live), Added: w.added, Adopted: w.adopted, Duplicates: w.duplicates, Rejected: refused, IDConflicts: w.conflicts,
		Written: len(blocks) - kept, Kept: kept,
	}, nil
}

// weave writes the rows of the segments into blocks, and gives all blocks of
// the batch.
func (a *attempt) weave(ctx context.Context, segments []Segment, v *verdict, files *numbers) (*weaver, []catalog.Block, error) {
	s := &shelf{ctx: ctx, dir: a.dir, level: a.cfg.Level, kind: a.kind(ctx), limits: a.limits(), files: files, old: a.full}
	s.written = func(b catalog.Block) {
		a.metrics.Bytes.WithLabelValues("blocks_written").Add(float64(b.Bytes))
	}
	if a.cfg.Concurrency > 1 {
		s.uploads, s.ctx = errgroup.WithContext(ctx)
		s.uploads.SetLimit(uploadsAtOnce)
		pool, err := block.NewCompressors(a.workers(maxWorkers), a.cfg.Level)
		if err != nil {
			return nil, nil, err
		}
		defer pool.Close()
		s.pool = pool
	}
	w := &weaver{dir: a.dir, blocks: a.full, segments: segments, limits: a.limits(), shelf: s, rejects: a.in.rejects, overlap: a.head.Lost}
	total := a.in.rows.Len()
	scan := a.scan(ctx, blocksOf(segments))
	defer scan.close()
	for _, i := range scan.which {
		total += a.full[i].Rows
	}
	w.progress = func(rows int64) { a.progress("write", rows, total) }
	err := a.weaveInto(ctx, w, scan, v)
	if err != nil {
		if uerr := s.abandon(); uerr != nil {
			err = uerr // why the uploads' context ended
		}
		return nil, nil, err
	}
	written, err := s.finish()
	if err != nil {
		return nil, nil, err
	}
	a.metrics.Rows.WithLabelValues("rewritten").Add(float64(w.kept - w.added))
	return w, a.all(written, scan.which), nil
}

func (a *attempt) weaveInto(ctx context.Context, w *weaver, scan *blockScan, v *verdict) error {
	if v != nil {
		drops, err := v.drops.Sort()
		if err != nil {
			return fmt.Errorf("sort drops: %w", err)
		}
		if w.drops, err = newCursor(drops); err != nil {
			return fmt.Errorf("sort drops: %w", err)
		}
	}
	rows, err := a.in.rows.Sort()
	if err != nil {
		return fmt.Errorf("sort rows: %w", err)
	}
	if err := w.run(ctx, sortedRows{rows, a.columns}, &mergedRows{scan: scan}); err != nil {
		return err
	}
	if w.kept == 0 && len(a.full) == len(scan.which) && len(a.empty) == 0 {
		return w.shelf.empty() // no row at all: the batch still says that it is merged
	}
	return nil
}

// all puts written blocks among those that stay.
func (a *attempt) all(written []catalog.Block, rewritten []int) []catalog.Block {
	blocks := slices.Clone(written)
	for i, b := range a.full {
		if _, is := slices.BinarySearch(rewritten, i); !is {
			blocks = append(blocks, b)
		}
	}
	if len(blocks) == 0 {
		return a.empty[:1]
	}
	slices.SortFunc(blocks, func(a, b catalog.Block) int {
		if a.FirstID < b.FirstID {
			return -1
		}
		return 1
	})
	return blocks
}

// storeRejected stores the lines that were not merged, before the commit that
// lets their chunks go.
func (a *attempt) storeRejected(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(a.cfg.Concurrency)
	err := a.in.rejects.files(a.dir, func(source uint32, file *scratch) error {
		store := func() error {
			defer file.close()
			return putRejected(gctx, a.store, a.dir, a.sources[source].rejectedKey(a.batch), file)
		}
		if a.cfg.Concurrency == 1 {
			return store()
		}
		g.Go(store)
		return gctx.Err()
	})
	if gerr := g.Wait(); gerr != nil {
		return gerr
	}
	return err
}

// forgetGarbage drops the entries whose files are gone, once some are old
// enough to be.
func (a *attempt) forgetGarbage(ctx context.Context, next *catalog.Record) error {
	old := next.CommittedAt.Add(-a.cfg.Grace)
	if !slices.ContainsFunc(a.head.Record.Garbage, func(g catalog.Garbage) bool { return g.Since.Before(old) }) {
		return nil
	}
	gone, err := catalog.GoneGarbage(ctx, a.store, a.head)
	if err != nil {
		return err
	}
	next.Garbage = slices.DeleteFunc(next.Garbage, func(g catalog.Garbage) bool { return gone[g.File] })
	return nil
}
