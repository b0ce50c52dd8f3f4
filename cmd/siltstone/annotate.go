package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/siltstone-data/siltstone"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/producers"
)

type annotateCmd struct {
	Dataset     string        `arg:"" help:"Dataset to annotate."`
	Command     []string      `arg:"" passthrough:"partial" name:"cmd" help:"Command to annotate with, behind --."`
	Annotator   string        `required:"" placeholder:"A" help:"Name of the layer."`
	Columns     []string      `help:"Give the command only these columns; those of a layer are called A.field." placeholder:"COL,COL"`
	Where       string        `help:"Only rows of which this is true: a filter in JSON, or a DuckDB expression." placeholder:"EXPR"`
	Batch       []string      `help:"Only this batch (repeatable)." sep:"none" placeholder:"B"`
	Concurrency int           `default:"16" help:"Processes, each with one row at a time."`
	ChunkRows   int           `default:"100" help:"Annotations that are stored together; a crash loses at most so many, and those under way."`
	Retry       int           `help:"Try a row that failed so many times more, at once." placeholder:"N"`
	Timeout     time.Duration `help:"Kill a process that takes longer for a row." placeholder:"90s"`
	Rate        string        `help:"Begin at most so many rows in a second, minute or hour." placeholder:"10/s"`
	Budget      string        `help:"Stop when the sum of a number in the metadata has passed a limit." placeholder:"cost_usd=5"`
	Lease       time.Duration `default:"2m" help:"How long the annotator's lease lasts; it is renewed before it ends."`
	Wait        time.Duration `help:"Wait so long while another annotates under that name." placeholder:"10m"`
	Follow      bool          `help:"Stay, and take new rows as their batches merge."`
}

// Help shows an example.
func (annotateCmd) Help() string {
	return `Runs the command as a filter, several processes at a time. Each gets one JSON line for a row,
{"id":"…","batch":"…","data":{…}}, and answers with one before it gets the next:
{"data":{…},"metadata":{…}} or {"error":"…"}. Rows that are annotated are skipped; rows that fail
are counted, and tried again by the next run (exit code 4).

Example:
  siltstone annotate jargon-file --annotator words --columns text -- python3 words.py
  siltstone annotate pages --annotator topic --where '{"column":"lang","op":"eq","value":"en"}' --budget cost_usd=5 -- ./ask-llm`
}

// Run annotates rows.
func (c *annotateCmd) Run(ctx context.Context, a *app) error {
	argv := c.Command
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	}
	opts, err := c.options()
	if err != nil {
		return exit(exitUsage, err)
	}
	children, err := producers.NewChildren(argv, c.Concurrency, a.stderr)
	if err != nil {
		return exit(exitUsage, err)
	}
	bar := &annotateBar{app: a, name: c.Dataset + "/" + c.Annotator}
	opts = append(opts, producers.DrainWhen(ctx), producers.OnProgress(bar.show), producers.SQL(a.sql))
	if c.Follow {
		b, err := a.connect(ctx)
		if err != nil {
			return fmt.Errorf("--follow: %w", err)
		}
		opts = append(opts, producers.Follow(b))
	}
	locker, err := siltstone.OpenLocker(a.Config, a.store, a.log)
	if err != nil {
		return exit(exitUsage, err)
	}
	// An interrupt only stops the reading: what is under way is finished and stored.
	res, err := producers.AnnotateWith(context.WithoutCancel(ctx), a.store, a.announcer(ctx), locker, a.log, c.Dataset, c.Annotator, children.Worker, opts...)
	bar.done()
	return c.tell(a, res, err)
}

func (c *annotateCmd) options() ([]producers.AnnotateOption, error) {
	opts := []producers.AnnotateOption{
		producers.Concurrency(c.Concurrency), producers.ChunkRows(c.ChunkRows), producers.Retry(c.Retry),
		producers.Timeout(c.Timeout), producers.LeaseTTL(c.Lease), producers.LeaseWait(c.Wait),
	}
	if c.Columns != nil {
		opts = append(opts, producers.Columns(c.Columns...))
	}
	for _, b := range c.Batch {
		if err := dataset.CheckBatch(b); err != nil {
			return nil, err
		}
	}
	if c.Batch != nil {
		opts = append(opts, producers.Batches(c.Batch...))
	}
	if c.Where != "" {
		f, err := dataset.ParseExpr(c.Where)
		if err != nil {
			return nil, fmt.Errorf("--where: %w", err)
		}
		opts = append(opts, producers.Where(f))
	}
	if c.Rate != "" {
		rate, err := producers.ParseRate(c.Rate)
		if err != nil {
			return nil, fmt.Errorf("--rate: %w", err)
		}
		opts = append(opts, producers.AtRate(rate))
	}
	if c.Budget != "" {
		limit, err := producers.ParseLimit(c.Budget)
		if err != nil {
			return nil, fmt.Errorf("--budget: %w", err)
		}
		opts = append(opts, producers.Budget(limit))
	}
	return opts, nil
}

// tell says what was done and what was not.
func (c *annotateCmd) tell(a *app, res producers.AnnotateResult, err error) error {
	began := err == nil || res.Calls > 0
	switch {
	case !began:
	case a.json:
		if jerr := a.printJSON(res); jerr != nil {
			return jerr
		}
	default:
		fmt.Fprintf(a.stderr, "%s annotated by %s in %s of %s\n", count(res.Rows, "row"), c.Annotator, count(int64(res.Chunks), "chunk"), c.Dataset)
		if res.Spent != nil {
			fmt.Fprintf(a.stderr, "spent: %s\n", strconv.FormatFloat(*res.Spent, 'g', 6, 64))
		}
	}
	for _, r := range res.Reasons {
		fmt.Fprintf(a.stderr, "siltstone: %s not annotated (%s), first %s of %s: %s\n", count(r.Rows, "row"), r.Kind, r.ID, r.Batch, r.Text)
	}
	for _, name := range res.Unknown {
		fmt.Fprintf(a.stderr, "siltstone: no row has a column %q; a filter takes it for null\n", name)
	}
	if res.Unstored > 0 {
		fmt.Fprintf(a.stderr, "siltstone: %s done but not known to be stored; the next run does them again\n", count(res.Unstored, "annotation"))
	}
	switch {
	case errors.Is(err, producers.ErrLeaseHeld):
		return exit(exitRefused, fmt.Errorf("%w (--wait waits for it)", err))
	case errors.Is(err, producers.ErrLeaseLost):
		return exit(exitRefused, fmt.Errorf("%w; what is stored counts, run it again for the rest", err))
	case errors.Is(err, dataset.ErrNotMerged):
		return fmt.Errorf("%w; `siltstone merge %s` does it", err, c.Dataset)
	case errors.Is(err, producers.ErrOption), errors.Is(err, dataset.ErrFilter), errors.Is(err, dataset.ErrName):
		return exit(exitUsage, err)
	case err != nil:
		return err
	case res.Stopped == producers.StoppedByBudget:
		fmt.Fprintf(a.stderr, "siltstone: stopped, as the budget is spent; run it again to go on\n")
	case res.Stopped == producers.StoppedByInterrupt && !c.Follow:
		return exit(exitInterrupted, errors.New("interrupted; what was done is stored, run it again for the rest"))
	}
	if res.Failed > 0 {
		return exit(exitPartial, fmt.Errorf("%s not annotated; the next run tries them again", count(res.Failed, "row")))
	}
	return nil
}

// annotateBar shows how far an annotation is.
type annotateBar struct {
	app  *app
	name string
	bar  progress
	at   int64
}

func (b *annotateBar) show(p producers.Progress) {
	now := p.Done + p.Failed
	if b.bar == nil {
		total := int64(-1)
		if p.Left >= 0 {
			total = now + p.Left
		}
		b.bar = b.app.progress("annotate "+b.name, total)
	}
	b.bar.Add(now - b.at)
	b.at = now
	b.bar.Say(b.say(p))
}

func (b *annotateBar) say(p producers.Progress) string {
	s := "annotate " + b.name
	if p.Failed > 0 {
		s += fmt.Sprintf(", %d failed", p.Failed)
	}
	if p.Spent > 0 {
		s += fmt.Sprintf(", spent %.4g", p.Spent)
	}
	if p.TimeLeft > 0 {
		s += fmt.Sprintf(", %s left", p.TimeLeft.Round(time.Second))
	}
	if p.Following {
		s += ", waiting for merges"
	}
	return s
}

func (b *annotateBar) done() {
	if b.bar != nil {
		b.bar.Done()
	}
}
