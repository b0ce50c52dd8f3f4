package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
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
	Lease       time.Duration `default:"3m" help:"How long the annotator's lease lasts; it is renewed before it ends."`
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
	stop := make(chan struct{})
	context.AfterFunc(ctx, func() { close(stop) })
	bar := &annotateBar{app: a, name: c.Dataset + "/" + c.Annotator}
	opts = append(opts, producers.StopWhen(stop), producers.OnProgress(bar.show))
	if c.Follow {
		f, err := c.follower(ctx, a)
		if err != nil {
			return err
		}
		opts = append(opts, producers.Follow(f))
	}
	// An interrupt stops the reading; what is under way is finished and stored.
	work := context.WithoutCancel(ctx)
	res, err := producers.Annotate(work, a.store, a.announcer(ctx), siltstone.NewLocker(a.store, a.log), a.log, c.Dataset, c.Annotator, children.Annotate, opts...)
	closing, cancel := grace(ctx, 5*time.Second)
	defer cancel()
	children.Close(closing)
	bar.done()
	return c.tell(a, res, err)
}

func (c *annotateCmd) options() ([]producers.Option, error) {
	opts := []producers.Option{
		producers.Concurrency(c.Concurrency), producers.ChunkRows(c.ChunkRows), producers.Retry(c.Retry),
		producers.Timeout(c.Timeout), producers.LeaseFor(c.Lease), producers.WaitForLease(c.Wait),
	}
	if c.Concurrency < 1 {
		return nil, fmt.Errorf("--concurrency %d: at least 1 is needed", c.Concurrency)
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
		every, err := parseRate(c.Rate)
		if err != nil {
			return nil, fmt.Errorf("--rate %q: %w", c.Rate, err)
		}
		opts = append(opts, producers.Every(every))
	}
	if c.Budget != "" {
		field, limit, _ := strings.Cut(c.Budget, "=")
		n, err := strconv.ParseFloat(limit, 64)
		if err != nil || field == "" || !(n > 0) || math.IsInf(n, 0) {
			return nil, fmt.Errorf("--budget %q: want FIELD=LIMIT, such as cost_usd=5", c.Budget)
		}
		opts = append(opts, producers.Spend(producers.Budget{Field: field, Limit: n}))
	}
	return opts, nil
}

// parseRate gives the time from one row to the next.
func parseRate(s string) (time.Duration, error) {
	number, unit, _ := strings.Cut(s, "/")
	n, err := strconv.ParseFloat(number, 64)
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "min": time.Minute, "h": time.Hour}[unit]
	if err != nil || per == 0 || !(n > 0) || n > 1e6 {
		return 0, errors.New("want a number of rows and a unit, such as 10/s, 500/m or 2000/h")
	}
	return time.Duration(float64(per) / n), nil
}

// tell says what was done and what was not.
func (c *annotateCmd) tell(a *app, res producers.AnnotateResult, err error) error {
	if a.json && res.Token > 0 {
		if jerr := a.printJSON(res); jerr != nil {
			return jerr
		}
	}
	if res.Token > 0 && !a.json {
		fmt.Fprintf(a.stderr, "%s annotated by %s in %s of %s\n", count(res.Done, "row"), c.Annotator, count(res.Chunks, "chunk"), c.Dataset)
		if c.Budget != "" {
			fmt.Fprintf(a.stderr, "spent: %s\n", strconv.FormatFloat(res.Spent, 'g', 6, 64))
		}
	}
	for _, reason := range byCount(res.Reasons) {
		fmt.Fprintf(a.stderr, "siltstone: %s: %s\n", count(res.Reasons[reason], "row"), reason)
	}
	switch {
	case errors.Is(err, producers.ErrLeaseHeld):
		return exit(exitRefused, fmt.Errorf("%w (--wait waits for it)", err))
	case errors.Is(err, producers.ErrLeaseLost):
		return exit(exitRefused, fmt.Errorf("%w; what was done by then is stored, run it again for the rest", err))
	case errors.Is(err, dataset.ErrNotMerged):
		return fmt.Errorf("%w; `siltstone merge %s` does it", err, c.Dataset)
	case errors.Is(err, producers.ErrOption), errors.Is(err, dataset.ErrFilter):
		return exit(exitUsage, err)
	case err != nil:
		return err
	case res.Stopped == producers.StoppedByBudget:
		fmt.Fprintf(a.stderr, "siltstone: stopped, as the budget is spent; run it again to go on\n")
	case res.Stopped == producers.StoppedByCaller && !c.Follow:
		return exit(exitInterrupted, errors.New("interrupted; what was done is stored, run it again for the rest"))
	}
	if res.Failed > 0 {
		return exit(exitPartial, fmt.Errorf("%s not annotated; the next run tries them again", count(res.Failed, "row")))
	}
	return nil
}

func byCount(reasons map[string]int64) []string {
	var names []string
	for r := range reasons {
		names = append(names, r)
	}
	slices.SortFunc(names, func(x, y string) int {
		if d := reasons[y] - reasons[x]; d != 0 {
			return int(d)
		}
		return strings.Compare(x, y)
	})
	return names
}

// annotateBar shows how far an annotation is.
type annotateBar struct {
	app  *app
	name string
	bar  progress
	at   int64
}

func (b *annotateBar) show(res producers.AnnotateResult) {
	if b.bar == nil {
		b.bar = b.app.progress("annotate "+b.name, res.Total)
	}
	now := res.Done + res.Failed
	b.bar.Add(now - b.at)
	b.at = now
	b.bar.Say(b.say(res))
}

func (b *annotateBar) say(res producers.AnnotateResult) string {
	s := "annotate " + b.name
	if res.Failed > 0 {
		s += fmt.Sprintf(", %d failed", res.Failed)
	}
	if res.Spent > 0 {
		s += fmt.Sprintf(", spent %.4g", res.Spent)
	}
	return s
}

func (b *annotateBar) done() {
	if b.bar != nil {
		b.bar.Done()
	}
}
