package integration_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/objtest"
	"github.com/siltstone-data/siltstone/producers"
	"github.com/siltstone-data/siltstone/query"
)

var (
	schedules = flag.Int("schedules", 3000, "how many schedules the simulation runs")
	seed      = flag.Int64("seed", -1, "run this schedule alone, and print its steps")
)

var simBatch = dataset.BatchID{Dataset: "sim", Batch: "b"}

// TestSimulation runs writers, mergers, a sweeper and a reader over one batch,
// store call by store call in an order that a seed decides, with crashes,
// pauses, lost answers and late effects between any two of them. Nobody claims
// anything and no event arrives: all that protects the rows is the commit.
//
// Every row that was acknowledged before a read began must be in it once, or be
// dropped by a rule.
func TestSimulation(t *testing.T) {
	if *seed >= 0 {
		simulate(t, uint64(*seed), true)
		return
	}
	n := *schedules
	if testing.Short() {
		n = min(n, 300)
	}
	fired := map[string]int{}
	for s := range uint64(n) {
		for name, times := range simulate(t, s, false) {
			fired[name] += times
		}
		if t.Failed() {
			t.Fatalf("replay with: go test ./integration -run TestSimulation -seed %d", s)
		}
	}
	for _, fault := range []string{"CrashBefore", "CrashAfter", "LostAnswer", "LateEffect", "ReadError", "Pause"} {
		if fired[fault] == 0 {
			t.Errorf("no schedule had a %s", fault)
		}
	}
	t.Logf("%d schedules, faults %v", n, fired)
}

func simulate(t *testing.T, seed uint64, trace bool) (fired map[string]int) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, seed)
		err := s.run()
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		if trace {
			t.Log(s.sched.Trace())
		}
		fired = s.sched.Fired()
	})
	return fired
}

// simulation is one schedule and what is known of its rows.
type simulation struct {
	t      *testing.T
	seed   uint64
	rnd    *rand.Rand
	sched  *objtest.Schedule
	ledger *ledger
	dir    string
	lives  map[string]int // starts of an actor under the names name, name', name'' …
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	rnd := rand.New(rand.NewPCG(seed, 42))
	chances := objtest.Chances{}
	if seed%8 != 0 { // some schedules have no faults but the order itself
		chances = objtest.Chances{CrashBefore: .01, CrashAfter: .01, LostAnswer: .03, LateEffect: .03, ReadError: .01, Pause: .04}
	}
	return &simulation{
		t: t, seed: seed, rnd: rnd,
		sched:  objtest.NewSchedule(seed, objtest.ScheduleConfig{Chances: chances, Jump: .02}),
		ledger: newLedger(rnd), dir: t.TempDir(), lives: map[string]int{},
	}
}

func (s *simulation) run() error {
	for i, list := range s.ledger.lists {
		s.writer(fmt.Sprintf("writer%d", i), list, s.ledger.draw(s.rnd, 2+s.rnd.IntN(6)))
	}
	for i := range 2 {
		s.actor(fmt.Sprintf("merger%d", i), func(ctx context.Context, name string, store objstore.Store) error {
			return s.merges(ctx, name, store, 4)
		})
	}
	s.actor("sweeper", s.sweeps)
	s.actor("reader", s.reads)
	if err := s.sched.Run(s.t.Context()); err != nil {
		return fmt.Errorf("%w\n%s", err, s.sched.Trace())
	}
	if err := s.settle(); err != nil {
		return fmt.Errorf("%w\n%s", err, s.sched.Trace())
	}
	return nil
}

// actor starts an actor, and starts it again when it crashes.
func (s *simulation) actor(role string, fn func(ctx context.Context, name string, store objstore.Store) error) {
	name := fmt.Sprintf("%s#%d", role, s.lives[role])
	s.lives[role]++
	s.sched.Go(name, func(ctx context.Context, store objstore.Store) error {
		err := fn(ctx, name, store)
		if crashed(ctx, err) && s.lives[role] < 4 {
			s.actor(role, fn)
		}
		return err
	})
}

func crashed(ctx context.Context, err error) bool {
	return errors.Is(err, objtest.ErrCrashed) || errors.Is(context.Cause(ctx), objtest.ErrCrashed)
}

// random is a source that repeats with the seed, different for each actor.
func (s *simulation) random(name string) *rand.ChaCha8 {
	var key [32]byte
	copy(key[:], fmt.Sprintf("%d/%s", s.seed, name))
	return rand.NewChaCha8(key)
}

// writer writes rows; after a crash a new run writes those that were not
// acknowledged, again.
func (s *simulation) writer(role string, list []string, rows []simRow) {
	s.actor(role, func(ctx context.Context, name string, store objstore.Store) error {
		opts := []producers.Option{
			producers.ChunkRows(2), producers.ChunkAge(0), producers.Name(name),
			producers.Clock(s.sched.Now), producers.Random(s.random(name)),
			producers.OnStored(s.ledger.acknowledge),
		}
		if list != nil {
			opts = append(opts, producers.DeduplicateOn(list...))
		}
		w, err := producers.OpenBatch(ctx, store, nil, slog.New(slog.DiscardHandler), simBatch, opts...)
		if err != nil {
			return calm(ctx, err)
		}
		for _, r := range rows {
			if s.ledger.acknowledged(r.ID) {
				continue
			}
			if err := w.Write(ctx, []byte(r.line)); err != nil {
				_, _ = w.Abort(ctx)
				return calm(ctx, err)
			}
		}
		_, err = w.Close(ctx)
		return calm(ctx, err)
	})
}

// calm is the error of a crash, or none: an actor may fail, and only that.
func calm(ctx context.Context, err error) error {
	if crashed(ctx, err) {
		return objtest.ErrCrashed
	}
	return nil
}

func (s *simulation) engine(name string, store objstore.Store) *merger.Engine {
	e, err := merger.New(store, nil, merger.Config{
		WorkDir: s.dir, Memory: 4 << 20, Concurrency: 1, BlockRows: 3, Grace: time.Nanosecond,
		By: name, Now: s.sched.Now, Random: s.random(name),
	}, nil, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return e
}

func (s *simulation) merges(ctx context.Context, name string, store objstore.Store, times int) error {
	e := s.engine(name, store)
	for range times {
		if _, err := e.Merge(ctx, simBatch); crashed(ctx, err) {
			return objtest.ErrCrashed
		}
		if err := s.sched.Sleep(ctx, name, 2*time.Second); err != nil {
			return err
		}
	}
	return nil
}

// sweeps sweeps without any grace: the number rule alone must carry safety.
func (s *simulation) sweeps(ctx context.Context, name string, store objstore.Store) error {
	n := 0
	for range 6 {
		_, err := catalog.Sweep(ctx, store, simBatch, catalog.SweepPolicy{}, catalog.Committer{
			By: name, Now: s.sched.Now,
			Commit: func() string { n++; return fmt.Sprintf("%s-%d", name, n) },
		})
		if crashed(ctx, err) {
			return objtest.ErrCrashed
		}
		if err := s.sched.Sleep(ctx, name, time.Second); err != nil {
			return err
		}
	}
	return nil
}

func (s *simulation) reads(ctx context.Context, name string, store objstore.Store) error {
	for range 6 {
		due := s.ledger.stored()
		var seen []query.Row
		var failure error
		for row, err := range query.Rows(ctx, store, query.Options{Dataset: simBatch.Dataset, Batches: []string{simBatch.Batch}, Live: true, WorkDir: s.dir, Parallel: 1}) {
			if err != nil {
				failure = err
				break
			}
			seen = append(seen, row)
		}
		switch {
		case crashed(ctx, failure):
			return objtest.ErrCrashed
		case failure == nil:
			if err := s.ledger.check(due, seen); err != nil {
				return fmt.Errorf("a read: %w", err)
			}
		case errors.Is(failure, query.ErrDamaged):
			return fmt.Errorf("a read: %w", failure)
		}
		if err := s.sched.Sleep(ctx, name, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// settle merges what is left, without faults, and checks the end.
func (s *simulation) settle() error {
	store := s.sched.Store()
	ctx := s.t.Context()
	due := s.ledger.stored()
	for range 2 {
		if _, err := s.engine("last", store).Merge(ctx, simBatch); err != nil {
			return fmt.Errorf("the last merge: %w", err)
		}
	}
	snap, err := catalog.Open(ctx, store, simBatch)
	if err != nil {
		return err
	}
	if len(snap.Live) > 0 {
		return fmt.Errorf("%d chunks are live after the last merge", len(snap.Live))
	}
	var seen []query.Row
	for row, err := range query.Rows(ctx, store, query.Options{Dataset: simBatch.Dataset, WorkDir: s.dir, Parallel: 1}) {
		if err != nil {
			return fmt.Errorf("the last read: %w", err)
		}
		seen = append(seen, row)
	}
	if err := s.ledger.check(due, seen); err != nil {
		return fmt.Errorf("the last read: %w", err)
	}
	if err := s.ledger.checkNoDuplicates(snap.Head.Record.DeduplicateOn, seen); err != nil {
		return err
	}
	rep, err := merger.Verify(ctx, store, simBatch)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	if !rep.OK() {
		return fmt.Errorf("verify: %+v", rep.Problems)
	}
	return nil
}
