package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query"
)

type exportCmd struct {
	Dataset string   `arg:"" help:"Dataset to read."`
	Columns []string `help:"Only these columns; id and _created_at come along, _batch where named." placeholder:"COL,COL"`
	Batch   []string `help:"Only this batch (repeatable)." sep:"none" placeholder:"B"`
	Limit   *int64   `help:"Stop after this many rows." placeholder:"N"`
	Format  string   `help:"ndjson or csv; by the suffix of FILE when not given." enum:",ndjson,csv" default:""`
	Live    bool     `help:"Add the rows that are not merged yet."`
	At      string   `help:"Read each batch as it was: at a time, or at a generation of one batch." placeholder:"TIME|GENERATION"`
	Output  string   `name:"output" short:"o" help:"Write to this file, which appears whole or not at all; .gz compresses." placeholder:"FILE"`
}

// Help shows an example.
func (exportCmd) Help() string {
	return `Writes the merged rows of a dataset in (id, batch) order. As NDJSON and without --columns each
row is its stored line, byte for byte, so that "export | put" is a round trip. --at reads the
past for as long as HISTORY_MAX_AGE keeps replaced blocks; describe --history lists it.

Example:
  siltstone export jargon-file --columns term,text --limit 10
  siltstone export jargon-file --at 2026-11-30T06:00:00Z -o before.ndjson.gz`
}

// exportResult is what export says of itself with --json: on stdout when the
// rows go to a file, otherwise on stderr.
type exportResult struct {
	Dataset string `json:"dataset"`
	Rows    int64  `json:"rows"`
	Live    bool   `json:"live"`
	// LiveRows are the rows that are not merged yet: those among Rows with
	// --live, those left out otherwise.
	LiveRows      int64 `json:"live_rows"`
	LiveRowsExact bool  `json:"live_rows_exact"` // false: at least so many
	// ForeignBatches are left out until a merge adopts the files that another
	// tool has written there.
	ForeignBatches int64 `json:"foreign_batches"`
	Rejected       int64 `json:"rejected"` // lines of live chunks that are no rows
	// At is the moment that was read; AbsentBatches had no record then.
	At            string   `json:"at,omitempty"`
	AbsentBatches []string `json:"absent_batches,omitempty"`
	Format        string   `json:"format"`
	File          string   `json:"file,omitempty"`
	Bytes         int64    `json:"bytes"` // written, before compression
}

// Run writes the rows.
func (c *exportCmd) Run(ctx context.Context, a *app) error {
	if err := c.check(); err != nil {
		return exit(exitUsage, err)
	}
	opts := query.Options{Dataset: c.Dataset, Batches: c.Batch, Live: c.Live, WorkDir: a.workDir}
	if c.At != "" {
		m, err := query.ParseMoment(c.At)
		if err != nil {
			return exit(exitUsage, fmt.Errorf("--at: %w", err))
		}
		opts.At = &m
	}
	res := exportResult{Dataset: c.Dataset, At: c.At, Format: c.format(), Live: c.Live, LiveRowsExact: true, File: c.Output}
	if !c.Live && opts.At == nil {
		// Before the read: what is merged in between is counted, and there.
		out, err := query.LiveRows(ctx, a.store, c.Dataset, c.Batch)
		if err != nil {
			return err
		}
		res.LiveRows, res.LiveRowsExact, res.ForeignBatches = out.Rows, out.Exact, out.Foreign
	}
	dst, err := c.open(a)
	if err != nil {
		return err
	}
	defer dst.discard()
	counted := &countingWriter{w: dst}
	w, err := c.writer(counted, a.workDir)
	if err != nil {
		return err
	}
	defer w.Discard()

	err = c.copy(ctx, a, opts, w, &res)
	if err == nil {
		err = w.Close()
	}
	if res.Bytes = counted.n; err == nil {
		err = dst.commit()
	}
	switch {
	case closedPipe(err) && c.Output == "":
		return nil // whoever reads has enough
	case errors.Is(err, query.ErrMoment):
		return exit(exitUsage, fmt.Errorf("%w (with --batch)", err))
	case errors.Is(err, dataset.ErrNotMerged) && (c.Live || res.LiveRows == 0 && res.LiveRowsExact):
		return fmt.Errorf("%w; `siltstone merge %s` does it", err, c.Dataset)
	case errors.Is(err, dataset.ErrNotMerged):
		return fmt.Errorf("%w: %s %s live; add --live, or `siltstone merge %s` first", err, res.liveRows(), are(res.LiveRows), c.Dataset)
	case err != nil && c.Output != "":
		return fmt.Errorf("%w (%s was not written)", err, c.Output)
	case err != nil:
		return err
	}
	return c.tell(a, res, w.Missing())
}

// check refuses what cannot be meant, before any I/O.
func (c *exportCmd) check() error {
	if c.Output == "-" {
		c.Output = ""
	}
	if err := dataset.CheckDataset(c.Dataset); err != nil {
		return err
	}
	for _, b := range c.Batch {
		if err := dataset.CheckBatch(b); err != nil {
			return err
		}
	}
	switch {
	case c.At != "" && c.Live:
		return errors.New("--at and --live: live rows are those of now")
	case c.Limit != nil && *c.Limit < 0:
		return fmt.Errorf("--limit %d: it must not be negative", *c.Limit)
	case strings.Contains(c.Output, "://"):
		return fmt.Errorf("-o %s: it must be a local file", c.Output)
	case c.Format == "" && c.suffix() == ".parquet":
		return fmt.Errorf("-o %s: export writes ndjson or csv; name one with --format, or use such a suffix", c.Output)
	}
	return nil
}

// suffix is that of the output file, without one of compression.
func (c *exportCmd) suffix() string {
	return strings.ToLower(filepath.Ext(strings.TrimSuffix(strings.ToLower(c.Output), ".gz")))
}

func (c *exportCmd) format() string {
	switch {
	case c.Format != "":
		return c.Format
	case c.suffix() == ".csv":
		return "csv"
	}
	return "ndjson"
}

func (c *exportCmd) open(a *app) (output, error) {
	if c.Output == "" {
		// A reader that has enough closes the pipe. As an error of the write,
		// rather than a signal, that lets spill files be removed.
		signal.Ignore(syscall.SIGPIPE)
		return stream{a.stdout}, nil
	}
	return createOutput(c.Output)
}

func (c *exportCmd) writer(w io.Writer, workDir string) (query.Writer, error) {
	if c.format() == "csv" {
		return query.NewCSV(w, c.Columns, workDir)
	}
	return query.NewNDJSON(w, c.Columns)
}

// copy reads the rows into w.
func (c *exportCmd) copy(ctx context.Context, a *app, opts query.Options, w query.Writer, res *exportResult) error {
	var bar progress = noProgress{}
	none := false
	if c.Limit != nil {
		none = *c.Limit == 0
		opts.Limit = max(*c.Limit, 1) // 0 is a limit here: it reads one row and gives none
	}
	opts.Opened = func(o query.Opened) {
		total := o.Rows
		if c.Limit != nil {
			total = min(total, *c.Limit)
		}
		if o.Chunks > 0 {
			total = -1
		}
		bar = a.progress("export "+c.Dataset, total)
		res.AbsentBatches = o.Absent
	}
	opts.Rejected = func(r query.Rejected) {
		if res.Rejected++; res.Rejected <= 10 {
			a.log.Warn("left out a line that is no row", "key", r.Key, "line", r.Line, "reason", r.Reason)
		}
	}
	defer func() { bar.Done() }()
	for row, err := range query.Rows(ctx, a.store, opts) {
		if err != nil {
			return err
		}
		if none {
			break
		}
		if err := w.Write(row); err != nil {
			return err
		}
		res.Rows++
		if row.Live {
			res.LiveRows++
		}
		bar.Add(1)
	}
	return nil
}

// tell says what was written and what was not.
func (c *exportCmd) tell(a *app, res exportResult, missing []string) error {
	for _, name := range missing {
		if res.Rows > 0 {
			fmt.Fprintf(a.stderr, "siltstone: no exported row has a column %q\n", name)
		}
	}
	if res.Rejected > 0 {
		fmt.Fprintf(a.stderr, "siltstone: left out %s of live chunks that could not be read as rows\n", count(res.Rejected, "line"))
	}
	if a.json {
		w := *a
		if c.Output == "" {
			w.stdout = a.stderr // stdout is the data's
		}
		return w.printJSON(res)
	}
	if n := len(res.AbsentBatches); n > 0 {
		fmt.Fprintf(a.stderr, "siltstone: %s had no rows merged at %s: %s\n", count(n, "batch"), c.At, few(res.AbsentBatches))
	}
	if !c.Live && (res.LiveRows > 0 || !res.LiveRowsExact) {
		fmt.Fprintf(a.stderr, "siltstone: %s not merged yet and left out; --live adds them\n", res.liveRows())
	}
	if res.ForeignBatches > 0 {
		fmt.Fprintf(a.stderr, "siltstone: %s of another tool not adopted yet and left out; `siltstone merge %s` does it\n", count(res.ForeignBatches, "batch"), c.Dataset)
	}
	if c.Output != "" {
		fmt.Fprintf(a.stderr, "%s in %s\n", count(res.Rows, "row"), c.Output)
	}
	return nil
}

// liveRows counts them for people.
func (r exportResult) liveRows() string {
	if r.LiveRowsExact {
		return count(r.LiveRows, "row")
	}
	return "at least " + count(r.LiveRows, "row")
}

// closedPipe reports that whoever read the output is gone.
func closedPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}

// countingWriter counts what goes through it.
type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
