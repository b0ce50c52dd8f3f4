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
	schedules = flag.Int("schedules", 1000, "how many schedules the simulation runs")
	firstSeed = flag.Uint64("first-seed", 0, "seed of the first of them")
	seed      = flag.Int64("seed", -1, "run this schedule alone, and print its steps")
)

var simBatch = dataset.BatchID{Dataset: "sim", Batch: "b"}

// TestSimulation runs writers, mergers, converters, sweepers, repairs and readers
// of the present and the past over one batch, store call by store call in an order
// that a seed decides, with crashes, pauses, lost answers and late effects between
// any two of them. Nobody claims anything and no event arrives: all that protects
// the rows is the commit.
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
		n = min(n, 150)
	}
	var mu sync.Mutex
	fired, failed := map[string]int{}, false
	t.Run("schedules", func(t *testing.T) {
		shards := uint64(runtime.GOMAXPROCS(0))
		for shard := range shards {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				one := func(s uint64) (stop bool) {
					var saw map[string]int
					ok := false
					defer func() { // a bubble that fails ends the test
						mu.Lock()
						defer mu.Unlock()
						for name, times := range saw {
							fired[name] += times
						}
						if !ok {
							t.Errorf("replay with: go test ./integration -run TestSimulation -seed %d", s)
							failed = true
						}
						stop = failed
					}()
					saw, ok = simulate(t, dir, s, false)
					return
				}
				for s := *firstSeed + shard; s < *firstSeed+n; s += shards {
					if one(s) {
						return
					}
				}
			})
		}
	})
	for _, what := range []string{
		"CrashBefore", "CrashAfter", "LostAnswer", "LateEffect", "ReadError", "Pause",
		"digest files joined", "deduplicated on less", "blocks kept", "gone over to parquet", "converted to lines",
		"merged.parquet was adopted", "record made anew", "digests made anew", "index made anew",
		"past was read", "past was refused", "dry run",
	} {
		if fired[what] == 0 && !failed && n >= 1000 {
			t.Errorf("in no schedule: %s", what)
		}
	}
	t.Logf("%d schedules: %v", n, fired)
}

func simulate(t *testing.T, dir string, seed uint64, trace bool) (fired map[string]int, ok bool) {
	one := func(t *testing.T) {
		s := newSimulation(t, dir, seed)
		err := s.run()
		if ok = err == nil; !ok {
			t.Errorf("seed %d: %v\n%s", seed, err, s.sched.Trace())
		} else if trace {
			t.Log(s.sched.Trace())
		}
		fired = maps.Clone(s.sched.Fired())
		maps.Copy(fired, s.guard.saw)
	}
	if withParquet(seed) {
		// Compressors of parquet files are pooled in the process, and have channels: a
		// bubble would find those of another one. These actors make one call at a time.
		one(t)
	} else {
		synctest.Test(t, one)
	}
	return fired, ok
}

// withParquet tells whether files of a schedule may be parquet.
func withParquet(seed uint64) bool { return seed%4 == 1 }

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

	blockRows, blockBytes int64 // of a block at most
	growth                int64 // of digest files that are joined
	rounds                int   // merges of a merger
	index                 bool  // blocks are indexed

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
	if withParquet(seed) {
		s.atOnce, s.maxJSONL, s.index = 1, 1+60*int64(seed/4%4), rnd.IntN(3) == 0
	}
	s.rounds = 4
	s.blockRows, s.growth = []int64{2, 3, 3, 8}[rnd.IntN(4)], 2+int64(rnd.IntN(2))
	if rnd.IntN(4) == 0 {
		s.blockBytes = 150
	}
	if rnd.IntN(4) == 0 { // many rows that differ, so that blocks and digests have tiers
		s.ledger.ids, s.ledger.keys, s.rounds = 40, 24, 8
		if len(s.ledger.columns()) == 0 {
			s.ledger.lists[0] = []string{"k", "m"}
			s.ledger.opinions[0] = s.ledger.lists[0]
		}
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
		s.writer(fmt.Sprintf("writer%d", i), list, s.ledger.draw(s.rnd, s.ledger.ids/6+s.rnd.IntN(6)))
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
	s.others()
	if err := s.sched.Run(s.t.Context()); err != nil {
		return err
	}
	if err := s.settle(); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	return s.guard.breach()
}

// others are those that come now and then.
func (s *simulation) others() {
	if s.rnd.IntN(3) == 0 || s.policy.HistoryMaxAge > 0 {
		s.actor("historian", s.looksBack)
	}
	if s.rnd.IntN(4) == 0 {
		s.actor("gc", s.collects)
	}
	if withParquet(s.seed) && s.rnd.IntN(2) == 0 {
		s.actor("converter", s.converts)
	}
	if s.index {
		s.actor("indexer", s.indexes)
	}
	if s.rnd.IntN(3) == 0 {
		s.actor("verifier", s.verifies)
		if s.rnd.IntN(3) > 0 {
			s.saboteur()
		}
	}
}

// store is the store without faults, but guarded.
func (s *simulation) store() objstore.Store { return s.sched.Store() }
