package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
)

type describeCmd struct {
	Target  string  `arg:"" name:"dataset" help:"Dataset, or DATASET/BATCH."`
	Batch   *string `help:"Only this batch." placeholder:"B"`
	History bool    `help:"List the generations, and which of them export --at can still read."`
}

// Help shows an example.
func (describeCmd) Help() string {
	return `Example:
  siltstone describe jargon-file
  siltstone describe jargon-file/4.4.7 --history`
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
	History       []generationLine `json:"history,omitempty"`
}

// generationLine is what describe says of a commit record, current or kept.
type generationLine struct {
	Generation  int64      `json:"generation"`
	CommittedAt *time.Time `json:"committed_at"`
	CommittedBy string     `json:"committed_by"`
	Rows        int64      `json:"rows"`
	Bytes       int64      `json:"bytes"`
	Readable    bool       `json:"readable"`
	Why         string     `json:"why,omitempty"` // not
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
	ids, err := c.batches(ctx, a)
	if err != nil {
		return err
	}
	layers, err := layersIn(ctx, a, ids[0].Dataset)
	if err != nil {
		return err
	}
	for _, id := range ids {
		d, err := describe(ctx, a, id)
		d.Layers = layers.batch(id.Batch)
		if err == nil && c.History {
			d.History, err = generations(ctx, a, id)
		}
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

func (c *describeCmd) batches(ctx context.Context, a *app) ([]dataset.BatchID, error) {
	if c.Batch == nil {
		return targets(ctx, a, c.Target)
	}
	if strings.Contains(c.Target, "/") {
		return nil, exit(exitUsage, errors.New("name the batch once: DATASET/BATCH, or --batch"))
	}
	return batchesOf(ctx, a, c.Target, c.Batch)
}

func generations(ctx context.Context, a *app, id dataset.BatchID) ([]generationLine, error) {
	all, err := catalog.History(ctx, a.store, id)
	if err != nil {
		return nil, err
	}
	var out []generationLine
	for _, p := range all {
		l := generationLine{Generation: p.Generation, CommittedBy: p.CommittedBy, Rows: p.Rows, Bytes: p.Bytes, Readable: p.Readable()}
		switch {
		case p.Damaged != "":
			l.Why = p.Damaged
		case p.Gone > 0:
			l.Why = count(p.Gone, "block") + " replaced and gone"
		case p.Deleted:
			l.Why = "the batch was removed"
		}
		if p.Damaged == "" {
			l.CommittedAt = &p.CommittedAt
		}
		out = append(out, l)
	}
	return out, nil
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
	for _, l := range d.Layers {
		fmt.Fprintf(w, "  annotator %s  %s\n", l.Annotator, l)
	}
	for _, r := range d.Runs {
		fmt.Fprintf(w, "  run %s     %s, %s in %s, by %s\n", r.Run, r.State, count(r.Rows, "row"), count(r.Chunks, "chunk"), r.Writer)
	}
	if d.History == nil {
		return nil
	}
	t := newTable(a, "  GENERATION\tCOMMITTED\tROWS\tSIZE\tBY\tREADABLE")
	for _, l := range d.History {
		at, readable := "-", "yes"
		if l.CommittedAt != nil {
			at = l.CommittedAt.UTC().Format(time.RFC3339Nano)
		}
		if !l.Readable {
			readable = "no: "
		} else if l.Why != "" {
			readable = "yes: "
		}
		if err := t.row(l, "  %d\t%s\t%d\t%s\t%s\t%s", l.Generation, at, l.Rows, size(l.Bytes), l.CommittedBy, readable+l.Why); err != nil {
			return err
		}
	}
	return t.flush()
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
