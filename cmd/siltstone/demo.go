package main

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/producers"
)

// The demo's rows: the Jargon File 4.4.7, in the public domain. demo/README.md
// tells where it comes from.
//
//go:embed demo/jargon.ndjson.gz
var demoRows []byte

var demoBatch = dataset.BatchID{Dataset: "jargon-file", Batch: "4.4.7"}

// loadDemo stores the demo's rows unless an earlier start has done so. A start
// that died half-way leaves rows that the next one repeats and the merge drops.
func loadDemo(ctx context.Context, a *app) error {
	done, err := demoLoaded(ctx, a)
	if err != nil || done {
		return err
	}
	zr, err := gzip.NewReader(bytes.NewReader(demoRows))
	if err != nil {
		return fmt.Errorf("open demo rows: %w", err)
	}
	w, err := producers.Open(ctx, a.store, a.bus, a.log, demoBatch.Dataset, demoBatch.Batch, producers.DeduplicateOn("term", "text"))
	if err != nil {
		return fmt.Errorf("load demo: %w", err)
	}
	if err := writeLines(ctx, w, block.NewLines(zr)); err != nil {
		_, abortErr := w.Abort(ctx)
		return errors.Join(fmt.Errorf("load demo: %w", err), abortErr)
	}
	res, err := w.Close(ctx)
	if err != nil {
		return fmt.Errorf("load demo: %w", err)
	}
	fmt.Fprintf(a.stderr, "demo: %d entries of the Jargon File are in dataset %s\n", res.Rows, demoBatch.Dataset)
	return nil
}

func writeLines(ctx context.Context, w *producers.Writer, lines *block.Lines) error {
	for {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = w.Write(ctx, line.Raw)
		}
		if err != nil {
			return err
		}
	}
}

func demoLoaded(ctx context.Context, a *app) (bool, error) {
	l, err := catalog.ListLive(ctx, a.store, demoBatch)
	if err != nil {
		return false, fmt.Errorf("look for the demo: %w", err)
	}
	for _, r := range l.Runs {
		m, err := catalog.ReadRun(ctx, a.store, demoBatch, r)
		if err != nil {
			return false, fmt.Errorf("look for the demo: %w", err)
		}
		if m.State == catalog.RunCompleted {
			return true, nil
		}
	}
	return false, nil
}
