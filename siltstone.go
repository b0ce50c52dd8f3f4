// Package siltstone creates, annotates and exports text-heavy datasets on S3.
//
// Writers store rows as small chunks; events make mergers turn chunks into
// id-sorted blocks; Export gives rows back byte for byte:
//
//	tool, err := siltstone.FromEnv(ctx)
//	w, err := tool.Writer(ctx, "example", "20261130-06", producers.DeduplicateOn("text"))
//	err = w.Write(ctx, map[string]any{"text": "…"})
//	res, err := w.Close(ctx)
//
// This package only wires: what it joins is in producers, query, nats/bus and
// objstore.
package siltstone

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/s3"
	"github.com/siltstone-data/siltstone/producers"
	"github.com/siltstone-data/siltstone/query"
)

// Tool reads and writes the datasets of one bucket and prefix. It may be used
// from many goroutines.
type Tool struct {
	store    objstore.Store
	announce producers.Announcer
	bus      *bus.Bus
	client   *s3.Store
	locker   producers.Locker
	workDir  string
	log      *slog.Logger
}

// FromEnv opens the store that the environment names.
func FromEnv(ctx context.Context) (*Tool, error) {
	return Open(ctx, ReadConfig(os.LookupEnv))
}

// Open opens a store. A NATS server that cannot be reached does not stop it:
// what is written is found by the store's notifications or by the reconciler,
// and one warning says so.
func Open(ctx context.Context, c Config) (*Tool, error) {
	if c.Bucket == "" {
		return nil, ErrNoStore
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.WorkDir == "" {
		c.WorkDir = os.TempDir()
	}
	work, err := filepath.Abs(c.WorkDir)
	if err != nil {
		return nil, fmt.Errorf("resolve work folder: %w", err)
	}
	client, err := s3.Open(ctx, s3.Config{
		Bucket: c.Bucket, Endpoint: c.Endpoint, Region: c.Region,
		AccessKey: c.AccessKey, SecretKey: c.SecretKey, SessionToken: c.SessionToken,
	}, c.Logger, c.Registerer)
	if err != nil {
		return nil, err
	}
	t := &Tool{store: objstore.WithPrefix(client, c.Prefix), client: client, workDir: work, log: c.Logger}
	if t.locker, err = OpenLocker(c, t.store, t.log); err != nil {
		client.Close()
		return nil, err
	}
	if c.NATSURL == "" {
		return t, nil
	}
	b, err := bus.Connect(ctx, bus.Config{URL: c.NATSURL, Creds: c.NATSCreds, Scope: bus.Scope(c.Bucket, c.Prefix)}, c.Logger, c.Registerer)
	if err != nil {
		c.Logger.Warn("writing without announcing; the store's notifications or the reconciler will find the rows", "err", err)
		return t, nil
	}
	t.bus, t.announce = b, b
	return t, nil
}

// Close leaves the bus and gives back idle connections to the store.
func (t *Tool) Close() {
	t.client.Close()
	if t.bus != nil {
		t.bus.Close()
	}
}

// Writer starts a run that writes rows to a batch.
func (t *Tool) Writer(ctx context.Context, ds, batch string, opts ...producers.Option) (*producers.Writer, error) {
	return producers.Open(ctx, t.store, t.announce, t.log, ds, batch, opts...)
}

// WriteAll writes a sequence of rows as one run. After an error of the sequence
// or of a write the run is marked failed; what is stored stays.
func (t *Tool) WriteAll(ctx context.Context, dataset, batch string, rows iter.Seq2[any, error], opts ...producers.Option) (producers.Result, error) {
	w, err := t.Writer(ctx, dataset, batch, opts...)
	if err != nil {
		return producers.Result{}, err
	}
	for row, err := range rows {
		if err == nil {
			err = w.Write(ctx, row)
		}
		if err != nil {
			res, abortErr := w.Abort(ctx)
			if abortErr != nil {
				t.log.Warn("run is left open", "dataset", dataset, "batch", batch, "err", abortErr)
			}
			return res, err
		}
	}
	return w.Close(ctx)
}

// Annotate runs fn over the merged rows that an annotator has not annotated, and
// stores what it gives as a layer; see producers.Annotate.
func (t *Tool) Annotate(ctx context.Context, ds, annotator string, fn producers.Func, opts ...producers.AnnotateOption) (producers.AnnotateResult, error) {
	return producers.Annotate(ctx, t.store, t.announce, t.locker, t.log, ds, annotator, fn,
		append([]producers.AnnotateOption{producers.WorkDir(t.workDir)}, opts...)...)
}

// Export gives the merged rows of a dataset in (id, batch) order, at constant
// memory. opts may narrow it, or add live rows.
func (t *Tool) Export(ctx context.Context, dataset string, opts ...query.Option) iter.Seq2[query.Row, error] {
	o := query.Options{Dataset: dataset, WorkDir: t.workDir}
	for _, opt := range opts {
		opt(&o)
	}
	return query.Rows(ctx, t.store, o)
}
