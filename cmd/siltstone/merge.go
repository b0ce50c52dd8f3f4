package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/merger"
)

type mergeCmd struct {
	Target string `arg:"" name:"dataset" help:"Dataset, or DATASET/BATCH."`
	DryRun bool   `help:"Only say what would happen; reads the chunks and stores nothing."`
}

// Help shows an example.
func (mergeCmd) Help() string {
	return `Does at once, in this process, what a merger does on events, for the rows and for the layers.
Any number may run: the commit decides. What older tools have merged is adopted.

Example:
  siltstone merge jargon-file/4.4.7
  siltstone merge jargon-file --dry-run`
}

// planLine is what merge --dry-run says of a batch.
type planLine struct {
	Dataset   string `json:"dataset"`
	Batch     string `json:"batch"`
	Annotator string `json:"annotator,omitempty"`
	merger.Forecast
}

// olderLine is what merge --dry-run says of the chunks of a layer that an older
// tool has written: whose batches they are is not known before they are split.
type olderLine struct {
	Dataset     string `json:"dataset"`
	Annotator   string `json:"annotator"`
	OlderChunks int    `json:"older_chunks"`
	OlderBytes  int64  `json:"older_bytes"`
}

// mergeLine is what merge says of a batch.
type mergeLine struct {
	Dataset   string `json:"dataset"`
	Batch     string `json:"batch"`
	Annotator string `json:"annotator,omitempty"`
	merger.Result
}

// Run merges the batches one after the other.
func (c *mergeCmd) Run(ctx context.Context, a *app) error {
	ids, err := targets(ctx, a, c.Target)
	if err != nil {
		return err
	}
	bars := &phases{app: a}
	if c.DryRun {
		return c.plan(ctx, a, ids, bars)
	}
	engine, err := newEngine(ctx, a, a.announcer(ctx), func(p merger.Progress) { bars.at(p.Phase, p.Done, p.Total) })
	if err != nil {
		return err
	}
	layers, err := layersOf(ctx, a, c.Target, func(name, annotator string) error {
		_, err := engine.Split(ctx, name, annotator)
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range append(ids, layers...) {
		res, err := engine.Merge(ctx, id)
		bars.end()
		if err != nil {
			return err
		}
		if a.json {
			if err := a.printJSON(mergeLine{id.Dataset, id.Batch, id.Annotator, res}); err != nil {
				return err
			}
			continue
		}
		if !res.Committed {
			fmt.Fprintf(a.stderr, "%s: nothing to do, generation %d\n", id, res.Generation)
			continue
		}
		adopted := ""
		if res.Adopted > 0 {
			adopted = fmt.Sprintf("%s of another tool adopted, ", count(res.Adopted, "row"))
		}
		fmt.Fprintf(a.stderr, "%s: generation %d, %s%s added from %s, %s, %d rejected, %s\n", id, res.Generation,
			adopted, count(res.Added, "row"), count(res.Chunks, "chunk"), count(res.Duplicates, "duplicate"), res.Rejected, count(res.IDConflicts, "id conflict"))
	}
	return nil
}

// plan says of each batch what a merge would do.
func (c *mergeCmd) plan(ctx context.Context, a *app, ids []dataset.BatchID, bars *phases) error {
	engine, err := merger.New(a.store, nil, merger.Config{WorkDir: a.workDir,
		Progress: func(p merger.Progress) { bars.at(p.Phase, p.Done, p.Total) }}, a.log, nil)
	if err != nil {
		return err
	}
	layers, err := layersOf(ctx, a, c.Target, func(name, annotator string) error {
		return planSplit(ctx, a, name, annotator)
	})
	if err != nil {
		return err
	}
	for _, id := range append(ids, layers...) {
		f, err := engine.Plan(ctx, id)
		bars.end()
		if err != nil {
			return err
		}
		if a.json {
			err = a.printJSON(planLine{id.Dataset, id.Batch, id.Annotator, f})
		} else {
			err = printPlan(a, id, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// planSplit says what older chunks of a layer a merge would split first. What it
// would merge of them is in no forecast.
func planSplit(ctx context.Context, a *app, name, annotator string) error {
	chunks, err := catalog.OlderChunks(ctx, a.store, name, annotator)
	if err != nil || len(chunks) == 0 {
		return err
	}
	l := olderLine{Dataset: name, Annotator: annotator, OlderChunks: len(chunks)}
	for _, c := range chunks {
		l.OlderBytes += c.Size
	}
	if a.json {
		return a.printJSON(l)
	}
	_, err = fmt.Fprintf(a.stdout, "%s, layer %s: would first split %s of an older tool, %s, by batch: what is in them is not counted here\n",
		name, annotator, count(l.OlderChunks, "chunk"), size(l.OlderBytes))
	return err
}

func printPlan(a *app, id dataset.BatchID, f merger.Forecast) error {
	what := "nothing to do"
	if f.Due {
		what = fmt.Sprintf("would commit generation %d", f.Generation+1)
	}
	w := a.stdout
	fmt.Fprintf(w, "%s: %s: %s\n", id, what, strings.Join(f.Why, "; "))
	if f.Due {
		pass := ""
		if f.FullPass {
			pass = ", in a full pass over all rows"
		}
		fmt.Fprintf(w, "  reads     %s, %s%s\n", count(f.LiveChunks, "live chunk"), size(f.LiveBytes), pass)
		fmt.Fprintf(w, "  rows      %d added, %s, %d rejected, %s; %d in all\n", f.Added, count(f.Duplicates, "duplicate"), f.Rejected, count(f.IDConflicts, "id conflict"), f.Rows)
		fmt.Fprintf(w, "  blocks    %d kept, %d replaced, %d created of %s\n", f.Kept, len(f.Rewritten), f.Created, size(f.BytesWritten))
	}
	if f.Leftovers > 0 {
		fmt.Fprintf(w, "  deletes   %s left over\n", count(f.Leftovers, "absorbed chunk"))
	}
	return nil
}

// targets gives the batches that DATASET or DATASET/BATCH names.
func targets(ctx context.Context, a *app, target string) ([]dataset.BatchID, error) {
	name, batch, one := strings.Cut(target, "/")
	if !one {
		return batchesOf(ctx, a, name, nil)
	}
	return batchesOf(ctx, a, name, &batch)
}

// layersOf gives the layers' parts of DATASET or DATASET/BATCH. Each layer is first
// given to older, which sees to chunks of older tools: once they are split, it is
// known what batches they have.
func layersOf(ctx context.Context, a *app, target string, older func(name, annotator string) error) ([]dataset.BatchID, error) {
	name, batch, one := strings.Cut(target, "/")
	annotators, err := catalog.Annotators(ctx, a.store, name)
	if err != nil {
		return nil, err
	}
	var layers []dataset.BatchID
	for _, annotator := range annotators {
		if err := older(name, annotator); err != nil {
			return nil, err
		}
		parts, err := catalog.LayerBatches(ctx, a.store, name, annotator)
		if err != nil {
			return nil, err
		}
		for _, b := range parts {
			if !one || b.Batch == batch {
				layers = append(layers, b)
			}
		}
	}
	return layers, nil
}
