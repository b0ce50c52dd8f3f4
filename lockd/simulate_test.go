package lockd_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siltstone-data/siltstone/lockd"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

var (
	seeds     = flag.Uint64("seeds", 3, "how many seeds the simulation runs, each three times")
	firstSeed = flag.Uint64("first-seed", 0, "the first of them")
)

// court is a store that judges every write of the lease in the moment in which
// it takes effect: whoever believes to have the lease must be the one that the
// object names, and tokens must grow.
type court struct {
	*mem.Store

	mu      sync.Mutex
	leases  []*lockd.Lease // that were given and may be believed in
	token   int64          // of the present record
	state   string
	id      string
	wrong   []string
	granted int
}

func (c *court) Put(ctx context.Context, key string, body []byte, cond objstore.Condition) (objstore.Info, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cond == (objstore.Condition{}) {
		c.say("a lease was written without a condition")
	}
	info, err := c.Store.Put(ctx, key, body, cond)
	if err != nil {
		return info, err
	}
	var r struct {
		State, Lease, Owner string
		Token               int64
	}
	if err := json.Unmarshal(body, &r); err != nil {
		c.say("%v", err)
	}
	switch {
	case r.Token < c.token, r.Token == c.token && r.Lease != c.id:
		c.say("token %d of %s after %d", r.Token, r.Owner, c.token)
	}
	c.token, c.state, c.id = r.Token, r.State, r.Lease
	c.judge()
	return info, nil
}

// judge must be called with the lock held.
func (c *court) judge() {
	live := c.leases[:0]
	for _, l := range c.leases {
		left := l.Remaining()
		if left > 0 && (c.state != "held" || l.Token() != c.token) {
			c.say("%s believes to have token %d for %s, the store has %s by token %d", l.Owner(), l.Token(), left, c.state, c.token)
		}
		if left > -time.Hour { // a renewal may revive it
			live = append(live, l)
		}
	}
	c.leases = live
}

func (c *court) say(format string, args ...any) {
	c.wrong = append(c.wrong, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// give notes that somebody was told to have the lease.
func (c *court) give(l *lockd.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.granted++
	c.leases = append(c.leases, l)
	c.judge()
}

func (c *court) gone(l *lockd.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, have := range c.leases {
		if have == l {
			c.leases = append(c.leases[:i], c.leases[i+1:]...)
			return
		}
	}
}

// slow is a store whose answers are on their way for long, now and then.
type slow struct {
	objstore.Store
	mu  sync.Mutex
	rng *rand.Rand
}

func (s *slow) Put(ctx context.Context, key string, body []byte, c objstore.Condition) (objstore.Info, error) {
	info, err := s.Store.Put(ctx, key, body, c)
	s.mu.Lock()
	var late time.Duration
	if s.rng.IntN(20) == 0 {
		late = time.Duration(s.rng.Int64N(int64(15 * time.Second)))
	}
	s.mu.Unlock()
	pass(late)
	return info, err
}

// A line checks that those who wait on one lockd are served in their order.
type line struct {
	mu     sync.Mutex
	asked  int
	served int
}

// use is one client: it takes the lease, again and again, and does with it what
// clients do, until the time is up.
func use(ctx context.Context, l *lockd.Leases, c *court, order *line, who string, rng *rand.Rand, end time.Time) {
	const ttl = 20 * time.Second
	for time.Now().Before(end) && ctx.Err() == nil {
		pass(time.Duration(rng.Int64N(int64(10 * time.Second))))
		order.mu.Lock() // no time passes between the number and the place in the line
		order.asked++
		number := order.asked
		order.mu.Unlock()
		lease, err := l.Acquire(ctx, name, who, ttl, time.Duration(1+rng.Int64N(20))*time.Minute, nil)
		if err != nil {
			continue
		}
		c.give(lease)
		order.mu.Lock()
		if number < order.served {
			c.mu.Lock()
			c.say("%s: place %d was served after place %d", who, number, order.served)
			c.mu.Unlock()
		}
		order.served = max(order.served, number)
		order.mu.Unlock()
		for work := rng.IntN(4); work > 0; work-- {
			pass(time.Duration(rng.Int64N(int64(ttl))))
			if rng.IntN(10) == 0 {
				pass(3 * ttl) // stopped, and going on as if nothing had been
			}
			if err := lease.Renew(ctx, ttl/time.Duration(1+rng.IntN(8))); errors.Is(err, lockd.ErrLost) {
				break
			}
		}
		if rng.IntN(8) > 0 { // or else it dies
			_ = lease.Release(ctx)
			c.gone(lease)
		}
	}
}

// 32 clients want one lease for an hour: straight at the store, by one lockd, or
// by several. Answers are lost, writes come late, processes stand still, and no
// clock is right.
func TestNeverTwoHoldersTokensThatGrowAndOneOrder(t *testing.T) {
	hours, n := time.Hour, *seeds
	if testing.Short() {
		hours, n = 10*time.Minute, 1
	}
	for seed := *firstSeed; seed < *firstSeed+n; seed++ {
		for _, lockds := range []int{1, 4, 32} {
			t.Run(fmt.Sprintf("%d lockds, seed %d", lockds, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { simulate(t, lockds, 32/lockds, seed, hours) })
			})
		}
	}
}

func simulate(t *testing.T, lockds, clients int, seed uint64, hours time.Duration) {
	c := &court{}
	s := objtest.NewSchedule(seed, objtest.ScheduleConfig{
		Chances:  objtest.Chances{LostAnswer: 0.05, LateEffect: 0.05, ReadError: 0.02, Pause: 0.01},
		Store:    c,
		StepTime: 30 * time.Millisecond, PauseSteps: 3000, LateSteps: 500, MaxSteps: 10_000_000,
	})
	c.Store = mem.New(mem.Config{Now: func() time.Time { return s.Now().Truncate(time.Second) }})
	end := time.Now().Add(hours)
	for i := range lockds {
		s.Go(fmt.Sprintf("lockd %d", i), func(ctx context.Context, store objstore.Store) error {
			off := time.Duration(i-lockds/2) * 20 * time.Minute
			store = &slow{Store: store, rng: rand.New(rand.NewPCG(seed, uint64(i+1000)))}
			l := lockd.New(store, lockd.Config{Trusted: true, Now: func() time.Time { return time.Now().Add(off) }})
			var wg sync.WaitGroup
			var order line
			for j := range clients {
				who := fmt.Sprintf("client %d.%d", i, j)
				wg.Go(func() { use(ctx, l, c, &order, who, rand.New(rand.NewPCG(seed, uint64(i*100+j))), end) })
			}
			wg.Wait()
			return nil
		})
	}
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"LostAnswer", "LateEffect", "ReadError", "Pause"} {
		if s.Fired()[f] == 0 {
			t.Errorf("no %s in this run", f)
		}
	}
	if want := int(hours / (2 * time.Minute)); c.granted < want {
		t.Errorf("the lease was taken %d times, want %d and more", c.granted, want)
	}
	t.Logf("the lease was taken %d times; faults: %v", c.granted, s.Fired())
	if len(c.wrong) > 0 {
		t.Errorf("%s", strings.Join(c.wrong[:min(len(c.wrong), 20)], "\n"))
		t.Logf("seed %d; %d lines of trace", seed, strings.Count(s.Trace(), "\n"))
	}
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }
