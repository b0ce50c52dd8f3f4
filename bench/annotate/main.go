// Command annotate measures what it costs to have rows annotated by processes:
// the CPU time of this process, which asks them, beside that of reading the same
// rows and that of writing the same annotations. The processes themselves and the
// store, which is the embedded one in a process of its own, are not counted. It
// prints a table of bench/README.md.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/siltstone-data/siltstone"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore/embedded"
	"github.com/siltstone-data/siltstone/objstore/s3"
	"github.com/siltstone-data/siltstone/producers"
	"github.com/siltstone-data/siltstone/query"
)

var (
	rows        = flag.Int("rows", 1_000_000, "how many rows there are")
	times       = flag.Int("n", 3, "how often each way is measured")
	concurrency = flag.Int("concurrency", 16, "processes")
)

const (
	secret     = "benchmark"
	theDataset = "bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	flag.Parse()
	err := func() error {
		switch flag.Arg(0) {
		case "store":
			return serveStore(ctx, flag.Arg(1))
		case "answer":
			return answerAll()
		}
		return run(ctx)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "annotate:", err)
		os.Exit(1)
	}
}

// answerAll is a process that looks at nothing but the id.
func answerAll() error {
	for in := bufio.NewReaderSize(os.Stdin, 1<<20); ; {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		id, _, _ := bytes.Cut(line, []byte(","))
		if _, err := fmt.Fprintf(os.Stdout, "%s,\"data\":{\"ok\":true}}\n", id); err != nil {
			return err
		}
	}
}

func serveStore(ctx context.Context, dir string) error {
	s, err := embedded.Open(ctx, embedded.Config{Dir: dir, Bucket: theDataset, AccessKey: secret, SecretKey: secret}, quiet)
	if err != nil {
		return err
	}
	fmt.Println(s.Endpoint())
	return s.Run(ctx)
}

var quiet = slog.New(slog.DiscardHandler)

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "annotate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "store", dir)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}()
	endpoint, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the store does not say where it is: %w", err)
	}
	b := &bench{self: self, config: s3.Config{Bucket: theDataset, Endpoint: strings.TrimSpace(endpoint), AccessKey: secret, SecretKey: secret}}
	return b.run(ctx)
}

type bench struct {
	self   string
	config s3.Config
	store  *s3.Store
}

func (b *bench) run(ctx context.Context) error {
	var err error
	if b.store, err = s3.Open(ctx, b.config, quiet, nil); err != nil {
		return err
	}
	defer b.store.Close()
	if err := b.load(ctx); err != nil {
		return err
	}
	ways := []struct {
		name string
		run  func(context.Context, int) error
	}{{"reading the rows", b.read}, {"writing the annotations", b.write}, {"annotate", b.annotate}}
	cpu, wall := make([][]float64, len(ways)), make([][]float64, len(ways))
	for n := range *times {
		for i, w := range ways {
			began, used := time.Now(), self()
			if err := w.run(ctx, n); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			cpu[i] = append(cpu[i], (self() - used).Seconds())
			wall[i] = append(wall[i], time.Since(began).Seconds())
		}
	}
	fmt.Printf("%d rows, %d processes; medians of %d.\n\n| what | CPU s | wall s | CPU µs a row |\n|---|---|---|---|\n", *rows, *concurrency, *times)
	each := func(s float64) float64 { return s * 1e6 / float64(*rows) }
	for i, w := range ways {
		fmt.Printf("| %s | %.2f | %.2f | %.1f |\n", w.name, median(cpu[i]), median(wall[i]), each(median(cpu[i])))
	}
	fmt.Printf("| annotate beyond reading and writing | %.2f | | %.1f |\n", median(cpu[2])-median(cpu[0])-median(cpu[1]), each(median(cpu[2])-median(cpu[0])-median(cpu[1])))
	fmt.Printf("\nLargest resident size of this process: %d MB.\n", maxRSS()>>20)
	return nil
}

// load stores and merges the rows.
func (b *bench) load(ctx context.Context) error {
	id := dataset.BatchID{Dataset: theDataset, Batch: "b"}
	w, err := producers.OpenBatch(ctx, b.store, nil, quiet, id, producers.ChunkRows(5000))
	if err != nil {
		return err
	}
	text := strings.Repeat("some words of a text that is neither long nor short ", 4)
	for n := range *rows {
		if err := w.Write(ctx, map[string]any{"n": n, "lang": "en", "text": text}); err != nil {
			return err
		}
	}
	if _, err := w.Close(ctx); err != nil {
		return err
	}
	engine, err := merger.New(b.store, nil, merger.Config{By: "bench"}, nil, nil)
	if err != nil {
		return err
	}
	_, err = engine.Merge(ctx, id)
	return err
}

func (b *bench) options(layer string) query.Options {
	return query.Options{Dataset: theDataset, Missing: layer}
}

func (b *bench) read(ctx context.Context, n int) error {
	seen := 0
	for _, err := range query.Rows(ctx, b.store, b.options(fmt.Sprintf("R%d", n))) {
		if err != nil {
			return err
		}
		seen++
	}
	if seen != *rows {
		return fmt.Errorf("%d rows, want %d", seen, *rows)
	}
	return nil
}

func (b *bench) write(ctx context.Context, n int) error {
	id := dataset.BatchID{Dataset: theDataset, Batch: "b", Annotator: fmt.Sprintf("W%d", n)}
	w, err := producers.OpenBatch(ctx, b.store, nil, quiet, id)
	if err != nil {
		return err
	}
	now := time.Now()
	var line []byte
	for n := range *rows {
		row := dataset.Row{ID: fmt.Sprintf("01a22f5b-64c9-7575-9b3f-%012d", n)}
		if line, err = dataset.AppendAnnotation(line[:0], "b", row, now, []byte(`{"ok":true}`), nil); err != nil {
			return err
		}
		row.Raw = line
		if err := w.WriteRow(ctx, row); err != nil {
			return err
		}
	}
	_, err = w.Close(ctx)
	return err
}

func (b *bench) annotate(ctx context.Context, n int) error {
	children, err := producers.NewChildren([]string{b.self, "answer"}, *concurrency, os.Stderr)
	if err != nil {
		return err
	}
	res, err := producers.AnnotateWith(ctx, b.store, nil, siltstone.NewLocker(b.store, quiet), quiet, theDataset, fmt.Sprintf("A%d", n),
		children.Worker, producers.Concurrency(*concurrency))
	if err == nil && res.Rows != int64(*rows) {
		err = fmt.Errorf("%d rows were annotated, want %d", res.Rows, *rows)
	}
	return err
}

// self is the CPU time of this process, without its children's.
func self() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail with these arguments
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func maxRSS() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Maxrss << 10
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}
