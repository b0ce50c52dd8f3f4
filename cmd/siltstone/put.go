package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/producers"
)

type putCmd struct {
	Dataset   string   `arg:"" help:"Dataset to write to."`
	Files     []string `arg:"" optional:"" name:"file" help:"Files of rows; - is stdin, the default. gzip and zstd are opened."`
	Batch     string   `required:"" placeholder:"B" help:"Batch to write to."`
	Dedup     *string  `placeholder:"COL,COL" help:"Rows that agree on these columns are duplicates; empty (--dedup=) ends deduplication for the batch. A JSON list takes any name."`
	ChunkRows int      `default:"100" help:"Rows in a chunk."`
	Format    string   `enum:",ndjson,csv,parquet" default:"" placeholder:"FORMAT" help:"ndjson, csv or parquet; told by content and name when left out."`
	Strict    bool     `help:"Stop at the first bad line."`
}

// Help shows an example.
func (putCmd) Help() string {
	return `A row is written once its chunk is stored. A bad line is reported, counted and kept out (exit code 4).

Example:
  siltstone put jargon-file --batch 2026-06 --dedup term,text rows.jsonl.gz more.csv
  some-crawler | siltstone put pages --batch today`
}

const (
	badLinesShown = 20               // the others are only counted
	putGrace      = 30 * time.Second // to store what was read, after an interrupt
)

// put is one run of the command.
type put struct {
	cmd      *putCmd
	app      *app
	w        *producers.Writer
	bar      progress
	unseen   []string // columns of --dedup that no row has had yet
	rejected int64
	unread   int              // files that could not be read to their end
	in       *producers.Input // of the last row that was written
	last     producers.Line
}

// errBadLine stops a strict run.
var errBadLine = errors.New("bad line")

// Run stores the rows of all files in one run.
func (c *putCmd) Run(ctx context.Context, a *app) error {
	opts, dedup, total, err := c.check()
	if err != nil {
		return exit(exitUsage, err)
	}
	w, err := producers.Open(ctx, a.store, a.announcer(ctx), a.log, c.Dataset, c.Batch, opts...)
	if errors.Is(err, producers.ErrOption) {
		return exit(exitUsage, err)
	}
	if err != nil {
		return err
	}
	p := &put{cmd: c, app: a, w: w, bar: a.progress("put", total), unseen: dedup}
	err = p.files(ctx)
	closing, stop := grace(ctx, putGrace)
	defer stop()
	res, closeErr := w.Close(closing)
	p.bar.Done()
	res.Rejected = p.rejected
	p.report(res)
	if a.json {
		if err := a.printJSON(res); err != nil {
			return err
		}
	}
	return p.outcome(ctx, res, err, closeErr)
}

// check refuses what cannot work before anything is written.
func (c *putCmd) check() (opts []producers.Option, dedup []string, total int64, err error) {
	if err := (dataset.BatchID{Dataset: c.Dataset, Batch: c.Batch}).Check(); err != nil {
		return nil, nil, 0, err
	}
	if c.ChunkRows < 1 {
		return nil, nil, 0, fmt.Errorf("--chunk-rows %d: at least 1 is needed", c.ChunkRows)
	}
	opts = append(opts, producers.ChunkRows(c.ChunkRows))
	if c.Dedup != nil {
		if dedup, err = columnList(*c.Dedup); err != nil {
			return nil, nil, 0, fmt.Errorf("--dedup: %w", err)
		}
		opts = append(opts, producers.DeduplicateOn(dedup...))
	}
	if len(c.Files) == 0 {
		c.Files = []string{producers.Stdin}
	}
	stdins, known := 0, true
	for _, f := range c.Files {
		size, err := producers.StatInput(f)
		if err != nil {
			return nil, nil, 0, err
		}
		if f == producers.Stdin {
			stdins++
		}
		total += size
		known = known && size >= 0
	}
	if stdins > 1 {
		return nil, nil, 0, errors.New("stdin (-) can be read once")
	}
	if !known {
		total = -1
	}
	return opts, dedup, total, nil
}

// columnList reads names with commas between them, or a JSON list of names. The
// empty string is the empty list.
func columnList(s string) ([]string, error) {
	if s == "" {
		return []string{}, nil
	}
	columns := []string{}
	if strings.HasPrefix(s, "[") {
		var list []*string
		if err := json.Unmarshal([]byte(s), &list); err != nil {
			return nil, fmt.Errorf("%s is no JSON list of column names: %w", s, err)
		}
		for _, name := range list {
			if name == nil {
				return nil, fmt.Errorf("%s is no JSON list of column names: null names no column", s)
			}
			columns = append(columns, *name)
		}
		return columns, nil
	}
	for name := range strings.SplitSeq(s, ",") {
		if name = strings.TrimSpace(name); name == "" {
			return nil, fmt.Errorf("%q has an empty column name (a JSON list takes any name)", s)
		}
		columns = append(columns, name)
	}
	return columns, nil
}

// files reads all files. A file that cannot be read does not keep the others
// out.
func (p *put) files(ctx context.Context) error {
	for _, name := range p.cmd.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.file(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (p *put) file(ctx context.Context, name string) error {
	in, err := producers.OpenInput(ctx, name, producers.InputConfig{
		Format: producers.Format(p.cmd.Format), Stdin: p.app.stdin, TempDir: p.app.workDir, Read: p.bar.Add,
	})
	if err != nil {
		return p.giveUp(ctx, err)
	}
	defer in.Close()
	for line, err := range in.Lines() {
		if err != nil {
			return p.giveUp(ctx, err)
		}
		reject := line.Reject
		if reject == "" {
			if err = p.w.WriteLine(ctx, line); err == nil {
				p.in, p.last = in, line
				p.see(line.Raw)
				continue
			}
			if !errors.Is(err, producers.ErrRejected) {
				return err
			}
			reject = strings.TrimPrefix(err.Error(), producers.ErrRejected.Error()+": ")
		}
		p.rejected++
		if p.cmd.Strict {
			return fmt.Errorf("%w: %s: %s", errBadLine, in.Where(line), reject)
		}
		if p.rejected <= badLinesShown {
			fmt.Fprintf(p.app.stderr, "%s: %s\n", in.Where(line), reject)
		}
		if hint := notJSON(in, line); hint != "" {
			fmt.Fprintf(p.app.stderr, "siltstone: %s\n", hint)
		}
	}
	return nil
}

// notJSON says what to do about a file whose first line is that of a table: all
// others will be bad too.
func notJSON(in *producers.Input, line producers.Line) string {
	text := bytes.TrimSpace(line.Raw)
	switch {
	case in.Format() != producers.NDJSON || line.Number != 1 || len(text) == 0 || strings.IndexByte("{[\"}]", text[0]) >= 0:
		return ""
	case bytes.IndexByte(text, '\t') >= 0, bytes.IndexByte(text, ';') >= 0:
		return "this looks like a table with tabs or semicolons; CSV with commas can be read (--format csv)"
	case bytes.IndexByte(text, ',') >= 0:
		return "this looks like CSV: did you mean --format csv?"
	}
	return ""
}

// see looks in a stored row for the columns of --dedup that none has had.
func (p *put) see(raw []byte) {
	if len(p.unseen) == 0 {
		return
	}
	row := dataset.Row{Raw: raw}
	p.unseen = slices.DeleteFunc(slices.Clone(p.unseen), func(name string) bool {
		_, ok := row.Column(name)
		return ok || name == dataset.IDColumn || name == dataset.CreatedAtColumn // every row gets them
	})
}

// giveUp notes that the rest of a file cannot be read.
func (p *put) giveUp(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.unread++
	fmt.Fprintln(p.app.stderr, "siltstone:", err)
	return nil
}

// report tells people what is stored.
func (p *put) report(res producers.Result) {
	if more := p.rejected - badLinesShown; more > 0 && !p.cmd.Strict {
		fmt.Fprintf(p.app.stderr, "… and %s\n", count(more, "more bad line"))
	}
	if res.Rows > 0 {
		for _, name := range p.unseen {
			fmt.Fprintf(p.app.stderr, "siltstone: --dedup: none of these rows has a column %q, so all of them agree on it\n", name)
		}
	}
	if !p.app.json {
		fmt.Fprintf(p.app.stderr, "%s/%s: %s stored in %s (%s) by run %s\n",
			res.Dataset, res.Batch, count(res.Rows, "row"), count(res.Chunks, "chunk"), count(res.Bytes, "byte"), res.Run)
	}
}

// outcome picks the error that says most, and the exit code.
func (p *put) outcome(ctx context.Context, res producers.Result, err, closeErr error) error {
	stored := fmt.Sprintf("%s %s stored", count(res.Rows, "row"), are(res.Rows))
	switch {
	case closeErr != nil:
		return closeErr // after an error of Write it is the same, with the final numbers
	case errors.Is(err, errBadLine):
		return exit(exitFailed, fmt.Errorf("%w; --strict stops here, %s", err, stored))
	case err != nil && ctx.Err() != nil:
		upTo := "nothing of the input was read"
		if p.in != nil {
			upTo = "the input was read up to " + p.in.Where(p.last)
		}
		return exit(exitInterrupted, fmt.Errorf("interrupted: %s, %s", stored, upTo))
	case err != nil:
		return err
	case p.unread > 0:
		return exit(exitFailed, fmt.Errorf("%d of %s could not be read to the end; %s", p.unread, count(len(p.cmd.Files), "input"), stored))
	case p.rejected > 0:
		return exit(exitPartial, fmt.Errorf("kept out %s; %s", count(p.rejected, "bad line"), stored))
	}
	return nil
}

// grace is a context that ends d after ctx does.
func grace(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.AfterFunc(d, cancel)
		context.AfterFunc(longer, func() { t.Stop() })
	})
	return longer, func() { stop(); cancel() }
}
