package merger_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

// world is a batch with writers, mergers, a sweeper and readers at work, one
// store call at a time in an order that a seed decides.
type world struct {
	t       *testing.T
	seed    uint64
	s       *objtest.Schedule
	columns []string
	dir     string

	mu      sync.Mutex
	acked   map[string]string // id -> line, of every row whose chunk was acknowledged
	sent    map[string]string // and of those whose fate the writer does not know
	writing int
	lives   int
	reads   int
}

var chaos = objtest.Chances{CrashBefore: .01, CrashAfter: .01, LostAnswer: .04, LateEffect: .04, ReadError: .02, Pause: .05}

func (w *world) run() {
	w.writing = 2
	for i := range 2 {
		name := fmt.Sprint("writer", i)
		w.s.Go(name, func(ctx context.Context, s objstore.Store) error {
			defer func() { w.mu.Lock(); w.writing--; w.mu.Unlock() }()
			return w.write(ctx, s, uint64(i))
		})
		w.merger(fmt.Sprint("merger", i))
	}
	w.s.Go("sweeper", w.sweep)
	w.s.Go("reader", w.read)
	if err := w.s.Run(w.t.Context()); err != nil {
		w.t.Fatalf("%v\n%s", err, w.s.Trace())
	}
}

func (w *world) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writing > 0
}

// write claims a run and puts chunks, trying each until it is stored.
func (w *world) write(ctx context.Context, s objstore.Store, n uint64) error {
	m, err := catalog.ClaimRun(ctx, s, catalog.RunManifest{Dataset: "d", Batch: "b", DeduplicateOn: w.columns, State: catalog.RunOpen}, steady(w.seed*4+n))
	if err != nil {
		return nil // nothing was written
	}
	rng := rand.New(rand.NewPCG(w.seed, n))
	for c := range 4 {
		var lines []string
		w.mu.Lock()
		for l := range 1 + rng.IntN(3) {
			line := row(fmt.Sprintf("%02d-%d.%d.%d", rng.IntN(50), n, c, l), strconv.Itoa(rng.IntN(6)), 1+rng.IntN(9))
			r, _ := dataset.ParseRow([]byte(line))
			w.sent[r.ID] = line
			lines = append(lines, line)
		}
		w.mu.Unlock()
		for {
			_, err := s.Put(ctx, theBatch.ChunkKey(m.Run, c), []byte(strings.Join(lines, "\n")+"\n"), objstore.IfAbsent())
			if err == nil || errors.Is(err, objstore.ErrLost) {
				break
			}
			if errors.Is(err, objtest.ErrCrashed) {
				return err
			}
		}
		w.mu.Lock()
		for _, line := range lines {
			r, _ := dataset.ParseRow([]byte(line))
			w.acked[r.ID] = line
		}
		w.mu.Unlock()
		if err := w.s.Sleep(ctx, fmt.Sprint("writer", n), time.Duration(rng.IntN(5))*time.Second); err != nil {
			return err
		}
	}
	return nil
}

// merger merges while anybody writes, and a little longer; one that crashes is
// followed by another.
func (w *world) merger(name string) {
	w.s.Go(name, func(ctx context.Context, s objstore.Store) error {
		w.mu.Lock()
		w.lives++
		life := w.lives
		w.mu.Unlock()
		cfg := merger.Config{WorkDir: w.dir, Concurrency: 1, BlockRows: 4, Memory: 1 << 20, By: name, Now: w.s.Now, Random: steady(w.seed*50 + uint64(life)), Grace: 1}
		if w.seed%4 == 1 {
			cfg.MaxJSONLBytes = int64(100 * (w.seed % 9)) // the batch goes over it soon, or never
		}
		e, err := merger.New(s, nil, cfg, nil, nil)
		if err != nil {
			return err
		}
		for left := 2; left > 0; {
			if !w.busy() {
				left--
			}
			if _, err := e.Merge(ctx, theBatch); errors.Is(err, objtest.ErrCrashed) || ctx.Err() != nil {
				if life < 8 {
					w.merger(fmt.Sprintf("merger after %s", name))
				}
				return objtest.ErrCrashed
			}
		}
		return nil
	})
}

// sweep sweeps without any grace: the number rule alone must carry safety.
func (w *world) sweep(ctx context.Context, s objstore.Store) error {
	n := 0
	by := catalog.Committer{By: "sweeper", Now: w.s.Now, Commit: func() string { n++; return fmt.Sprint("sweep", n) }}
	for w.busy() {
		if _, err := catalog.Sweep(ctx, s, theBatch, catalog.SweepPolicy{}, by); errors.Is(err, objtest.ErrCrashed) {
			return err
		}
		if err := w.s.Sleep(ctx, "sweeper", time.Second); err != nil {
			return err
		}
	}
	return nil
}

// read reads the batch over and over: what was acknowledged before must be
// there, once.
func (w *world) read(ctx context.Context, s objstore.Store) error {
	for w.busy() {
		w.mu.Lock()
		before := make(map[string]string, len(w.acked))
		for id, line := range w.acked {
			before[id] = line
		}
		w.mu.Unlock()
		got, err := snapshot(ctx, s)
		if errors.Is(err, objtest.ErrCrashed) || errors.Is(err, errBroken) {
			return err
		}
		w.reads++
		if err != nil {
			continue // a read error, or the batch moved on: a reader starts again
		}
		if err := w.judge(before, got); err != nil {
			return err
		}
	}
	return nil
}

// judge compares what was read with what was acknowledged.
func (w *world) judge(acked, got map[string]string) error {
	keys := map[string]bool{}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, line := range got {
		if w.sent[id] != line {
			return fmt.Errorf("row %s is %s, it was written as %s", id, line, w.sent[id])
		}
		keys[keyOf(line)] = true
	}
	for id, line := range acked {
		if _, is := got[id]; !is && (w.columns == nil || !keys[keyOf(line)]) {
			return fmt.Errorf("row %s is lost: %s", id, line)
		}
	}
	return nil
}

func keyOf(line string) string {
	r, _ := dataset.ParseRow([]byte(line))
	k, _ := r.Column("k")
	return string(k)
}

var (
	errMoved  = errors.New("the batch moved on")
	errBroken = errors.New("a promise is broken")
)

// snapshot reads merged and live rows as a reader does: the list first, and
// after a missing chunk the record again.
func snapshot(ctx context.Context, s objstore.Store) (map[string]string, error) {
	snap, err := catalog.Open(ctx, s, theBatch)
	if err != nil {
		return nil, err
	}
	live := map[string]string{}
	for i := 0; i < len(snap.Live); i++ {
		body, _, err := objstore.ReadAll(ctx, s, snap.Live[i].Key())
		if errors.Is(err, objstore.ErrNotFound) {
			h, err := catalog.ReadHead(ctx, s, theBatch)
			if err != nil {
				return nil, err
			}
			if h.Record.Generation == snap.Head.Record.Generation {
				return nil, fmt.Errorf("%w: %s is gone and not absorbed", errBroken, snap.Live[i].Key())
			}
			snap = catalog.Snapshot{Head: h, Live: catalog.Unabsorbed(h, snap.Live)}
			live, i = map[string]string{}, -1
			continue
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(body)) {
			r, err := dataset.ParseRow([]byte(line))
			if err != nil {
				return nil, err
			}
			live[r.ID] = string(r.Raw)
		}
	}
	got := map[string]string{}
	for _, b := range snap.Head.Record.Blocks {
		body, _, err := objstore.ReadAll(ctx, s, theBatch.BlockKey(b.File))
		if errors.Is(err, objstore.ErrNotFound) {
			return nil, errMoved
		}
		if err != nil {
			return nil, err
		}
		rows := blockReader(string(body), b)
		for {
			r, err := rows.Next()
			if err == io.EOF {
				break
			}
			if errors.Is(err, block.ErrDamaged) {
				return nil, fmt.Errorf("%w: %w", errBroken, err)
			}
			if err != nil {
				return nil, err
			}
			if _, twice := got[r.ID]; twice {
				return nil, fmt.Errorf("%w: row %s is merged twice", errBroken, r.ID)
			}
			got[r.ID] = string(r.Raw)
		}
	}
	for id, line := range live {
		if _, is := got[id]; !is {
			got[id] = line
		}
	}
	return got, nil
}

func TestMergersInterleavedInAnyOrderLoseNothing(t *testing.T) {
	seeds := uint64(160)
	if testing.Short() {
		seeds = 30
	}
	from := uint64(0)
	if s := os.Getenv("SILTSTONE_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		from, seeds = n, 1
	}
	commits, reads := int64(0), 0
	dir := t.TempDir()
	for seed := from; seed < from+seeds; seed++ {
		w := &world{t: t, seed: seed, dir: dir, acked: map[string]string{}, sent: map[string]string{},
			s: objtest.NewSchedule(seed, objtest.ScheduleConfig{Chances: chaos, Jump: .05})}
		if seed%2 == 1 {
			w.columns = []string{"k"}
		}
		w.run()
		e := engine(t, w.s.Store(), merger.Config{WorkDir: dir, Concurrency: 1, BlockRows: 4, Now: w.s.Now, Random: steady(seed)})
		for range 2 {
			merge(t, e, theBatch)
		}
		got, err := snapshot(t.Context(), w.s.Store())
		if err == nil {
			err = w.judge(w.acked, got)
		}
		if err != nil {
			t.Fatalf("seed %d, at the end: %v\n%s", seed, err, w.s.Trace())
		}
		if healthy(t, w.s.Store(), theBatch); t.Failed() {
			t.Fatalf("seed %d\n%s", seed, w.s.Trace())
		}
		reads += w.reads
		commits += record(t, w.s.Store(), theBatch).Generation
	}
	t.Logf("%d commits and %d reads in %d schedules", commits, reads, seeds)
}
