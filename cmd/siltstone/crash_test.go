package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/producers"
)

var (
	kills     = flag.Int("kills", 10, "how many points a crash campaign has")
	crashSeed = flag.Uint64("crash-seed", uint64(time.Now().UnixNano()), "seed of the crash campaigns' moments")
	crashFrom = flag.Int("crash-from", 0, "first point of a crash campaign: one that was interrupted goes on there")
)

// TestNoRowIsLostWhenUpIsKilled kills `siltstone up` again and again while
// writers write and mergers merge, and commands that merge, convert, sweep and
// repair beside it. Every row whose chunk was acknowledged and that no rule drops
// must come out exactly once, with its bytes.
func TestNoRowIsLostWhenUpIsKilled(t *testing.T) {
	if testing.Short() {
		crashCampaign(t, 3, "", false)
		return
	}
	for _, c := range []struct{ name, notify string }{
		{"as it is", ""},
		{"with notifications off", "off"},
		{"with notifications doubled", "doubled"},
		{"with notifications reversed", "reversed"},
	} {
		t.Run(c.name, func(t *testing.T) { crashCampaign(t, *kills, c.notify, false) })
	}
	t.Run("with the NATS folder deleted", func(t *testing.T) { crashCampaign(t, *kills, "", true) })
}

func crashCampaign(t *testing.T, points int, notify string, dropNATS bool) {
	env := mergeSoon
	if notify != "" {
		env = append(slices.Clone(env), notifyEnv+"="+notify)
	}
	dir := t.TempDir()
	c := campaign{dir: dir, stream: 7, pause: 1500 * time.Millisecond, servers: []*server{startUp(t, dir, env...)}}
	config := c.servers[0].config(t)
	c.again = func(t *testing.T, _ int) *server {
		if dropNATS {
			if err := os.RemoveAll(filepath.Join(dir, "nats")); err != nil {
				t.Fatal(err)
			}
		}
		up := startUp(t, dir, env...)
		if got := up.config(t); got.Endpoint != config.Endpoint || got.NATSURL != config.NATSURL {
			t.Fatalf("the addresses changed: %+v, were %+v", got, config)
		}
		return up
	}
	c.run(t, points)
}

// startWriters starts four writers; the function that it gives stops them, waits
// until they have stored what they wrote, and gives them.
func startWriters(t *testing.T, config siltstone.Config, plain, deduplicated dataset.BatchID) (stop func() []*crashWriter) {
	ending := make(chan struct{})
	var writers []*crashWriter
	var wg sync.WaitGroup
	for i := range 4 {
		w := &crashWriter{name: fmt.Sprintf("w%d", i), config: config, stored: map[string]struct{}{}, batch: plain}
		if i%2 == 1 {
			w.batch, w.dedup = deduplicated, true
		}
		writers = append(writers, w)
		wg.Go(func() { w.run(t.Context(), ending) })
	}
	return func() []*crashWriter {
		close(ending)
		wg.Wait()
		return writers
	}
}

// crashWriter writes rows with ids of its own, and again those that were not
// acknowledged, as a worker does whose store went away.
type crashWriter struct {
	name   string
	config siltstone.Config
	batch  dataset.BatchID
	dedup  bool

	next    int
	pending []string // ids, written and not acknowledged
	mu      sync.Mutex
	stored  map[string]struct{} // ids of acknowledged rows
}

// row is the n-th row. Deduplicated rows repeat their texts across writers.
func (w *crashWriter) row(id string, n int) string {
	text := id
	if w.dedup {
		text = fmt.Sprintf("text %d", n%997)
	}
	return fmt.Sprintf(`{"id":%q,"text":%q,"n":1.0e%d, "big":9007199254740993,"x":"\u0041<&>"}`, id, text, n%7)
}

func (w *crashWriter) run(ctx context.Context, stop <-chan struct{}) {
	for {
		err := w.session(ctx, stop)
		if err == nil {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond): // the server is on its way back
		case <-ctx.Done():
			return
		}
	}
}

// session is one run of a writer: it ends with an error when the store goes.
func (w *crashWriter) session(ctx context.Context, stop <-chan struct{}) error {
	tool, err := siltstone.Open(ctx, w.config)
	if err != nil {
		return err
	}
	defer tool.Close()
	opts := []producers.Option{producers.ChunkRows(20), producers.OnStored(func(ids []string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, id := range ids {
			w.stored[id] = struct{}{}
		}
	})}
	if w.dedup {
		opts = append(opts, producers.DeduplicateOn("text"))
	}
	out, err := tool.Writer(ctx, w.batch.Dataset, w.batch.Batch, opts...)
	if err != nil {
		return err
	}
	if err := w.write(ctx, out, stop); err != nil {
		aborting, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, _ = out.Abort(aborting)
		return err
	}
	_, err = out.Close(ctx)
	return err
}

func (w *crashWriter) write(ctx context.Context, out *producers.Writer, stop <-chan struct{}) error {
	w.mu.Lock()
	var again []string
	for _, id := range w.pending {
		if _, ok := w.stored[id]; !ok {
			again = append(again, id)
		}
	}
	w.mu.Unlock()
	w.pending = again
	for _, id := range again {
		if err := out.Write(ctx, json.RawMessage(w.rowOf(id))); err != nil {
			return err
		}
	}
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		id := fmt.Sprintf("%s-%06d", w.name, w.next)
		w.next++
		w.pending = append(w.pending, id)
		if err := out.Write(ctx, json.RawMessage(w.rowOf(id))); err != nil {
			return err
		}
	}
}

func (w *crashWriter) rowOf(id string) string {
	var n int
	if _, err := fmt.Sscanf(id[len(w.name)+1:], "%d", &n); err != nil {
		panic(err)
	}
	return w.row(id, n)
}

// exported reads a batch's rows by id, and fails on an id that comes twice or
// out of order.
func exported(t *testing.T, dir string, b dataset.BatchID) map[string]string {
	t.Helper()
	rows := map[string]string{}
	last := ""
	for line := range strings.Lines(must(t, "", "--dir", dir, "export", b.Dataset, "--batch", b.Batch)) {
		r, err := dataset.ParseRow([]byte(strings.TrimSuffix(line, "\n")))
		if err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if r.ID <= last {
			t.Fatalf("%q comes after %q", r.ID, last)
		}
		last = r.ID
		rows[r.ID] = string(r.Raw)
	}
	return rows
}

// sameRow reports whether a stored line is the user's row with _created_at put
// after its id.
func sameRow(line, user string) error {
	id, rest, _ := strings.Cut(user, ",")
	head, tail, ok := strings.Cut(line, `,"_created_at":"`)
	if !ok || head != id {
		return errors.New("does not begin with id and _created_at")
	}
	_, tail, _ = strings.Cut(tail, `",`)
	if tail != rest {
		return fmt.Errorf("values changed: %q, want %q", tail, rest)
	}
	return nil
}

// checkPlain gives how many rows were acknowledged and how many came out.
func checkPlain(t *testing.T, dir string, b dataset.BatchID, writers []*crashWriter) (acknowledged, came int) {
	t.Helper()
	rows := exported(t, dir, b)
	for _, w := range writers {
		if w.dedup {
			continue
		}
		for id := range w.stored {
			acknowledged++
			line, ok := rows[id]
			if !ok {
				t.Errorf("row %s was acknowledged and is gone", id)
				continue
			}
			if err := sameRow(line, w.rowOf(id)); err != nil {
				t.Errorf("row %s: %v", id, err)
			}
		}
	}
	// A row whose acknowledgement was lost was written once more, and acknowledged.
	if acknowledged != len(rows) {
		t.Errorf("%d rows were acknowledged, and %d came out", acknowledged, len(rows))
	}
	if acknowledged == 0 {
		t.Error("no row was ever acknowledged")
	}
	return acknowledged, len(rows)
}

// checkDeduplicated gives how many rows were acknowledged and how many came out.
func checkDeduplicated(t *testing.T, dir string, b dataset.BatchID, writers []*crashWriter) (acknowledged, came int) {
	t.Helper()
	byText := map[string]int{}
	for _, line := range exported(t, dir, b) {
		byText[textOf(t, line)]++
		came++
	}
	for text, n := range byText {
		if n != 1 {
			t.Errorf("%q comes %d times", text, n)
		}
	}
	for _, w := range writers {
		if !w.dedup {
			continue
		}
		for id := range w.stored {
			acknowledged++
			if byText[textOf(t, w.rowOf(id))] == 0 {
				t.Errorf("no row has the text of %s, which was acknowledged", id)
			}
		}
	}
	return acknowledged, came
}

func textOf(t *testing.T, line string) string {
	t.Helper()
	var v struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		t.Fatal(err)
	}
	return v.Text
}

func countLines(s string) int { return strings.Count(s, "\n") }
