package producers_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/producers"
	"github.com/siltstone-data/siltstone/query"
)

// merge does to a batch what a merger does, without deduplication: everything
// into blocks of some rows, and what was absorbed deleted at once.
func merge(t testing.TB, s objstore.Store, id dataset.BatchID) {
	t.Helper()
	ctx := context.Background()
	l, err := catalog.ListLive(ctx, s, id)
	if err != nil {
		t.Fatal(err)
	}
	h, err := catalog.ReadHead(ctx, s, id)
	if err != nil {
		t.Fatal(err)
	}
	next := h.Record.Next(rand.Text()[:16], "test", time.Unix(0, 0))
	if next.Runs, err = catalog.MergeRuns(ctx, s, h.Record, l.Runs); err != nil {
		t.Fatal(err)
	}
	rows := map[string]dataset.Row{}
	take := func(in io.Reader) {
		for lines := block.NewLines(in); ; {
			l, err := lines.Next()
			if err == io.EOF {
				return
			}
			if err != nil || l.Reject != "" {
				t.Fatal(err, l.Reject)
			}
			if _, there := rows[l.Row.ID]; !there {
				rows[l.Row.ID] = dataset.Row{ID: l.Row.ID, CreatedAt: l.Row.CreatedAt, Raw: bytes.Clone(l.Row.Raw)}
			}
		}
	}
	for _, bl := range h.Record.Blocks {
		raw, _, err := objstore.ReadAll(ctx, s, id.BlockKey(bl.File))
		if err != nil {
			t.Fatal(err)
		}
		old, err := block.ReadFrame(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range old {
			rows[r.ID] = r
		}
	}
	chunks := catalog.Unabsorbed(h, l.Chunks)
	for _, c := range chunks {
		raw, _, err := objstore.ReadAll(ctx, s, c.Key())
		if err != nil {
			t.Fatal(err)
		}
		take(bytes.NewReader(raw))
		next.Absorb(c, slices.Contains(l.Runs, c.Run))
	}
	var ids []string
	for id := range rows {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	next.Blocks, next.Rows = nil, int64(len(ids))
	for first := true; first || len(ids) > 0; first = false {
		var buf bytes.Buffer
		w := block.NewWriter(&buf, 1)
		n := min(1000, len(ids))
		for _, id := range ids[:n] {
			if err := w.Add(rows[id]); err != nil {
				t.Fatal(err)
			}
		}
		ids = ids[n:]
		info, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		file := dataset.BlockFile(next.NextFile)
		next.NextFile++
		if _, err := s.Put(ctx, id.BlockKey(file), buf.Bytes(), objstore.IfAbsent()); err != nil {
			t.Fatal(err)
		}
		next.Blocks = append(next.Blocks, catalog.Block{File: file, Rows: info.Rows, Bytes: info.Bytes,
			RawBytes: info.RawBytes, FirstID: info.FirstID, LastID: info.LastID, SHA256: info.SHA256})
	}
	if _, err := catalog.Commit(ctx, s, h, next); err != nil {
		t.Fatal(err)
	}
	for _, c := range l.Chunks {
		if err := s.Delete(ctx, c.Key()); err != nil {
			t.Fatal(err)
		}
	}
}

func baseOf(batch string) dataset.BatchID { return dataset.BatchID{Dataset: "d", Batch: batch} }

func layerOf(batch string) dataset.BatchID {
	return dataset.BatchID{Dataset: "d", Batch: batch, Annotator: "A"}
}

// fillBatch puts rows r000000 and so on, and merges them.
func fillBatch(t testing.TB, s objstore.Store, batch string, from, to int) {
	t.Helper()
	w, err := producers.Open(context.Background(), s, nil, quiet, "d", batch, producers.ChunkRows(1000))
	if err != nil {
		t.Fatal(err)
	}
	for i := from; i < to; i++ {
		if err := w.Write(context.Background(), map[string]any{"id": rowID(i), "n": i, "text": fmt.Sprintf("row %d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	merge(t, s, baseOf(batch))
}

func rowID(i int) string { return fmt.Sprintf("r%06d", i) }

// notes gives the annotations that a view shows, by batch and id.
func notes(t testing.TB, s objstore.Store, live bool) map[string]string {
	t.Helper()
	out := map[string]string{}
	last := query.Cursor{}
	for row, err := range query.Rows(context.Background(), s, query.Options{Dataset: "d", Annotators: []string{"A"}, Live: live, WorkDir: t.TempDir()}) {
		if err != nil {
			t.Fatal(err)
		}
		at := query.Cursor{ID: row.ID, Batch: row.Batch}
		if at.Compare(last) <= 0 {
			t.Fatalf("%v comes after %v", at, last)
		}
		last = at
		for name, value := range row.Fields() {
			if f, ok := strings.CutPrefix(name, "A."); ok {
				out[row.Batch+" "+row.ID] += f + "=" + string(value) + ";"
			}
		}
	}
	return out
}

// calls counts how often each row was annotated.
type calls struct {
	mu   sync.Mutex
	rows map[string]int
}

func (c *calls) count(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rows == nil {
		c.rows = map[string]int{}
	}
	c.rows[id]++
	return c.rows[id]
}

func (c *calls) sum() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.rows {
		n += k
	}
	return n
}

// locks is a Locker in memory, by one clock.
type locks struct {
	mu    sync.Mutex
	held  map[string]*heldLease
	token int64
	// renew, if set, may fail a renewal.
	renew func(*heldLease) error
	// renewed counts.
	renewed int
}

type heldLease struct {
	locks *locks
	key   string
	owner string
	token int64
	end   time.Time
}

func (l *locks) Acquire(ctx context.Context, key, owner string, ttl, wait time.Duration) (producers.Lease, error) {
	deadline := time.Now().Add(wait)
	for {
		l.mu.Lock()
		if l.held == nil {
			l.held = map[string]*heldLease{}
		}
		h := l.held[key]
		if h == nil || !time.Now().Before(h.end) {
			l.token++
			h = &heldLease{l, key, owner, l.token, time.Now().Add(ttl)}
			l.held[key] = h
			l.mu.Unlock()
			return h, nil
		}
		l.mu.Unlock()
		if !time.Now().Before(deadline) {
			return nil, &producers.LeaseHeldError{Owner: h.owner, Until: h.end}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take lets somebody else have the lease.
func (l *locks) take(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.token++
	l.held[key] = &heldLease{l, key, "another", l.token, time.Now().Add(time.Hour)}
}

func (l *locks) setRenew(fn func(*heldLease) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renew = fn
}

// drop lets the lease end.
func (l *locks) drop(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, key)
}

func (h *heldLease) Token() int64 { return h.token }

func (h *heldLease) Remaining() time.Duration {
	h.locks.mu.Lock()
	defer h.locks.mu.Unlock()
	return max(0, time.Until(h.end))
}

func (h *heldLease) Renew(ctx context.Context, ttl time.Duration) error {
	h.locks.mu.Lock()
	fn := h.locks.renew
	h.locks.mu.Unlock()
	if fn != nil {
		if err := fn(h); err != nil {
			return err
		}
	}
	h.locks.mu.Lock()
	defer h.locks.mu.Unlock()
	h.locks.renewed++
	if h.locks.held[h.key] != h {
		return fmt.Errorf("%w: another has it", producers.ErrLeaseLost)
	}
	h.end = time.Now().Add(ttl)
	return nil
}

func (h *heldLease) Release(context.Context) error {
	h.locks.mu.Lock()
	defer h.locks.mu.Unlock()
	if h.locks.held[h.key] == h {
		delete(h.locks.held, h.key)
	}
	return nil
}

var errStore = errors.New("503 slow down")
