package merger

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
)

// repairDigests makes the digests of all rows anew from the blocks, and commits
// them. A full pass would do too, and could drop rows: this cannot.
func (e *Engine) repairDigests(ctx context.Context, b dataset.BatchID, done *Report) error {
	_, err := e.attempts(ctx, b, func(ctx context.Context, a *attempt) (Result, error) { return a.redigest(ctx, done) })
	return err
}

func (a *attempt) redigest(ctx context.Context, done *Report) (res Result, err error) {
	if a.head, err = catalog.FindRecord(ctx, a.store, a.batch); err != nil {
		return res, err
	}
	r := a.head.Record
	columns := r.DeduplicateOn
	if !a.head.Exists() || r.Deleted || len(columns)+len(r.Digests) == 0 {
		return res, nil
	}
	files := &numbers{store: a.store, batch: a.batch, next: r.NextFile}
	made, err := a.makeDigests(ctx, columns, files)
	if err != nil {
		return res, err
	}
	commit, err := a.commitID()
	if err != nil {
		return res, err
	}
	next := r.Next(commit, a.cfg.By, a.cfg.Now())
	for _, d := range r.Digests {
		next.Garbage = append(next.Garbage, catalog.GarbageDigest(d, next.CommittedAt))
	}
	next.Digests, next.NextFile = made, files.nextFile()
	if a.head, err = catalog.Commit(ctx, a.store, a.head, next); err != nil {
		return res, err
	}
	res = Result{Committed: true, Generation: next.Generation, Commit: next.Commit, Rows: next.Rows}
	done.note(a.batch.DigestDir(), "digests of %d rows made anew from the blocks, as generation %d", next.Rows, next.Generation)
	return res, a.publish(ctx, res)
}

// makeDigests writes the digests of all rows of the blocks; none where rows are
// not deduplicated.
func (a *attempt) makeDigests(ctx context.Context, columns []string, files *numbers) (made []catalog.DigestFile, err error) {
	if len(columns) == 0 {
		return nil, nil
	}
	if a.full, _, err = splitBlocks(a.head.Record); err != nil {
		return nil, err
	}
	if a.dir, err = os.MkdirTemp(a.cfg.WorkDir, "repair-*"); err != nil {
		return nil, fmt.Errorf("make a working folder: %w", err)
	}
	defer os.RemoveAll(a.dir)
	sorter := a.sorter(a.dir, 2)
	defer sorter.Close()
	if err := a.digestBlocks(ctx, columns, sorter); err != nil {
		return nil, err
	}
	recs, err := sorter.Sort()
	if err != nil {
		return nil, fmt.Errorf("sort digests: %w", err)
	}
	d, err := a.writeDigests(ctx, files, columns, &distinct{recs: recs})
	return []catalog.DigestFile{d}, err
}

// digestBlocks gives the digests of all rows of the blocks to a sorter, with
// their ids.
func (a *attempt) digestBlocks(ctx context.Context, columns []string, to *block.Sorter) error {
	scan := a.scan(ctx, blocksOf(PlanAll(a.full)))
	defer scan.close()
	for {
		row, err := scan.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		d, err := dataset.DigestOf(row.Row, columns)
		if err != nil {
			return fmt.Errorf("%s: %w", a.batch.BlockKey(a.full[row.block].File), err)
		}
		if err := to.Add(d[:], []byte(row.ID)); err != nil {
			return fmt.Errorf("sort digests: %w", err)
		}
	}
}

// distinct gives the digests of rows of which no two may have the same.
type distinct struct {
	recs block.Stream[block.Record]
	last dataset.Digest
	id   string
}

func (d *distinct) Next() (dataset.Digest, error) {
	rec, err := d.recs.Next()
	if err != nil {
		return dataset.Digest{}, err
	}
	now, id := dataset.Digest(rec.Key), string(rec.Payload)
	if d.id != "" && now == d.last {
		return dataset.Digest{}, fmt.Errorf("the rows %q and %q are duplicates of each other: which one stays is not for a repair to say", d.id, id)
	}
	d.last, d.id = now, id
	return now, nil
}
