package merger_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore"
)

var theBatch = dataset.BatchID{Dataset: "d", Batch: "b"}

// clock is a clock that stands unless it is moved.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// events is an announcer that remembers.
type events struct {
	mu   sync.Mutex
	all  []dataset.Event
	fail error
}

func (e *events) Publish(_ context.Context, ev dataset.Event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil {
		return e.fail
	}
	e.all = append(e.all, ev)
	return nil
}

// steady is a source of random bytes that a seed decides.
func steady(seed uint64) io.Reader {
	var s [32]byte
	s[0], s[1] = byte(seed), byte(seed>>8)
	return rand.NewChaCha8(s)
}

// config is sequential, with small blocks.
func config(t testing.TB, c *clock) merger.Config {
	return merger.Config{WorkDir: t.TempDir(), Concurrency: 1, BlockRows: 8, Memory: 1 << 20, By: "test", Now: c.now, Random: steady(1)}
}

func engine(t testing.TB, s objstore.Store, cfg merger.Config) *merger.Engine {
	t.Helper()
	e, err := merger.New(s, nil, cfg, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func merge(t testing.TB, e *merger.Engine, b dataset.BatchID) merger.Result {
	t.Helper()
	res, err := e.Merge(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// putRun stores a run manifest.
func putRun(t testing.TB, s objstore.Store, b dataset.BatchID, run dataset.Run, columns []string, state string) {
	t.Helper()
	m := catalog.RunManifest{Version: 1, Run: run, Dataset: b.Dataset, Batch: b.Batch, DeduplicateOn: columns, State: state}
	if b.Annotator != "" {
		m.Annotator = &b.Annotator
	}
	if err := catalog.PutRun(context.Background(), s, m); err != nil {
		t.Fatal(err)
	}
}

// putChunk stores lines as a chunk, and gives its key.
func putChunk(t testing.TB, s objstore.Store, b dataset.BatchID, run dataset.Run, n int, lines ...string) string {
	t.Helper()
	key := b.ChunkKey(run, n)
	put(t, s, key, strings.Join(lines, "\n")+"\n")
	return key
}

func put(t testing.TB, s objstore.Store, key, body string) {
	t.Helper()
	if _, err := s.Put(context.Background(), key, []byte(body), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, s objstore.Store, key string) string {
	t.Helper()
	b, _, err := objstore.ReadAll(context.Background(), s, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func exists(t testing.TB, s objstore.Store, key string) bool {
	t.Helper()
	_, _, err := objstore.ReadAll(context.Background(), s, key)
	if err != nil && !errors.Is(err, objstore.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

func keys(t testing.TB, s objstore.Store, prefix string) []string {
	t.Helper()
	var out []string
	for i, err := range s.List(context.Background(), prefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, i.Key)
	}
	return out
}

func record(t testing.TB, s objstore.Store, b dataset.BatchID) catalog.Record {
	t.Helper()
	h, err := catalog.ReadHead(context.Background(), s, b)
	if err != nil {
		t.Fatal(err)
	}
	return h.Record
}

// blockLines gives the lines of the merged blocks, in order, checked.
func blockLines(t testing.TB, s objstore.Store, r catalog.Record) []string {
	t.Helper()
	var out []string
	for _, b := range r.Blocks {
		rd := blockReader(get(t, s, r.ID().BlockKey(b.File)), b)
		for {
			row, err := rd.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", b.File, err)
			}
			out = append(out, string(row.Raw))
		}
	}
	return out
}

// blockReader reads a block of either kind.
func blockReader(body string, b catalog.Block) block.Stream[dataset.Row] {
	want := &block.Want{Rows: b.Rows, Bytes: b.Bytes, SHA256: b.SHA256}
	if dataset.IsParquetBlock(b.File) {
		return block.NewParquetReader(strings.NewReader(body), int64(len(body)), want)
	}
	return block.NewReader(strings.NewReader(body), want)
}

func merged(t testing.TB, s objstore.Store, b dataset.BatchID) []string {
	t.Helper()
	return blockLines(t, s, record(t, s, b))
}

// healthy checks that verify finds no problem.
func healthy(t testing.TB, s objstore.Store, b dataset.BatchID) {
	t.Helper()
	rep, err := merger.Verify(context.Background(), s, b)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range rep.Problems {
		t.Errorf("verify: %s: %s", p.Key, p.What)
	}
}

// row makes a line.
func row(id, key string, created int) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"id":%q`, id)
	if created > 0 {
		fmt.Fprintf(&b, `,"_created_at":%d`, created)
	}
	fmt.Fprintf(&b, `,"k":%q}`, key)
	return b.String()
}

// modelRow is a row as the model sees it.
type modelRow struct {
	id, key string
	created int // 0: unknown
	chunk   string
	line    int
	raw     string
}

// model is the rule of deduplication as docs/formats.md says it, with tables.
// It gives all rows that stay, old ones first.
func model(old, news []modelRow, dedup bool) []modelRow {
	news = slices.Clone(news)
	slices.SortFunc(news, func(a, b modelRow) int {
		return cmp.Or(compareCreated(a.created, b.created), cmp.Compare(a.id, b.id), cmp.Compare(a.chunk, b.chunk), cmp.Compare(a.line, b.line))
	})
	ids, keys := map[string]bool{}, map[string]bool{}
	var out []modelRow
	for _, r := range slices.Concat(old, news) {
		if ids[r.id] || dedup && keys[r.key] {
			continue
		}
		ids[r.id], keys[r.key] = true, true
		out = append(out, r)
	}
	return out
}

func compareCreated(a, b int) int {
	switch {
	case a == b:
		return 0
	case a == 0:
		return 1
	case b == 0:
		return -1
	}
	return cmp.Compare(a, b)
}

func byID(rows []modelRow) []string {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b modelRow) int { return cmp.Compare(a.id, b.id) })
	var out []string
	for _, r := range rows {
		out = append(out, r.raw)
	}
	return out
}

func errorsIsDamaged(err error) bool { return errors.Is(err, block.ErrDamaged) }
