package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/index"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore"
)

type verifyCmd struct {
	Target string `arg:"" optional:"" name:"dataset" help:"Dataset, or DATASET/BATCH; all datasets when left out."`
	Repair bool   `help:"Make anew what can be told from the rest: indexes, digest files, a lost commit record."`
}

// Help shows an example.
func (verifyCmd) Help() string {
	return `Reads every block, digest file, index and live chunk back: order, counts, ids, digests, orphans. It may
run beside mergers and writers. Ends with 1 when something is wrong; what is merely unfinished is a note.

--repair changes no row. What it makes counts by a commit like a merge's, so that it is safe beside
mergers. A damaged block cannot be made anew: put it back from a backup.

Example:
  siltstone verify jargon-file
  siltstone verify jargon-file/4.4.7 --repair`
}

// verifyLine is what verify says of a batch.
type verifyLine struct {
	Dataset   string `json:"dataset"`
	Batch     string `json:"batch"`
	Annotator string `json:"annotator,omitempty"`
	merger.Report
	Repaired []merger.Problem `json:"repaired,omitempty"`
	Error    string           `json:"error,omitempty"` // why it could not be verified, or repaired
}

// Run verifies the batches one after the other. One that is damaged does not
// keep the others waiting.
func (c *verifyCmd) Run(ctx context.Context, a *app) error {
	var engine *merger.Engine
	if c.Repair {
		var err error
		if engine, err = newEngine(ctx, a, a.announcer(ctx), nil); err != nil {
			return err
		}
	}
	bar := a.progress("verify, bytes read", -1)
	defer bar.Done()
	store := metered{a.store, bar}
	batches, bad, problems, failed := 0, 0, 0, 0
	for id, err := range everyBatch(ctx, a, c.Target) {
		if err != nil {
			return err
		}
		line := verifyLine{Dataset: id.Dataset, Batch: id.Batch, Annotator: id.Annotator}
		if err := c.verify(ctx, store, engine, id, &line); err != nil {
			if ctx.Err() != nil || unusable(err) {
				return err
			}
			line.Error = err.Error()
			failed++
		}
		batches++
		problems += len(line.Problems)
		if !line.OK() || line.Error != "" {
			bad++
		}
		if a.json {
			err = a.printJSON(line)
		} else {
			err = line.print(a.stdout, id)
		}
		if err != nil {
			return err
		}
	}
	if bad > 0 {
		return exit(exitFailed, fmt.Errorf("%s of %d: %s found, %s could not be finished", count(bad, "bad batch"), batches, count(problems, "problem"), count(failed, "batch")))
	}
	return nil
}

// verify looks at a batch, repairs it where that is asked for, and then looks
// again.
func (c *verifyCmd) verify(ctx context.Context, s objstore.Store, engine *merger.Engine, id dataset.BatchID, line *verifyLine) (err error) {
	if line.Report, err = merger.Verify(ctx, s, id); err != nil {
		return err
	}
	if engine != nil {
		line.Repaired, err = engine.Repair(ctx, id, line.Report)
		if len(line.Repaired) > 0 {
			again, verr := merger.Verify(ctx, s, id)
			if verr == nil {
				line.Report = again
			}
			err = errors.Join(err, verr)
		}
		if err != nil {
			return err
		}
	}
	return c.indexes(ctx, s, id, line)
}

// indexes looks at what is derived from the blocks.
func (c *verifyCmd) indexes(ctx context.Context, s objstore.Store, id dataset.BatchID, line *verifyLine) error {
	h, err := catalog.ReadHead(ctx, s, id)
	if errors.Is(err, catalog.ErrDamaged) {
		return nil // and so it says
	}
	if err != nil || !h.Exists() {
		return err
	}
	faults, err := index.Check(ctx, s, h.Record)
	if err != nil || len(faults) == 0 {
		return err
	}
	if now, err := catalog.ReadHead(ctx, s, id); err != nil || now.Record.Commit != h.Record.Commit {
		return err // it was replaced meanwhile, and is indexed as it changes
	}
	if c.Repair {
		if err := index.Repair(ctx, s, h.Record, faults); err != nil {
			return fmt.Errorf("repair indexes of %s: %w", id, err)
		}
		for _, f := range faults {
			line.Repaired = append(line.Repaired, merger.Problem{Key: f.Key, What: "made anew: " + f.What})
		}
		return nil
	}
	for _, f := range faults {
		p := merger.Problem{Key: f.Key, What: f.What}
		if f.Late {
			line.Notes = append(line.Notes, p)
		} else {
			line.Problems = append(line.Problems, p)
		}
	}
	return nil
}

func (l verifyLine) print(w io.Writer, id dataset.BatchID) error {
	for _, p := range l.Repaired {
		fmt.Fprintf(w, "repaired %s: %s\n", p.Key, p.What)
	}
	for _, p := range l.Problems {
		fmt.Fprintf(w, "PROBLEM  %s: %s\n", p.Key, p.What)
	}
	for _, n := range l.Notes {
		fmt.Fprintf(w, "note     %s: %s\n", n.Key, n.What)
	}
	if l.Error != "" {
		fmt.Fprintf(w, "PROBLEM  %s\n", l.Error)
	}
	_, err := fmt.Fprintf(w, "%s: generation %d, %s in %s, %s, %s\n", id, l.Generation,
		count(l.Rows, "row"), count(l.Blocks, "block"), count(l.LiveChunks, "live chunk"), count(len(l.Problems), "problem"))
	return err
}

// metered is a store that shows how much is read.
type metered struct {
	objstore.Store
	bar progress
}

func (m metered) Get(ctx context.Context, key string, s objstore.Span) (io.ReadCloser, objstore.Info, error) {
	r, info, err := m.Store.Get(ctx, key, s)
	if err != nil {
		return nil, info, err
	}
	return meteredBody{r, m.bar}, info, nil
}

type meteredBody struct {
	io.ReadCloser
	bar progress
}

func (m meteredBody) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	m.bar.Add(int64(n))
	return n, err
}
