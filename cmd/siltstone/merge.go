package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/merger"
)

type mergeCmd struct {
	Target string `arg:"" help:"Dataset, or DATASET/BATCH."`
}

// Help shows an example.
func (mergeCmd) Help() string {
	return `Does at once, in this process, what a merger does on events. Any number may run: the commit decides.

Example:
  siltstone merge jargon-file/4.4.7`
}

// mergeLine is what merge says of a batch.
type mergeLine struct {
	Dataset string `json:"dataset"`
	Batch   string `json:"batch"`
	merger.Result
}

// Run merges the batches one after the other.
func (c *mergeCmd) Run(ctx context.Context, a *app) error {
	ids, err := targets(ctx, a, c.Target)
	if err != nil {
		return err
	}
	bars := &phases{app: a}
	engine, err := newEngine(ctx, a, a.announcer(ctx), func(p merger.Progress) { bars.at(p.Phase, p.Done, p.Total) })
	if err != nil {
		return err
	}
	for _, id := range ids {
		res, err := engine.Merge(ctx, id)
		bars.end()
		if err != nil {
			return err
		}
		if a.json {
			if err := a.printJSON(mergeLine{id.Dataset, id.Batch, res}); err != nil {
				return err
			}
			continue
		}
		if !res.Committed {
			fmt.Fprintf(a.stderr, "%s: nothing to do, generation %d\n", id, res.Generation)
			continue
		}
		fmt.Fprintf(a.stderr, "%s: generation %d, %s added from %s, %s, %d rejected, %s\n", id, res.Generation,
			count(res.Added, "row"), count(res.Chunks, "chunk"), count(res.Duplicates, "duplicate"), res.Rejected, count(res.IDConflicts, "id conflict"))
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
