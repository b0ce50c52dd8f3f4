package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
)

type describeCmd struct {
	Dataset string  `arg:"" help:"Dataset to describe."`
	Batch   *string `help:"Only this batch." placeholder:"B"`
}

// Help shows an example.
func (describeCmd) Help() string {
	return `Example:
  siltstone describe jargon-file`
}

// batchDescription is what describe says of a batch.
type batchDescription struct {
	batchLine
	RawBytes      int64            `json:"raw_bytes"`
	Blocks        int              `json:"blocks"`
	Duplicates    int64            `json:"duplicates"`
	Rejected      int64            `json:"rejected"`
	IDConflicts   int64            `json:"id_conflicts"`
	DeduplicateOn []string         `json:"deduplicate_on"`
	EndedBy       []dataset.Run    `json:"deduplication_ended_by,omitempty"`
	Runs          []runDescription `json:"runs"`
}

type runDescription struct {
	Run           dataset.Run `json:"run"`
	Writer        string      `json:"writer"`
	State         string      `json:"state"`
	Rows          int64       `json:"rows"`
	Chunks        int         `json:"chunks"`
	DeduplicateOn []string    `json:"deduplicate_on"`
}

// Run prints every batch with its runs.
func (c *describeCmd) Run(ctx context.Context, a *app) error {
	ids, err := batchesOf(ctx, a, c.Dataset, c.Batch)
	if err != nil {
		return err
	}
	for _, id := range ids {
		d, err := describe(ctx, a, id)
		if err != nil {
			return err
		}
		if a.json {
			err = a.printJSON(d)
		} else {
			err = d.print(a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func describe(ctx context.Context, a *app, id dataset.BatchID) (batchDescription, error) {
	listing, err := catalog.ListLive(ctx, a.store, id)
	if err != nil {
		return batchDescription{}, err
	}
	head, err := catalog.FindRecord(ctx, a.store, id)
	if err != nil {
		return batchDescription{}, err
	}
	r := head.Record
	states, err := catalog.MergeRuns(ctx, a.store, r, listing.Runs)
	if err != nil {
		return batchDescription{}, err
	}
	d := batchDescription{
		batchLine: batchLine{Dataset: id.Dataset, Batch: id.Batch, Rows: r.Rows, Bytes: r.Bytes, Generation: r.Generation},
		RawBytes:  r.RawBytes, Blocks: len(r.Blocks),
		Duplicates: r.Duplicates, Rejected: r.Rejected, IDConflicts: r.IDConflicts,
		DeduplicateOn: catalog.InForce(states), Runs: []runDescription{},
	}
	if head.Exists() {
		d.UpdatedAt = &r.CommittedAt
	}
	for _, ch := range catalog.Unabsorbed(head, listing.Chunks) {
		d.LiveChunks++
		d.LiveBytes += ch.Size
	}
	for _, run := range listing.Runs {
		m, err := catalog.ReadRun(ctx, a.store, id, run)
		if err != nil {
			return batchDescription{}, err
		}
		d.Runs = append(d.Runs, runDescription{run, m.Writer, m.State, m.Rows, m.Chunks, m.DeduplicateOn})
	}
	for _, run := range slices.Sorted(maps.Keys(states)) {
		if on := states[run].DeduplicateOn; on != nil && len(on) == 0 {
			d.EndedBy = append(d.EndedBy, run)
		}
	}
	return d, nil
}

func (d batchDescription) print(a *app) error {
	w := a.stdout
	fmt.Fprintf(w, "%s/%s\n", d.Dataset, d.Batch)
	fmt.Fprintf(w, "  rows           %d in %s, %s (%s of JSON)\n", d.Rows, count(d.Blocks, "block"), size(d.Bytes), size(d.RawBytes))
	fmt.Fprintf(w, "  live           %s, %s\n", count(d.LiveChunks, "chunk"), size(d.LiveBytes))
	fmt.Fprintf(w, "  generation     %d, %s\n", d.Generation, ago(d.UpdatedAt))
	fmt.Fprintf(w, "  deduplication  %s; %s dropped\n", d.deduplication(), count(d.Duplicates, "duplicate"))
	fmt.Fprintf(w, "  kept out       %s, %s\n", count(d.Rejected, "rejected line"), count(d.IDConflicts, "id conflict"))
	for _, r := range d.Runs {
		fmt.Fprintf(w, "  run %s     %s, %s in %s, by %s\n", r.Run, r.State, count(r.Rows, "row"), count(r.Chunks, "chunk"), r.Writer)
	}
	return nil
}

func (d batchDescription) deduplication() string {
	switch {
	case d.DeduplicateOn == nil:
		return "none asked for"
	case len(d.DeduplicateOn) > 0:
		return "on " + strings.Join(d.DeduplicateOn, ", ")
	case len(d.EndedBy) > 0:
		return fmt.Sprintf("ended by run %s, which asked for none", d.EndedBy[0])
	}
	return "ended: the runs name no common column"
}
