package consumers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/consumers"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/nats/embedded"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

var (
	own   = dataset.BatchID{Dataset: "日本 a+b", Batch: "b.1"}
	layer = dataset.BatchID{Dataset: "日本 a+b", Batch: "b.1", Annotator: "lang"}
)

// world is a store and a real bus.
type world struct {
	t     *testing.T
	store *mem.Store
	bus   *bus.Bus
	kv    *bus.KV
}

// serve starts a NATS server on a folder and connects to it.
func serve(t *testing.T, dir string) (*bus.Bus, func()) {
	t.Helper()
	s, err := embedded.Open(t.Context(), embedded.Config{Dir: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := bus.Connect(t.Context(), bus.Config{Server: s, Scope: "test", Timing: bus.Timing{
		Wait: 5 * time.Millisecond, MaxWait: 20 * time.Millisecond, JobWait: 10 * time.Millisecond,
		ClaimTTL: time.Second}}, logger(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Topology(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	return b, func() {
		b.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func logger() *slog.Logger {
	if testing.Verbose() {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	b, stop := serve(t, t.TempDir())
	t.Cleanup(stop)
	return &world{t: t, store: mem.New(), bus: b, kv: b.KV(bus.Catalog)}
}

// run runs services until the test, or stop, ends them.
func (w *world) run(services ...func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, s := range services {
		wg.Go(func() {
			if err := s(ctx); err != nil && !errors.Is(err, context.Canceled) {
				w.t.Error(err)
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	w.t.Cleanup(stop)
	return stop
}

// eventually waits until check finds nothing to complain about.
func eventually(t *testing.T, check func() string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for {
		wrong := check()
		if wrong == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal(wrong)
		}
	}
}

// open creates a run.
func open(t testing.TB, s objstore.Store, b dataset.BatchID, r dataset.Run, state string, dedup []string) catalog.RunManifest {
	t.Helper()
	m := catalog.RunManifest{Version: 1, Run: r, Dataset: b.Dataset, Batch: b.Batch, State: state, DeduplicateOn: dedup, UpdatedAt: time.Now().UTC()}
	if b.Annotator != "" {
		m.Annotator = &b.Annotator
	}
	if err := catalog.PutRun(context.Background(), s, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// chunk stores a chunk and gives the event with which its writer announces it.
func chunk(t testing.TB, s objstore.Store, b dataset.BatchID, r dataset.Run, n, rows int) dataset.Event {
	t.Helper()
	key := b.ChunkKey(r, n)
	var body bytes.Buffer
	for i := range rows {
		fmt.Fprintf(&body, "{\"id\":\"%s-%05d-%03d\",\"text\":\"x\"}\n", r, n, i)
	}
	info, err := s.Put(context.Background(), key, body.Bytes(), objstore.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	kind := dataset.RowsIngested
	if b.Annotator != "" {
		kind = dataset.AnnotationUpdated
	}
	e := dataset.NewEvent(kind, b, time.Now())
	count := int64(rows)
	e.Key, e.ETag, e.Rows, e.Bytes = key, info.ETag, &count, int64(body.Len())
	return e
}

// merge does what a merger does, as far as catalog and index can see: it takes
// some of the live chunks (all when take is nil) into one new block, commits,
// and deletes them. announce is called between the commit and the deletions.
func merge(t testing.TB, s objstore.Store, b dataset.BatchID, take func(catalog.Chunk) bool, announce func(catalog.Head)) catalog.Head {
	t.Helper()
	ctx := context.Background()
	for range 100 {
		snap, err := catalog.Open(ctx, s, b)
		if err != nil {
			t.Fatal(err)
		}
		r := snap.Head.Record
		next := r.Next(fmt.Sprintf("%016x", time.Now().UnixNano()), "test", time.Now())
		l, err := catalog.ListLive(ctx, s, b)
		if err != nil {
			t.Fatal(err)
		}
		if next.Runs, err = catalog.MergeRuns(ctx, s, r, l.Runs); err != nil {
			t.Fatal(err)
		}
		next.DeduplicateOn = catalog.InForce(next.Runs)
		var lines []string
		for _, old := range r.Blocks {
			lines = append(lines, blockLines(t, s, b, old)...)
			next.Garbage = append(next.Garbage, catalog.GarbageBlock(old, time.Now()))
		}
		var took []catalog.Chunk
		for _, c := range snap.Live {
			if take != nil && !take(c) {
				continue
			}
			raw, _, err := objstore.ReadAll(ctx, s, c.Key())
			if err != nil {
				continue
			}
			lines = append(lines, strings.Split(strings.TrimSpace(string(raw)), "\n")...)
			_, known := next.Runs[c.Run]
			next.Absorb(c, known)
			took = append(took, c)
		}
		slices.Sort(lines)
		next.Blocks = []catalog.Block{putBlock(t, s, b, &next.NextFile, slices.Compact(lines))}
		next.Rows, next.Bytes = next.Blocks[0].Rows, next.Blocks[0].Bytes
		h, err := catalog.Commit(ctx, s, snap.Head, next)
		if errors.Is(err, objstore.ErrLost) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if announce != nil {
			announce(h)
		}
		for _, c := range took {
			if err := s.Delete(ctx, c.Key()); err != nil {
				t.Fatal(err)
			}
		}
		return h
	}
	t.Fatal("no commit in 100 attempts")
	return catalog.Head{}
}

func putBlock(t testing.TB, s objstore.Store, b dataset.BatchID, next *int, lines []string) catalog.Block {
	t.Helper()
	var out bytes.Buffer
	w := block.NewWriter(&out, 1)
	for _, l := range lines {
		row, err := dataset.ParseRow([]byte(l))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Add(row); err != nil {
			t.Fatal(err)
		}
	}
	info, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	for {
		file := dataset.BlockFile(*next)
		*next++
		_, err := s.Put(context.Background(), b.BlockKey(file), out.Bytes(), objstore.IfAbsent())
		if errors.Is(err, objstore.ErrLost) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return catalog.Block{File: file, Rows: info.Rows, Bytes: info.Bytes, RawBytes: info.RawBytes,
			FirstID: info.FirstID, LastID: info.LastID, SHA256: info.SHA256}
	}
}

func blockLines(t testing.TB, s objstore.Store, b dataset.BatchID, bl catalog.Block) []string {
	t.Helper()
	r, _, err := s.Get(context.Background(), b.BlockKey(bl.File), objstore.Span{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	br := block.NewReader(r, &block.Want{Rows: bl.Rows, Bytes: bl.Bytes, SHA256: bl.SHA256})
	var lines []string
	for range bl.Rows {
		row, err := br.Next()
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(row.Raw))
	}
	return lines
}

// mergeEvent is how a merger announces a commit.
func mergeEvent(h catalog.Head) dataset.Event {
	kind := dataset.BatchMerged
	if h.Record.ID().Annotator != "" {
		kind = dataset.AnnotationUpdated
	}
	e := dataset.NewEvent(kind, h.Record.ID(), time.Now())
	e.Generation, e.Commit, e.Rows = h.Record.Generation, h.Record.Commit, &h.Record.Rows
	return e
}

// catalogText is what the bucket says, one line for each key.
func catalogText(t testing.TB, kv consumers.KV, withRows bool) string {
	t.Helper()
	lines := map[string]string{}
	for e, err := range kv.List(context.Background(), ">") {
		if err != nil {
			t.Fatal(err)
		}
		k, err := bus.ParseCatalogKey(e.Key)
		switch {
		case err != nil:
			continue
		case k.Run == "":
			var v bus.BatchEntry
			if err := json.Unmarshal(e.Value, &v); err != nil {
				t.Fatal(err)
			}
			lines[e.Key] = fmt.Sprintf("%s generation %d commit %s", k.Object(), v.Generation, v.Commit)
		default:
			var v bus.ChunkEntry
			if err := json.Unmarshal(e.Value, &v); err != nil {
				t.Fatal(err)
			}
			lines[e.Key] = fmt.Sprintf("%s %s %d bytes", k.Object(), v.ETag, v.Bytes)
			if withRows && v.Rows != nil {
				lines[e.Key] += fmt.Sprintf(" %d rows", *v.Rows)
			}
		}
	}
	var out []string
	for _, l := range lines {
		out = append(out, l)
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// storeText is what the bucket should say, out of the store alone.
func storeText(t testing.TB, s objstore.Store, batches ...dataset.BatchID) string {
	t.Helper()
	var out []string
	for _, b := range batches {
		l, err := catalog.ListLive(context.Background(), s, b)
		if err != nil {
			t.Fatal(err)
		}
		h, err := catalog.ReadHead(context.Background(), s, b) // also one that was lost
		if err != nil {
			t.Fatal(err)
		}
		if h.Exists() {
			out = append(out, fmt.Sprintf("%s generation %d commit %s", b.CommitKey(), h.Record.Generation, h.Record.Commit))
		}
		for _, c := range catalog.Unabsorbed(h, l.Chunks) {
			out = append(out, fmt.Sprintf("%s %s %d bytes", c.Key(), c.ETag, c.Size))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func (w *world) agrees(batches ...dataset.BatchID) string {
	w.t.Helper()
	return cmp.Diff(storeText(w.t, w.store, batches...), catalogText(w.t, w.kv, false))
}

// told records what is published and scheduled.
type told struct {
	mu     sync.Mutex
	events []dataset.Event
	later  map[dataset.BatchID]int // merges
	asked  []string                // jobs of any kind but index, as often as they were
	index  []dataset.BatchID
	now    map[bus.Job]int
	quiet  time.Duration // of the last merge that was put off
	fail   error
}

func (r *told) Publish(_ context.Context, e dataset.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return r.fail
	}
	r.events = append(r.events, e)
	return nil
}

func (r *told) Debounce(_ context.Context, j bus.Job, quiet, _ time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.quiet = quiet
	if j.Kind == bus.KindIndex {
		r.index = append(r.index, j.Batch)
		return r.fail
	}
	r.asked = append(r.asked, j.String())
	if r.later == nil {
		r.later = map[dataset.BatchID]int{}
	}
	r.later[j.Batch]++
	return r.fail
}

func (r *told) Enqueue(_ context.Context, j bus.Job) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == nil {
		r.now = map[bus.Job]int{}
	}
	r.now[j]++
	return r.fail
}

func (r *told) take() []dataset.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.events
	r.events = nil
	return out
}
