package main

import (
	"context"
	"fmt"

	"github.com/siltstone-data/siltstone/merger"
)

type verifyCmd struct {
	Target string `arg:"" help:"Dataset, or DATASET/BATCH."`
}

// Help shows an example.
func (verifyCmd) Help() string {
	return `Reads every block, digest file and live chunk back: order, counts, ids, digests, orphans.
Ends with 1 when something is wrong. What is merely unfinished is a note.

Example:
  siltstone verify jargon-file`
}

// Run verifies the batches one after the other and tells all problems.
func (c *verifyCmd) Run(ctx context.Context, a *app) error {
	ids, err := targets(ctx, a, c.Target)
	if err != nil {
		return err
	}
	bar := a.progress("verify", int64(len(ids)))
	problems := 0
	for _, id := range ids {
		rep, err := merger.Verify(ctx, a.store, id)
		if err != nil {
			return err // it names the batch
		}
		bar.Add(1)
		problems += len(rep.Problems)
		if a.json {
			if err := a.printJSON(rep); err != nil {
				return err
			}
			continue
		}
		for _, p := range rep.Problems {
			fmt.Fprintf(a.stdout, "PROBLEM  %s: %s\n", p.Key, p.What)
		}
		for _, n := range rep.Notes {
			fmt.Fprintf(a.stdout, "note     %s: %s\n", n.Key, n.What)
		}
		fmt.Fprintf(a.stdout, "%s: generation %d, %s in %s, %s, %s\n", id, rep.Generation,
			count(rep.Rows, "row"), count(rep.Blocks, "block"), count(rep.LiveChunks, "live chunk"), count(len(rep.Problems), "problem"))
	}
	bar.Done()
	if problems > 0 {
		return exit(exitFailed, fmt.Errorf("%s found", count(problems, "problem")))
	}
	return nil
}
