package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/nats/bus"
)

type convertCmd struct {
	Dataset string `arg:"" optional:"" help:"Dataset; all of them where it is left out."`
	DryRun  bool   `help:"Say what would be converted, and change nothing."`
	Enqueue bool   `help:"Make jobs of it, which the mergers share, and do not wait for them."`
}

// Help shows an example.
func (convertCmd) Help() string {
	return `Brings parquet files of older tools (merged.parquet), and parquet blocks, into blocks of JSON lines,
batch by batch. It can be stopped anywhere and started again; any number may run. A dataset above
CONVERT_MAX_DATASET_BYTES keeps its parquet: what an older tool has merged of it is adopted all the same.
Ends with 4 when some batches failed; nothing of those changes.

Example:
  siltstone convert example --dry-run`
}

// convertLine is what convert says of a batch.
type convertLine struct {
	Dataset   string `json:"dataset"`
	Batch     string `json:"batch"`
	Annotator string `json:"annotator,omitempty"`
	Outcome   string `json:"outcome"` // planned, enqueued, converted, merged, unchanged or failed
	Files     int    `json:"files"`
	Bytes     int64  `json:"bytes"` // of the parquet files
	Error     string `json:"error,omitempty"`
	*merger.Result
}

// Run converts the datasets one after the other.
func (c *convertCmd) Run(ctx context.Context, a *app) error {
	names, err := c.datasets(ctx, a)
	if err != nil {
		return err
	}
	engine, err := newEngine(ctx, a, a.announcer(ctx), nil)
	if err != nil {
		return err
	}
	conv := merger.NewConverter(engine, a.convertMax)
	done, failed := 0, 0
	for _, name := range names {
		n, f, err := c.dataset(ctx, a, conv, name)
		done, failed = done+n, failed+f
		if err != nil {
			if ctx.Err() != nil && !c.DryRun && !c.Enqueue {
				fmt.Fprintf(a.stderr, "stopped; %s %s converted, and the next convert goes on\n", count(int64(done), "batch"), are(int64(done)))
			}
			return err
		}
	}
	if failed > 0 {
		return exit(exitPartial, fmt.Errorf("%s failed, and nothing of what failed has changed", count(int64(failed), "batch")))
	}
	return nil
}

func (c *convertCmd) datasets(ctx context.Context, a *app) ([]string, error) {
	if c.Dataset == "" {
		return catalog.Datasets(ctx, a.store)
	}
	if err := dataset.CheckDataset(c.Dataset); err != nil {
		return nil, exit(exitUsage, err)
	}
	ids, err := catalog.AllBatches(ctx, a.store, c.Dataset)
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("no dataset %q (siltstone ls shows what there is)", c.Dataset)
	}
	return []string{c.Dataset}, err
}

// dataset converts one dataset, and gives how many batches were converted and how
// many failed.
func (c *convertCmd) dataset(ctx context.Context, a *app, conv *merger.Converter, name string) (done, failed int, err error) {
	plan, err := conv.Plan(ctx, name)
	if err != nil {
		return 0, 0, err
	}
	due := plan.Due()
	c.introduce(a, plan)
	switch {
	case c.DryRun:
		for _, b := range due {
			if err := c.tell(a, b, "planned", nil, nil); err != nil {
				return 0, 0, err
			}
		}
		return 0, 0, nil
	case len(due) == 0:
		return 0, 0, conv.Begin(ctx, plan)
	}
	if c.Enqueue {
		if _, err := a.connect(ctx); err != nil {
			return 0, 0, err
		}
	}
	if err := conv.Begin(ctx, plan); err != nil {
		return 0, 0, err
	}
	var total int64
	for _, b := range due {
		total += b.Bytes
	}
	bar := a.progress("convert "+name, total)
	defer bar.Done()
	for _, b := range due {
		if c.Enqueue {
			if err := a.bus.Enqueue(ctx, bus.Job{Kind: bus.KindConvert, Batch: b.Batch}); err != nil {
				return done, failed, err
			}
			if err := c.tell(a, b, "enqueued", nil, nil); err != nil {
				return done, failed, err
			}
			continue
		}
		within := &share{bar: bar, bytes: b.Bytes}
		res, err := conv.Batch(ctx, b.Batch, within.at)
		if ctx.Err() != nil {
			return done, failed, err
		}
		within.end()
		outcome := "unchanged"
		switch {
		case err != nil:
			outcome = "failed"
			failed++
		case res.Committed && plan.Over():
			outcome = "merged"
			done++
		case res.Committed:
			outcome = "converted"
			done++
		}
		if err := c.tell(a, b, outcome, &res, err); err != nil {
			return done, failed, err
		}
	}
	return done, failed, nil
}

func (c *convertCmd) introduce(a *app, plan merger.ConversionPlan) {
	switch due := plan.Due(); {
	case a.json:
	case plan.Over():
		fmt.Fprintf(a.stderr, "%s: %s, above CONVERT_MAX_DATASET_BYTES (%s): its parquet blocks stay; %s of older tools to adopt\n", plan.Dataset,
			humanize.Bytes(uint64(plan.Bytes)), humanize.Bytes(uint64(plan.Limit)), count(int64(len(due)), "batch"))
	case len(due) == 0:
		fmt.Fprintf(a.stderr, "%s: nothing to convert\n", plan.Dataset)
	}
}

// tell says what became of a batch.
func (c *convertCmd) tell(a *app, b merger.Convertible, outcome string, res *merger.Result, failed error) error {
	line := convertLine{Dataset: b.Batch.Dataset, Batch: b.Batch.Batch, Annotator: b.Batch.Annotator, Outcome: outcome, Files: b.Files, Bytes: b.Bytes, Error: b.Err, Result: res}
	if failed != nil {
		line.Error, line.Result = failed.Error(), nil
	}
	if a.json {
		return a.printJSON(line)
	}
	switch {
	case line.Error != "":
		fmt.Fprintf(a.stderr, "%s: %s: %s\n", b.Batch, outcome, line.Error)
	case res != nil && res.Committed:
		fmt.Fprintf(a.stderr, "%s: %s, generation %d, %s, %d rejected, in %s\n", b.Batch, outcome, res.Generation,
			count(res.Rows, "row"), res.Rejected, res.Took.Round(time.Millisecond))
	default:
		fmt.Fprintf(a.stderr, "%s, %s: %s\n", b, humanize.Bytes(uint64(b.Bytes)), outcome)
	}
	return nil
}

// share turns the progress of one batch into a part of a bar of bytes: reading is
// half of the work, and writing the other.
type share struct {
	bar         progress
	bytes, done int64
	reading     int64
}

func (s *share) at(p merger.Progress) {
	if p.Total <= 0 {
		return
	}
	part := s.bytes / 2 * min(p.Done, p.Total) / p.Total
	switch p.Phase {
	case "adopt":
		s.reading = part
	case "write":
		s.reading = s.bytes / 2
		part += s.reading
	default:
		return
	}
	s.to(part)
}

func (s *share) end() { s.to(s.bytes) }

func (s *share) to(bytes int64) {
	if bytes > s.done {
		s.bar.Add(bytes - s.done)
		s.done = bytes
	}
}

// runConverter takes convert jobs until ctx ends.
func runConverter(ctx context.Context, a *app, engine *merger.Engine) error {
	conv := merger.NewConverter(engine, a.convertMax)
	return a.bus.Work(ctx, bus.KindConvert, 1, func(ctx context.Context, j bus.Job) error {
		_, err := conv.Batch(ctx, j.Batch, nil)
		if errors.Is(err, block.ErrDamaged) || errors.Is(err, catalog.ErrDamaged) {
			err = bus.Give(err) // trying again heals nothing
		}
		return err
	})
}
