package bus_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/nats/bus"
)

// arrivals counts, for each batch, what has come and what the runs have seen.
type arrivals struct {
	mu        sync.Mutex
	come, run map[string]int
}

func (a *arrivals) add(batch string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.come[batch]++
}

func (a *arrivals) look(batch string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.come[batch]
}

func (a *arrivals) ran(batch string, seen int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.run[batch] = max(a.run[batch], seen)
}

func (a *arrivals) missing() (out []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for b, n := range a.come {
		if a.run[b] < n {
			out = append(out, fmt.Sprintf("%s: %d of %d", b, a.run[b], n))
		}
	}
	return out
}

func TestNoWakeUpIsLostWhileWorkersAndServerDie(t *testing.T) {
	for _, off := range []bool{false, true} {
		t.Run(fmt.Sprintf("claims off %v", off), func(t *testing.T) { campaign(t, off) })
	}
}

func campaign(t *testing.T, claimsOff bool) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	h := serve(t)
	set := func(c *bus.Config) { c.ClaimsOff, c.Timing.Tries = claimsOff, 1000 }
	b := h.join(set)
	a := &arrivals{come: map[string]int{}, run: map[string]int{}}
	var mu sync.Mutex
	chance := func(p float64) bool { mu.Lock(); defer mu.Unlock(); return rnd.Float64() < p }
	start := func() (kill func()) {
		w := h.connect(set)
		dead, die := context.WithCancel(context.Background())
		stop := background(t, func(ctx context.Context) error {
			return w.Work(ctx, bus.KindMerge, 2, func(ctx context.Context, j bus.Job) error {
				seen := a.look(j.Batch.Batch)
				select {
				case <-time.After(5 * time.Millisecond):
				case <-ctx.Done():
					return ctx.Err()
				}
				if dead.Err() != nil || chance(0.1) {
					return errors.New("no luck")
				}
				a.ran(j.Batch.Batch, seen)
				return nil
			})
		})
		return func() { die(); w.Kill(); stop() }
	}
	kills := []func(){start(), start(), start()}
	end := time.Now().Add(3 * time.Second)
	restart := time.Now().Add(time.Second)
	for n := 0; time.Now().Before(end); n++ {
		j := bus.Job{Kind: bus.KindMerge, Batch: id("d", fmt.Sprint("b", n%10))}
		a.add(j.Batch.Batch)
		var err error
		if chance(0.3) {
			err = b.Enqueue(t.Context(), j)
		} else {
			err = b.Debounce(t.Context(), j, 300*time.Millisecond, time.Second)
		}
		if err != nil {
			t.Fatal(err)
		}
		if chance(0.02) {
			i := n % len(kills)
			kills[i]()
			kills[i] = start()
		}
		if time.Now().After(restart) {
			restart = end
			h.down()
			h.up()
		}
	}
	eventually(t, "every arrival was seen by a run", func() bool { return len(a.missing()) == 0 })
	eventually(t, "idle", idle(t, b))
	if m, l := a.missing(), letters(t, b); len(m) > 0 || len(l) > 0 {
		t.Fatalf("missing %v, letters %v", m, l)
	}
}
