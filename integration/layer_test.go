package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

const simAnnotator = "ann"

var layerBatches = []dataset.BatchID{
	{Dataset: "sim", Batch: "b0", Annotator: simAnnotator},
	{Dataset: "sim", Batch: "b1", Annotator: simAnnotator},
}

// TestSimulationOfOlderLayers lets an older tool write a layer's chunks, which
// hold rows of several batches, while several split them, merge the batches and
// sweep. No line may be lost, whoever crashes, and none may change.
func TestSimulationOfOlderLayers(t *testing.T) {
	dir := t.TempDir()
	n := uint64(*schedules) / 2
	if testing.Short() {
		n = min(n, 100)
	}
	first := *firstSeed
	if *seed >= 0 {
		first, n = uint64(*seed), 1
	}
	for s := first; s < first+n; s++ {
		simulateLayer(t, dir, s, *seed >= 0)
	}
}

func simulateLayer(t *testing.T, dir string, seed uint64, only bool) {
	synctest.Test(t, func(t *testing.T) {
		l := &layerSimulation{simulation: newSimulation(t, dir, seed)}
		if err := l.run(); err != nil {
			t.Errorf("seed %d: %v\n%s", seed, err, l.sched.Trace())
		} else if only {
			t.Log(l.sched.Trace())
		}
	})
}

// layerSimulation is a simulation of a layer: its store has a guard for each
// batch.
type layerSimulation struct {
	*simulation
	guards []*guard
	lines  map[string]bool // that were acknowledged; those of no batch among them
}

func (l *layerSimulation) run() error {
	var store objstore.Store = mem.New(mem.Config{Now: func() time.Time { return l.sched.Now() }})
	for _, b := range layerBatches {
		g := newGuard(store, b)
		l.guards = append(l.guards, g)
		store = g
	}
	chances := objtest.Chances{}
	if l.seed%8 != 0 {
		chances = objtest.Chances{CrashBefore: .01, CrashAfter: .01, LostAnswer: .03, LateEffect: .03, ReadError: .01, Pause: .04}
	}
	l.sched = objtest.NewSchedule(l.seed, objtest.ScheduleConfig{Chances: chances, Jump: .02, Store: store})
	l.lines = map[string]bool{}
	l.maxJSONL = 0
	for n := range 1 + l.rnd.IntN(3) {
		l.olderTool(n)
	}
	for i := range 2 {
		l.actor(fmt.Sprintf("splitter%d", i), l.splits)
	}
	for i, b := range layerBatches {
		l.actor(fmt.Sprintf("merger%d", i), l.mergesOne(b))
		l.actor(fmt.Sprintf("sweeper%d", i), l.sweepsOne(b))
	}
	if err := l.sched.Run(l.t.Context()); err != nil {
		return err
	}
	return l.settle()
}

// olderTool writes a chunk of the older form, and in some schedules again, with
// more lines.
func (l *layerSimulation) olderTool(n int) {
	name := fmt.Sprintf("older tool %d", n)
	key := dataset.OldChunkDir("sim", simAnnotator) + fmt.Sprintf("chunk_%05d.jsonl", n)
	var lines []string
	for i := range 3 + l.rnd.IntN(4) {
		b := layerBatches[l.rnd.IntN(2)].Batch
		lines = append(lines, fmt.Sprintf(`{"id":"id%02d-%d-%d","_batch":%q,"data":{"x":1.0}}`, l.rnd.IntN(20), n, i, b))
	}
	if l.rnd.IntN(2) == 0 {
		lines = append(lines, fmt.Sprintf(`{"id":"lost-%d","data":{}}`, n)) // of no batch
	}
	sizes := []int{len(lines)}
	if l.rnd.IntN(3) == 0 {
		sizes = []int{len(lines) / 2, len(lines)}
	}
	pause := time.Duration(l.rnd.IntN(6)) * time.Second
	l.sched.Go(name, func(ctx context.Context, store objstore.Store) error {
		for _, size := range sizes {
			if err := l.sched.Sleep(ctx, name, pause); err != nil {
				return err
			}
			if _, err := store.Put(ctx, key, []byte(strings.Join(lines[:size], "\n")+"\n"), objstore.Condition{}); err != nil {
				return calm(ctx, err) // whether it is stored, nobody knows
			}
			for _, line := range lines[:size] {
				l.lines[line] = true
			}
		}
		return nil
	})
}

func (l *layerSimulation) splits(ctx context.Context, name string, store objstore.Store) error {
	e := l.engine(name, store, l.sched.Now)
	for range 4 {
		if _, err := e.Split(ctx, "sim", simAnnotator); crashed(ctx, err) {
			return objtest.ErrCrashed
		}
		if err := l.sched.Sleep(ctx, name, 2*time.Second); err != nil {
			return err
		}
	}
	return nil
}

func (l *layerSimulation) mergesOne(b dataset.BatchID) role {
	return func(ctx context.Context, name string, store objstore.Store) error {
		e := l.engine(name, store, l.sched.Now)
		for range 3 {
			if _, err := e.Merge(ctx, b); crashed(ctx, err) {
				return objtest.ErrCrashed
			}
			if err := l.sched.Sleep(ctx, name, 2*time.Second); err != nil {
				return err
			}
		}
		return nil
	}
}

func (l *layerSimulation) sweepsOne(b dataset.BatchID) role {
	return func(ctx context.Context, name string, store objstore.Store) error {
		for range 3 {
			if _, err := catalog.Sweep(ctx, store, b, l.policy, committer(name, l.sched.Now)); crashed(ctx, err) {
				return objtest.ErrCrashed
			}
			if err := l.sched.Sleep(ctx, name, 2*time.Second); err != nil {
				return err
			}
		}
		return nil
	}
}

// settle splits and merges what is left, without faults, and looks for every
// line in the blocks.
func (l *layerSimulation) settle() error {
	ctx, store := l.t.Context(), l.store()
	e := l.engine("last", store, l.sched.Now)
	if res, err := e.Split(ctx, "sim", simAnnotator); err != nil || res.Rest > 0 {
		return fmt.Errorf("the last split: %+v, %w", res, err)
	}
	var have []string
	for i, b := range layerBatches {
		if _, err := e.Merge(ctx, b); err != nil {
			return err
		}
		if err := l.guards[i].breach(); err != nil {
			return err
		}
		rep, err := merger.Verify(ctx, store, b)
		if err != nil || !rep.OK() {
			return fmt.Errorf("verify %s: %+v, %w", b, rep.Problems, err)
		}
		rows, err := mergedLines(ctx, store, b)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if !strings.Contains(row, fmt.Sprintf(`"_batch":%q`, b.Batch)) {
				return fmt.Errorf("%s has %s", b, row)
			}
		}
		have = append(have, rows...)
	}
	for info, err := range store.List(ctx, dataset.OldChunkDir("sim", simAnnotator), "") {
		if err != nil {
			return err
		}
		k := dataset.ParseKey(info.Key)
		if k.Kind == dataset.KindOldChunk && info.Size > 0 || k.Kind == dataset.KindChunk {
			return fmt.Errorf("%s is still there", info.Key)
		}
		if !strings.Contains(info.Key, "/_rejected/") {
			continue
		}
		body, _, err := objstore.ReadAll(ctx, store, info.Key)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(body)) {
			var r merger.Reject
			if err := json.Unmarshal([]byte(line), &r); err != nil || r.Raw == nil {
				return fmt.Errorf("%s: %w in %s", info.Key, err, line)
			}
			have = append(have, *r.Raw)
		}
	}
	slices.Sort(have)
	if all := len(have); all != len(slices.Compact(slices.Clone(have))) {
		return fmt.Errorf("a line comes twice: %q", have)
	}
	for line := range l.lines {
		if _, ok := slices.BinarySearch(have, line); !ok {
			return fmt.Errorf("neither merged nor rejected: %s", line)
		}
	}
	return nil
}

// mergedLines reads the lines of all blocks of a batch.
func mergedLines(ctx context.Context, s objstore.Store, b dataset.BatchID) (lines []string, err error) {
	h, err := catalog.ReadHead(ctx, s, b)
	if err != nil {
		return nil, err
	}
	for _, bl := range h.Record.Blocks {
		body, _, err := s.Get(ctx, b.BlockKey(bl.File), objstore.Span{})
		if err != nil {
			return nil, err
		}
		in, err := block.Open(body)
		if err != nil {
			return nil, err
		}
		for all := block.NewLines(in); ; {
			l, err := all.Next()
			if err != nil {
				break
			}
			lines = append(lines, string(l.Raw))
		}
		_ = in.Close()
		_ = body.Close()
	}
	return lines, nil
}
