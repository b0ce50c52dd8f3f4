package integration_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

var (
	schedules = flag.Int("schedules", 3000, "how many schedules the simulation runs")
	seed      = flag.Int64("seed", -1, "run this schedule alone, and print its steps")
)

var simBatch = dataset.BatchID{Dataset: "sim", Batch: "b"}

// TestSimulation runs writers, mergers, sweepers and readers over one batch,
// store call by store call in an order that a seed decides, with crashes,
// pauses, lost answers and late effects between any two of them. Nobody claims
// anything and no event arrives: all that protects the rows is the commit.
//
// Every row that was acknowledged before a read began must be in it once, or be
// dropped by a rule; and no write to the store may break a promise of the
// format, whether or not a reader could tell.
func TestSimulation(t *testing.T) {
	dir := t.TempDir()
	if *seed >= 0 {
		simulate(t, dir, uint64(*seed), true)
		return
	}
	n := uint64(*schedules)
	if testing.Short() {
		n = min(n, 300)
	}
	var mu sync.Mutex
	fired, failed := map[string]int{}, false
	t.Run("schedules", func(t *testing.T) {
		shards := uint64(runtime.GOMAXPROCS(0))
		for shard := range shards {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				for s := shard; s < n; s += shards {
					faults, ok := simulate(t, dir, s, false)
					mu.Lock()
					for name, times := range faults {
						fired[name] += times
					}
					failed = failed || !ok
					stop := failed
					mu.Unlock()
					if !ok {
						t.Errorf("replay with: go test ./integration -run TestSimulation -seed %d", s)
					}
					if stop {
						return
					}
				}
			})
		}
	})
	for _, fault := range []string{"CrashBefore", "CrashAfter", "LostAnswer", "LateEffect", "ReadError", "Pause"} {
		if fired[fault] == 0 && !failed {
			t.Errorf("no schedule had a %s", fault)
		}
	}
	t.Logf("%d schedules, faults %v", n, fired)
}

func simulate(t *testing.T, dir string, seed uint64, trace bool) (fired map[string]int, ok bool) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, dir, seed)
		err := s.run()
		if ok = err == nil; !ok {
			t.Errorf("seed %d: %v\n%s", seed, err, s.sched.Trace())
		} else if trace {
			t.Log(s.sched.Trace())
		}
		fired = maps.Clone(s.sched.Fired())
	})
	return fired, ok
}

// simulation is one schedule and what is known of its rows.
type simulation struct {
	t      *testing.T
	seed   uint64
	rnd    *rand.Rand
	sched  *objtest.Schedule
	guard  *guard
	ledger *ledger
	events *events
	dir    string
	lives  map[string]int // starts of an actor
	policy catalog.SweepPolicy
	atOnce int // calls that an actor has under way

	maxJSONL int64 // bytes past which the batch goes over to parquet blocks; 0: never
}

func newSimulation(t *testing.T, dir string, seed uint64) *simulation {
	rnd := rand.New(rand.NewPCG(seed, 42))
	chances := objtest.Chances{}
	if seed%8 != 0 { // some schedules have no faults but the order itself
		chances = objtest.Chances{CrashBefore: .01, CrashAfter: .01, LostAnswer: .03, LateEffect: .03, ReadError: .01, Pause: .04}
	}
	s := &simulation{t: t, seed: seed, rnd: rnd, dir: dir, lives: map[string]int{}, events: &events{}, atOnce: 1}
	s.guard = newGuard(mem.New(mem.Config{Now: func() time.Time { return s.sched.Now() }}), simBatch)
	s.sched = objtest.NewSchedule(seed, objtest.ScheduleConfig{Chances: chances, Jump: .02, Store: s.guard})
	s.ledger = newLedger(rnd)
	if rnd.IntN(4) == 0 {
		s.policy.HistoryMaxAge = 1000 * time.Hour
	}
	if rnd.IntN(4) == 0 {
		s.atOnce = 3
	}
	if seed%4 == 1 {
		s.maxJSONL = 1 + 300*int64(seed/4%4)
	}
	return s
}

func (s *simulation) run() error {
	if s.rnd.IntN(6) == 0 {
		if err := s.inherit(); err != nil {
			return err
		}
	}
	for i, list := range s.ledger.lists {
		s.writer(fmt.Sprintf("writer%d", i), list, s.ledger.draw(s.rnd, 2+s.rnd.IntN(6)))
	}
	if s.rnd.IntN(3) == 0 {
		s.stranger()
	}
	for i := range 2 {
		s.actor(fmt.Sprintf("merger%d", i), s.merges)
	}
	for i := range 1 + s.rnd.IntN(2) {
		s.actor(fmt.Sprintf("sweeper%d", i), s.sweeps)
	}
	s.actor("reader", s.reads)
	if s.rnd.IntN(2) == 0 {
		s.actor("pager", s.pages)
	}
	if err := s.sched.Run(s.t.Context()); err != nil {
		return err
	}
	if err := s.settle(); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	return s.guard.breach()
}

// store is the store without faults, but guarded.
func (s *simulation) store() objstore.Store { return s.sched.Store() }
