package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query"
)

type exportCmd struct {
	Dataset    string   `arg:"" help:"Dataset to read."`
	Columns    []string `help:"Only these columns; id and _created_at come along, _batch where named, and those of a layer are called A.field." placeholder:"COL,COL"`
	Annotators []string `help:"Lay these layers beside the rows, as columns named A.field." placeholder:"A,A"`
	Where      string   `help:"Only rows of which this is true: a filter in JSON, or a DuckDB expression." placeholder:"EXPR"`
	Sort       []string `help:"In the order of these columns in place of ids." placeholder:"COL[:desc],COL"`
	Batch      []string `help:"Only this batch (repeatable)." sep:"none" placeholder:"B"`
	Limit      *int64   `help:"Stop after this many rows." placeholder:"N"`
	Format     string   `help:"ndjson, csv or parquet; by the suffix of FILE when not given." enum:",ndjson,csv,parquet" default:""`
	Live       bool     `help:"Add the rows and annotations that are not merged yet."`
	At         string   `help:"Read each batch as it was: at a time, or at a generation of one batch." placeholder:"TIME|GENERATION"`
	Output     string   `name:"output" short:"o" help:"Write to this file or object, which appears whole or not at all; .gz compresses." placeholder:"FILE|s3://BUCKET/KEY"`
	Overwrite  bool     `help:"Replace an object that is there already; a file is replaced in any case."`
	Resume     bool     `help:"Keep what is done when the export dies, in FILE.partial and FILE.resume, and go on there."`
	NoManifest bool     `help:"Write no FILE.manifest.json and FILE.sha256 beside FILE."`
}

// Help shows an example.
func (exportCmd) Help() string {
	return `Writes the merged rows of a dataset in (id, batch) order. As NDJSON and without --columns each
row is its stored line, byte for byte, so that "export | put" is a round trip; --annotators adds
columns to it. --at reads the past for as long as HISTORY_MAX_AGE keeps replaced blocks;
describe --history lists it. A parquet file has a column for each name, of the type that all its
values have; where they have none in common it is JSON text, so that no value is changed.

Example:
  siltstone export jargon-file --columns term,text --limit 10
  siltstone export pages --annotators topic --where '{"layer":"topic","column":"score","op":"gt","value":0.5}' --sort topic.score:desc -o top.csv
  siltstone export pages --annotators topic -o pages.parquet
  siltstone export jargon-file --at 2026-11-30T06:00:00Z -o s3://archive/before.ndjson.gz`
}

// Run writes the rows.
func (c *exportCmd) Run(ctx context.Context, a *app) error {
	opts, err := c.options(a)
	if err != nil {
		return exit(exitUsage, err)
	}
	e := &exporting{exportCmd: c, app: a, opts: opts}
	e.res = exportResult{Dataset: c.Dataset, At: c.At, Format: c.format(), Live: c.Live, File: c.Output}
	e.res.LiveRowsExact, e.res.LiveAnnotationsExact = true, true
	if err := e.run(ctx); err != nil {
		if closedPipe(err) && c.Output == "" {
			return nil // whoever reads has enough
		}
		return e.explain(err)
	}
	return e.res.tell(a)
}

// exporting is one run of the command.
type exporting struct {
	*exportCmd
	app  *app
	opts query.Options
	res  exportResult

	opened  query.Opened
	moved   map[string][]query.Pin
	unknown []string
	enc     *encoded
	w       query.Writer
	partial *partial // of an export that can be resumed
	last    query.Cursor
	since   int64 // bytes of rows since the last stretch ended
}

func (e *exporting) run(ctx context.Context) error {
	if err := query.CheckLayers(ctx, e.app.store, e.Dataset, e.Annotators, e.named()); err != nil {
		return err
	}
	dst, err := e.open(ctx)
	if err != nil {
		return err
	}
	defer dst.discard()
	if e.partial == nil || !e.partial.begun {
		if err := e.countLeftOut(ctx); err != nil {
			return err
		}
	}
	e.enc = newEncoded(dst, e.zipped())
	if e.partial != nil {
		if err := e.resume(ctx); err != nil || e.partial.state.Done != nil {
			return err
		}
	}
	if e.w, err = e.writer(e.enc); err != nil {
		return err
	}
	defer e.w.Discard()
	if err := e.muted(); err != nil {
		return err
	}
	if err := e.copy(ctx); err != nil {
		return err
	}
	if err := e.w.Close(); err != nil {
		return err
	}
	return e.finish(dst)
}

// countLeftOut comes before the read: what is merged in between is counted, and
// there.
func (e *exporting) countLeftOut(ctx context.Context) error {
	if e.Live || e.opts.At != nil {
		return nil
	}
	rows, layers, err := query.LeftOutBy(ctx, e.app.store, e.opts)
	if err != nil {
		return err
	}
	e.res.LeftOut = leftOutOf(rows, layers)
	return nil
}

// named are the columns that the flags name.
func (e *exporting) named() []string {
	names := slices.Clone(e.Columns)
	for _, by := range e.opts.Sort {
		names = append(names, by.Column)
	}
	return names
}

func (e *exporting) open(ctx context.Context) (output, error) {
	switch {
	case e.Output == "":
		// A reader that has enough closes the pipe. As an error of the write,
		// rather than a signal, that lets spill files be removed.
		signal.Ignore(syscall.SIGPIPE)
		return stream{e.app.stdout}, nil
	case strings.HasPrefix(e.Output, s3Scheme):
		return createObject(ctx, e.app, e.Output, e.Overwrite)
	}
	if !e.Resume {
		return createOutput(e.Output)
	}
	p, err := openPartial(e.Output)
	if err != nil {
		return nil, err
	}
	e.partial = p
	return p, nil
}

func (e *exporting) writer(w io.Writer) (query.Writer, error) {
	switch e.format() {
	case "csv":
		return query.NewCSV(w, e.Columns, e.app.workDir, e.Annotators...)
	case "parquet":
		return query.NewParquet(w, e.Columns, e.app.workDir, e.Annotators...)
	}
	return query.NewNDJSON(w, e.Columns, e.Annotators...)
}

// copy reads the rows into the writer.
func (e *exporting) copy(ctx context.Context) error {
	var bar progress = noProgress{}
	defer func() { bar.Done() }()
	opts := e.opts
	var scanned atomic.Int64
	shown := int64(0)
	opts.Scanned = &scanned
	none := e.Limit != nil && *e.Limit == 0
	if e.Limit != nil {
		opts.Limit = max(*e.Limit, 1) // 0 is a limit here: it reads one row and gives none
	}
	skip := int64(0)
	if p := e.partial; p != nil {
		opts.At, opts.Pins, opts.After = nil, &p.state.Pins, p.state.After
		e.res.Rows = p.state.Rows
		switch {
		case len(opts.Sort) > 0:
			skip = p.state.Rows // they come in the same order again
		case e.Limit != nil && p.state.Rows > 0:
			if opts.Limit -= p.state.Rows; opts.Limit == 0 {
				return nil
			}
		}
	}
	opts.Opened = func(o query.Opened) {
		e.opened = o
		e.res.AbsentBatches = o.Absent
		if e.partial != nil {
			e.res.AbsentBatches = e.partial.state.Pins.Absent
		}
		bar = e.app.progress("export "+e.Dataset, e.total(o))
	}
	opts.Moved = func(annotator string, now query.Pin) {
		if e.moved == nil {
			e.moved = map[string][]query.Pin{}
		}
		key := strings.TrimPrefix(annotator+"/"+now.Batch, "/")
		e.moved[key] = append(e.moved[key], now)
	}
	opts.Unknown = func(names []string) { e.unknown = names }
	opts.Rejected = func(r query.Rejected) {
		if e.res.Rejected++; e.res.Rejected <= 10 {
			e.app.log.Warn("left out a line that is no row", "key", r.Key, "line", r.Line, "reason", r.Reason)
		}
	}
	for row, err := range query.Rows(ctx, e.app.store, opts) {
		if err != nil {
			return err
		}
		if none {
			break
		}
		if skip > 0 {
			skip--
			continue
		}
		e.last = query.Cursor{ID: row.ID, Batch: row.Batch}
		if err := e.w.Write(row); err != nil {
			return err
		}
		e.since += int64(len(row.Raw)) + 1
		e.res.Rows++
		if row.Live {
			e.res.LiveRows++
		}
		now := scanned.Load()
		bar.Add(now - shown)
		shown = now
		if err := e.stretch(); err != nil {
			return err
		}
	}
	return nil
}

// total is how many rows are going to be looked at, -1 where nobody knows.
func (e *exporting) total(o query.Opened) int64 {
	switch {
	case o.Chunks > 0:
		return -1
	case e.Limit != nil && e.opts.Where == nil && e.opts.Sort == nil:
		return min(o.Rows, *e.Limit)
	}
	return o.Rows
}

// stretchBytes of rows are a stretch of the output; tests have shorter ones.
var stretchBytes int64 = 32 << 20

// flusher is a writer whose rows can be followed by the end of a stretch.
type flusher interface{ Flush() error }

// stretch ends a stretch that is long enough.
func (e *exporting) stretch() error {
	if e.since < stretchBytes {
		return nil
	}
	e.since = 0
	f, ok := e.w.(flusher)
	if !ok {
		return nil
	}
	if err := f.Flush(); err != nil {
		return err
	}
	if err := e.enc.cut(); err != nil || e.partial == nil {
		return err
	}
	return e.partial.save(e.state())
}

// finish makes the output final, and writes what lies beside it.
func (e *exporting) finish(dst output) error {
	if err := e.enc.cut(); err != nil {
		return err
	}
	e.res.Bytes = e.enc.raw
	if e.res.Rows > 0 {
		e.res.MissingColumns = e.soFar(e.w.Missing(), func(s resumeState) []string { return s.Missing })
	}
	e.res.UnknownColumns = e.soFar(e.unknown, func(s resumeState) []string { return s.Unknown })
	beside, ok := dst.(companions)
	if !ok || e.Output == "" {
		return dst.commit()
	}
	e.res.FileBytes, e.res.SHA256 = e.enc.bytes, e.enc.sha256()
	m, err := e.manifest()
	if err != nil {
		return err
	}
	if e.partial != nil {
		s := e.state()
		s.Done, s.Unknown, s.Missing = &m, e.res.UnknownColumns, e.res.MissingColumns
		if err := e.partial.save(s); err != nil {
			return err
		}
	}
	return e.settle(dst, beside, m)
}

// settle gives a whole output its name, and what lies beside it.
func (e *exporting) settle(dst output, beside companions, m exportManifest) error {
	for _, suffix := range []string{manifestSuffix, sumSuffix} {
		if e.NoManifest {
			break
		}
		if err := beside.without(suffix); err != nil {
			return err
		}
	}
	if err := dst.commit(); err != nil {
		return err
	}
	if !e.NoManifest {
		e.res.Manifest = e.Output + manifestSuffix
		if err := m.put(beside); err != nil {
			return &writtenError{err}
		}
		exportStep("manifest")
	}
	if e.partial != nil {
		return e.partial.forget()
	}
	return nil
}

// writtenError says what went wrong after the output was there.
type writtenError struct{ error }

func (e *writtenError) Unwrap() error { return e.error }

func (e *exporting) manifest() (exportManifest, error) {
	m := exportManifest{
		Version: exportManifestVersion, File: filepath.Base(e.Output), Format: e.format(),
		Bytes: e.res.FileBytes, SHA256: e.res.SHA256, Rows: e.res.Rows, Columns: e.w.FileColumns(),
		Dataset: e.Dataset, Pins: e.opened.Pins, Moved: e.moved, At: e.At, Annotators: e.Annotators,
		Sort: e.opts.Sort, Limit: e.Limit, Live: e.Live, LeftOut: e.res.LeftOut,
		WrittenAt: time.Now().UTC().Truncate(time.Millisecond),
	}
	if e.zipped() {
		m.Compression = "gzip"
	}
	if e.partial != nil {
		m.Pins = e.partial.state.Pins
	}
	req, err := e.request()
	m.Where = req.Where
	return m, err
}

// explain says what to do about an error.
func (e *exporting) explain(err error) error {
	var written *writtenError
	var coded *exitError
	switch {
	case errors.As(err, &coded):
		return err
	case errors.As(err, &written):
		return fmt.Errorf("%w (%s is whole; what lies beside it is not)", err, e.Output)
	case errors.Is(err, errResume):
		return err
	case errors.Is(err, query.ErrNotKept) && e.partial != nil && e.partial.begun:
		return fmt.Errorf("%w: %w; %s", errResume, err, e.partial.anew())
	case errors.Is(err, query.ErrMoment):
		return exit(exitUsage, fmt.Errorf("%w (with --batch)", err))
	case errors.Is(err, query.ErrLayer):
		return exit(exitUsage, fmt.Errorf("%w, with --annotators", err))
	case errors.Is(err, dataset.ErrFilter):
		return exit(exitUsage, fmt.Errorf("--where: %w", err))
	case errors.Is(err, dataset.ErrNotMerged) && (e.Live || e.res.LiveRows == 0 && e.res.LiveRowsExact):
		return fmt.Errorf("%w; `siltstone merge %s` does it", err, e.Dataset)
	case errors.Is(err, dataset.ErrNotMerged):
		return fmt.Errorf("%w: %s %s live; add --live, or `siltstone merge %s` first", err, e.res.rows(), are(e.res.LiveRows), e.Dataset)
	case e.partial != nil && e.partial.begun:
		return fmt.Errorf("%w (%s kept in %s; the same command goes on there)", err, count(e.partial.state.Rows, "row"), e.Output+partialSuffix)
	case e.Output != "":
		return fmt.Errorf("%w (%s was not written)", err, e.Output)
	}
	return err
}

// closedPipe reports that whoever read the output is gone.
func closedPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}
