// Command siltstone creates, merges, exports and shows text-heavy datasets on
// S3: one binary, one file per command.
//
//	        settings ── flags, environment, .env, DIR/env
//	           │
//	main ──> app ──> store (S3), bus (NATS)
//	           │
//	           ├── up          everything below in one process, with its own NATS and S3
//	           ├── serve       one role as a service: roles.go joins rooms to store and bus
//	           └── put, export, ls, …   one job, then an exit code
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"syscall"

	"github.com/alecthomas/kong"
)

// The exit codes of every command; 0 is done.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitRefused = 3
	exitPartial = 4 // done, but some rows were rejected or failed

	exitInterrupted = 130 // what shells make of an interrupted command
)

// cli is the command line: global flags and one field per command.
type cli struct {
	Dir  string `help:"Folder of 'siltstone up'; other commands read DIR/env when no environment names a store." default:".siltstone" placeholder:"DIR"`
	JSON bool   `name:"json" help:"Print a machine-readable result."`

	Up       upCmd       `cmd:"" help:"Run everything in one process: NATS, S3, merger and consumers."`
	Put      putCmd      `cmd:"" help:"Store rows of files or stdin in a batch."`
	Annotate annotateCmd `cmd:"" help:"Run a command over the rows that have no annotation of a name, and store what it says."`
	Export   exportCmd   `cmd:"" help:"Write the rows of a dataset in id order."`
	Ls       lsCmd       `cmd:"" help:"List datasets, or the batches of one."`
	Describe describeCmd `cmd:"" help:"Show what is known of a dataset: batches, runs, deduplication."`
	Merge    mergeCmd    `cmd:"" help:"Merge the live chunks of a dataset or batch now, in this process."`
	Convert  convertCmd  `cmd:"" help:"Bring parquet files of older tools into blocks of JSON lines."`
	Gc       gcCmd       `cmd:"" name:"gc" help:"Delete what no commit record can name again."`
	Verify   verifyCmd   `cmd:"" help:"Read everything back and check it against the commit records."`
	Events   eventsCmd   `cmd:"" help:"Print the domain events as NDJSON."`
	Topology topologyCmd `cmd:"" help:"Create or update streams, durables and key-value buckets."`
	Lock     lockCmd     `cmd:"" help:"List, show and release leases: who works on what until when."`
	Serve    serveCmd    `cmd:"" help:"Run one role as a service."`
	Bench    benchCmd    `cmd:"" help:"Measure a running viewer."`
	Doctor   doctorCmd   `cmd:"" help:"Check the store, its conditional writes and notifications, NATS, clock and disk."`
	Version  versionCmd  `cmd:"" help:"Print the version."`
}

// exitError carries the exit code of a command that did not simply succeed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// exit gives err the exit code with which the process is to end.
func exit(code int, err error) error { return &exitError{code, err} }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is main without the process: it parses, opens what the command needs,
// runs it and gives the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var c cli
	exited := -1
	parser, err := kong.New(&c,
		kong.Name("siltstone"),
		kong.Description("Text-heavy datasets on S3: rows in, merged by events, out again exactly."),
		kong.Writers(stdout, stderr),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
		kong.Exit(func(code int) { exited = code }),
		kong.KindMapper(reflect.String, kong.MapperFunc(verbatim)),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	if err != nil {
		fmt.Fprintln(stderr, "siltstone:", err)
		return exitFailed
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	cmd, err := parser.Parse(args)
	if exited >= 0 { // --help
		return exited
	}
	if err != nil {
		fmt.Fprintf(stderr, "siltstone: %v (see siltstone --help)\n", err)
		return exitUsage
	}
	a, err := newApp(c, cmd.Selected().Name, stdin, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "siltstone:", err)
		return exitUsage
	}
	defer a.close()
	err = a.explain(cmd.Run(ctx, a))
	var coded *exitError
	if err != nil && ctx.Err() != nil && !errors.As(err, &coded) {
		err = exit(exitInterrupted, err)
	}
	return exitCode(err, stderr)
}

// verbatim takes a text as it is. kong would send it through JSON, which puts
// U+FFFD for bytes that are not UTF-8: another file, another name.
func verbatim(ctx *kong.DecodeContext, target reflect.Value) error {
	t, err := ctx.Scan.PopValue("string")
	if err != nil {
		return err
	}
	target.SetString(fmt.Sprint(t.Value))
	return nil
}

// exitCode tells err to the user and picks the exit code.
func exitCode(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	code := exitFailed
	var e *exitError
	if errors.As(err, &e) {
		code = e.code
	}
	if msg := err.Error(); msg != "" {
		fmt.Fprintln(stderr, "siltstone:", msg)
	}
	return code
}

// absolute resolves a path before anything can change the working directory:
// the embedded S3 server does.
func absolute(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", path, err)
	}
	return abs, nil
}
