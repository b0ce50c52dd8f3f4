package query_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/query"
)

// bucket writes datasets as siltstone does, with a merger of its own that is
// simple enough to be right: everything in memory, everything anew.
type bucket struct {
	t     testing.TB
	store objstore.Store
	cut   int // rows per block
	id    int // of commits
}

func newBucket(t testing.TB) *bucket {
	t.Helper()
	return &bucket{t: t, store: mem.New(), cut: 3}
}

var run = dataset.Run("abc123")

func batchID(batch string) dataset.BatchID { return dataset.BatchID{Dataset: "d", Batch: batch} }

// line is a row with an id.
func line(id string, more ...string) string {
	return `{"id":` + fmt.Sprintf("%q", id) + strings.Join(append([]string{""}, more...), ",") + `}`
}

func (b *bucket) put(key, body string) {
	b.t.Helper()
	if _, err := b.store.Put(context.Background(), key, []byte(body), objstore.Condition{}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bucket) delete(key string) {
	b.t.Helper()
	if err := b.store.Delete(context.Background(), key); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bucket) get(key string) []byte {
	b.t.Helper()
	raw, _, err := objstore.ReadAll(context.Background(), b.store, key)
	if err != nil {
		b.t.Fatal(err)
	}
	return raw
}

// chunk puts the n-th chunk of the run.
func (b *bucket) chunk(batch string, n int, lines ...string) string {
	b.t.Helper()
	key := batchID(batch).ChunkKey(run, n)
	b.put(key, strings.Join(lines, "\n")+"\n")
	return key
}

// merged puts rows and merges them.
func (b *bucket) merged(batch string, lines ...string) {
	b.t.Helper()
	l, err := catalog.ListLive(context.Background(), b.store, batchID(batch))
	if err != nil {
		b.t.Fatal(err)
	}
	h := b.head(batch)
	n := 0
	for _, c := range l.Chunks {
		n = max(n, c.Number+1)
	}
	for h.Record.Runs[run].Absorbed.Has(n) {
		n++
	}
	b.chunk(batch, n, lines...)
	if err := merge(context.Background(), b.store, batchID(batch), b.cut, b.commit()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bucket) commit() string { b.id++; return fmt.Sprintf("%016d", b.id) }

func (b *bucket) head(batch string) catalog.Head { return b.headOf(batchID(batch)) }

func (b *bucket) headOf(id dataset.BatchID) catalog.Head {
	b.t.Helper()
	h, err := catalog.ReadHead(context.Background(), b.store, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return h
}

func (b *bucket) blocks(batch string) []string {
	b.t.Helper()
	var keys []string
	for _, bl := range b.head(batch).Record.Blocks {
		keys = append(keys, batchID(batch).BlockKey(bl.File))
	}
	return keys
}

// newRow is a row of a chunk and where it stands.
type newRow struct {
	dataset.Row
	chunk string
	line  int
}

// before is the order in which new rows are decided: _created_at, missing last;
// id; chunk name; line.
func before(x, y newRow) int {
	switch {
	case x.CreatedAt.IsZero() != y.CreatedAt.IsZero():
		if x.CreatedAt.IsZero() {
			return 1
		}
		return -1
	case !x.CreatedAt.Equal(y.CreatedAt):
		return x.CreatedAt.Compare(y.CreatedAt)
	}
	return cmp.Or(strings.Compare(x.ID, y.ID), strings.Compare(x.chunk, y.chunk), cmp.Compare(x.line, y.line))
}

// rowsOf gives the rows of a chunk's text, without those that a merge rejects.
func rowsOf(c catalog.Chunk, body []byte) []newRow {
	var out []newRow
	lines := block.NewLines(bytes.NewReader(body))
	for {
		l, err := lines.Next()
		if err != nil {
			return out
		}
		row := l.Row
		if l.Reject != "" || c.Batch.Annotator == "" && strings.Contains(string(l.Raw), `"_batch"`) || strings.Contains(string(l.Raw), `"_silt_`) {
			continue
		}
		row.Raw = bytes.Clone(row.Raw)
		if row.ID == "" {
			row = row.WithID(dataset.DerivedID(c.Key(), l.Number))
		}
		out = append(out, newRow{row, c.Name(), l.Number})
	}
}

// merge does to a batch what a merger does, without deduplication: everything
// into new blocks, and whatever was replaced or absorbed deleted at once.
func merge(ctx context.Context, s objstore.Store, id dataset.BatchID, cut int, commit string) error {
	l, err := catalog.ListLive(ctx, s, id)
	if err != nil {
		return err
	}
	h, err := catalog.ReadHead(ctx, s, id)
	if err != nil || h.Record.Deleted {
		return err
	}
	rows := map[string]dataset.Row{}
	for _, bl := range h.Record.Blocks {
		raw, _, err := objstore.ReadAll(ctx, s, id.BlockKey(bl.File))
		if errors.Is(err, objstore.ErrNotFound) {
			return nil // another merger was faster
		}
		if err != nil {
			return err
		}
		rs, err := blockRows(bl.File, raw)
		if err != nil {
			return err
		}
		for _, r := range rs {
			rows[r.ID] = r
		}
	}
	var fresh []newRow
	next := h.Record.Next(commit, "test", time.Unix(0, 0))
	chunks := catalog.Unabsorbed(h, l.Chunks)
	for _, c := range chunks {
		raw, _, err := objstore.ReadAll(ctx, s, c.Key())
		if errors.Is(err, objstore.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		fresh = append(fresh, rowsOf(c, raw)...)
		next.Absorb(c, true)
	}
	slices.SortFunc(fresh, before)
	for _, r := range fresh {
		if _, ok := rows[r.ID]; !ok {
			rows[r.ID] = r.Row
		}
	}
	replaced := next.Blocks
	if err := writeBlocks(ctx, s, &next, rows, cut); err != nil {
		return err
	}
	for _, bl := range replaced {
		next.Garbage = append(next.Garbage, catalog.GarbageBlock(bl, time.Unix(0, 0)))
	}
	if _, err := catalog.Commit(ctx, s, h, next); err != nil {
		if errors.Is(err, objstore.ErrLost) {
			return nil
		}
		return err
	}
	for _, c := range l.Chunks {
		if next.Absorbed(c) {
			if err := s.Delete(ctx, c.Key()); err != nil {
				return err
			}
		}
	}
	for _, bl := range replaced {
		if err := s.Delete(ctx, id.BlockKey(bl.File)); err != nil {
			return err
		}
	}
	return nil
}

// blockRows gives the rows of a whole block of either kind.
func blockRows(file string, raw []byte) ([]dataset.Row, error) {
	if !dataset.IsParquetBlock(file) {
		return block.ReadFrame(raw)
	}
	var rows []dataset.Row
	for line, err := range block.ParquetLines(bytes.NewReader(raw), int64(len(raw))) {
		if err != nil {
			return nil, err
		}
		row, err := dataset.ParseRow(bytes.Clone(line))
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// writeBlocks writes gzip blocks, and with an even cut every other one in
// parquet.
func writeBlocks(ctx context.Context, s objstore.Store, next *catalog.Record, rows map[string]dataset.Row, cut int) error {
	ids := make([]string, 0, len(rows))
	for id := range rows {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	next.Blocks, next.Rows = nil, int64(len(ids))
	for first := true; first || len(ids) > 0; first = false {
		var buf bytes.Buffer
		var w interface {
			Add(dataset.Row) error
			Close() (block.Info, error)
		} = block.NewWriter(&buf, 1)
		name := dataset.BlockFile
		if cut%2 == 0 && len(next.Blocks)%2 == 1 {
			w, name = block.NewParquetWriter(&buf, os.TempDir()), dataset.ParquetBlockFile
		}
		n := min(cut, len(ids))
		for _, id := range ids[:n] {
			if err := w.Add(rows[id]); err != nil {
				return err
			}
		}
		ids = ids[n:]
		info, err := w.Close()
		if err != nil {
			return err
		}
		for {
			file := name(next.NextFile)
			next.NextFile++
			_, err := s.Put(ctx, next.ID().BlockKey(file), buf.Bytes(), objstore.IfAbsent())
			if errors.Is(err, objstore.ErrLost) || errors.Is(err, objstore.ErrUnknown) {
				continue
			}
			if err != nil {
				return err
			}
			next.Blocks = append(next.Blocks, catalog.Block{File: file, Rows: info.Rows, Bytes: info.Bytes,
				RawBytes: info.RawBytes, FirstID: info.FirstID, LastID: info.LastID, SHA256: info.SHA256})
			break
		}
	}
	return nil
}

// read gives each row as "batch line" and the error that ends the read.
func read(ctx context.Context, s objstore.Store, o query.Options) ([]string, error) {
	o.Dataset = cmp.Or(o.Dataset, "d")
	var out []string
	for row, err := range query.Rows(ctx, s, o) {
		if err != nil {
			return out, err
		}
		out = append(out, row.Batch+" "+string(row.Raw))
	}
	return out, nil
}

func (b *bucket) read(o query.Options) []string {
	b.t.Helper()
	o.WorkDir = b.t.TempDir()
	rows, err := read(b.t.Context(), b.store, o)
	if err != nil {
		b.t.Fatal(err)
	}
	return rows
}
