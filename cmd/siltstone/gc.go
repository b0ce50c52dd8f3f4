package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/index"
)

type gcCmd struct {
	Target string        `arg:"" optional:"" name:"dataset" help:"Dataset, or DATASET/BATCH; all datasets when left out."`
	DryRun bool          `help:"Only say what would go."`
	Grace  time.Duration `help:"Leave alone what is younger." default:"10m"`
}

// Help shows an example.
func (gcCmd) Help() string {
	return `Does at once what the sweeper does in its turns: deletes replaced files, files of merges that came to
nothing, records past the last 100, and indexes of blocks that are gone. Blocks that earlier records
name stay for HISTORY_MAX_AGE. Safe beside mergers, readers and the sweeper.

Example:
  siltstone gc jargon-file --dry-run`
}

// heap is a number of objects and their bytes.
type heap struct {
	Objects int   `json:"objects"`
	Bytes   int64 `json:"bytes"`
}

func heapOf(files []catalog.Doomed) (h heap) {
	for _, f := range files {
		h.Objects++
		h.Bytes += f.Size
	}
	return h
}

func (h heap) plus(o heap) heap { return heap{h.Objects + o.Objects, h.Bytes + o.Bytes} }

// gcLine is what gc says of a batch.
type gcLine struct {
	Dataset   string `json:"dataset"`
	Batch     string `json:"batch"`
	Annotator string `json:"annotator,omitempty"`
	DryRun    bool   `json:"dry_run"`
	Garbage   heap   `json:"garbage"` // replaced files
	Orphans   heap   `json:"orphans"` // of merges that came to nothing
	History   heap   `json:"history"` // old records
	Indexes   heap   `json:"indexes"` // of blocks that are gone
	// RaisedTo is the next_file that was committed so that stray files at or
	// above the one before could go; 0 where there were none. A dry run does not
	// count those files.
	RaisedTo int    `json:"raised_next_file_to,omitempty"`
	Error    string `json:"error,omitempty"`
}

func (l gcLine) all() heap { return l.Garbage.plus(l.Orphans).plus(l.History).plus(l.Indexes) }

// Run sweeps the batches one after the other. One that cannot be swept does not
// keep the others waiting.
func (c *gcCmd) Run(ctx context.Context, a *app) error {
	if c.Grace < 0 {
		return exit(exitUsage, fmt.Errorf("--grace %s: it must not be negative", c.Grace))
	}
	if !c.DryRun {
		if err := probeStore(ctx, a); err != nil {
			return err
		}
	}
	sum, failed := gcLine{}, 0
	for id, err := range everyBatch(ctx, a, c.Target) {
		if err != nil {
			return err
		}
		line, err := c.sweep(ctx, a, id)
		if err != nil {
			if ctx.Err() != nil || unusable(err) {
				return err
			}
			failed++
			line.Error = err.Error()
			fmt.Fprintf(a.stderr, "siltstone: %v\n", err)
		}
		sum.Garbage, sum.Orphans = sum.Garbage.plus(line.Garbage), sum.Orphans.plus(line.Orphans)
		sum.History, sum.Indexes = sum.History.plus(line.History), sum.Indexes.plus(line.Indexes)
		if a.json {
			err = a.printJSON(line)
		} else {
			err = line.print(a, id)
		}
		if err != nil {
			return err
		}
	}
	if !a.json {
		verb := "deleted"
		if c.DryRun {
			verb = "would delete"
		}
		fmt.Fprintf(a.stderr, "%s %s, %s\n", verb, count(sum.all().Objects, "object"), size(sum.all().Bytes))
	}
	if failed > 0 {
		return exit(exitFailed, fmt.Errorf("%s could not be swept", count(failed, "batch")))
	}
	return nil
}

// sweep sweeps a batch, or plans it. A sweep that raised next_file is followed
// by another one, for the files that this has ruled out.
func (c *gcCmd) sweep(ctx context.Context, a *app, id dataset.BatchID) (gcLine, error) {
	line := gcLine{Dataset: id.Dataset, Batch: id.Batch, Annotator: id.Annotator, DryRun: c.DryRun}
	policy := catalog.SweepPolicy{Grace: c.Grace, HistoryMaxAge: a.historyMaxAge}
	by := committer("gc")
	var plan catalog.SweepPlan
	for again := true; again; {
		began := time.Now()
		var err error
		if plan, err = catalog.PlanSweep(ctx, a.store, id, policy, began); err != nil {
			return line, fmt.Errorf("sweep %s: %w", id, err)
		}
		swept := catalog.Swept{Garbage: len(plan.Garbage), Orphans: len(plan.Orphans), History: len(plan.History)}
		if !c.DryRun {
			swept, err = plan.Carry(ctx, a.store, by)
		}
		line.Garbage = line.Garbage.plus(heapOf(plan.Garbage[:swept.Garbage]))
		line.Orphans = line.Orphans.plus(heapOf(plan.Orphans[:swept.Orphans]))
		line.History = line.History.plus(heapOf(plan.History[:swept.History]))
		if swept.Raised || c.DryRun {
			line.RaisedTo = max(line.RaisedTo, plan.RaiseTo)
		}
		if err != nil {
			return line, fmt.Errorf("sweep %s: %w", id, err)
		}
		again = swept.Raised
	}
	if !plan.Head().Exists() {
		return line, nil
	}
	var err error
	line.Indexes, err = c.prune(ctx, a, plan.Head().Record)
	return line, err
}

// prune deletes indexes of blocks that are gone, or counts them.
func (c *gcCmd) prune(ctx context.Context, a *app, r catalog.Record) (heap, error) {
	sizes, err := index.Sizes(ctx, a.store, r.ID())
	if err != nil {
		return heap{}, err
	}
	have := make(map[int]bool, len(sizes))
	for n := range sizes {
		have[n] = true
	}
	old := time.Now().Add(-c.Grace)
	var h heap
	for _, n := range index.Stale(r, have, old) {
		h = h.plus(heap{1, sizes[n]})
	}
	if !c.DryRun {
		_, err = index.Prune(ctx, a.store, r, have, old)
	}
	return h, err
}

// print says what went, nothing where nothing did.
func (l gcLine) print(a *app, id dataset.BatchID) error {
	var parts []string
	for _, p := range []struct {
		what string
		heap
	}{{"replaced file", l.Garbage}, {"orphan", l.Orphans}, {"old record", l.History}, {"index", l.Indexes}} {
		if p.Objects > 0 {
			parts = append(parts, fmt.Sprintf("%s (%s)", count(p.Objects, p.what), size(p.Bytes)))
		}
	}
	if l.RaisedTo > 0 {
		parts = append(parts, fmt.Sprintf("next_file raised to %d over stray files", l.RaisedTo))
	}
	if len(parts) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(a.stdout, "%s: %s\n", id, strings.Join(parts, ", "))
	return err
}

// committer names the commits of a command.
func committer(what string) catalog.Committer {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return catalog.Committer{By: fmt.Sprintf("%s@%s/%d", what, host, os.Getpid()), Now: time.Now, Commit: func() string {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		return hex.EncodeToString(b[:])
	}}
}

// everyBatch gives the batches that a target names, those of layers included:
// of all datasets where it is empty.
func everyBatch(ctx context.Context, a *app, target string) func(func(dataset.BatchID, error) bool) {
	return func(yield func(dataset.BatchID, error) bool) {
		name, batch, one := strings.Cut(target, "/")
		names := []string{name}
		var err error
		switch {
		case target == "":
			names, err = catalog.Datasets(ctx, a.store)
		case one:
			_, err = batchesOf(ctx, a, name, &batch)
		default:
			_, err = batchesOf(ctx, a, name, nil)
		}
		if err != nil {
			yield(dataset.BatchID{}, err)
			return
		}
		for _, name := range names {
			ids, err := catalog.AllBatches(ctx, a.store, name)
			if one {
				ids = slices.DeleteFunc(ids, func(id dataset.BatchID) bool { return id.Batch != batch })
			}
			for _, id := range ids {
				if !yield(id, nil) {
					return
				}
			}
			if err != nil && !yield(dataset.BatchID{}, err) || errors.Is(err, context.Canceled) {
				return
			}
		}
	}
}
