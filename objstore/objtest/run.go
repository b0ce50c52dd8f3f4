package objtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing/synctest"
	"time"
)

// Run schedules until every actor has returned and no late effect is left. The
// error joins those of the actors.
func (s *Schedule) Run(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stall = "the run was cancelled"
		s.wake.Broadcast()
	})
	defer stop()
	watch := s.watch()
	for idle := 0; ; {
		if watch != nil {
			watch.Reset(stallTime)
		}
		live := s.settle()
		if s.stall == "" && s.step >= s.cfg.MaxSteps {
			s.stall = fmt.Sprintf("no end after %d steps", s.step)
		}
		if s.stall != "" {
			s.abandon()
			return errors.Join(append(s.errs, fmt.Errorf("seed %d: %s", s.seed, s.stall))...)
		}
		if !live && len(s.late) == 0 {
			if watch != nil {
				watch.Stop()
			}
			return errors.Join(s.errs...)
		}
		s.step++
		if s.tick(); s.bubble {
			s.settle() // the clock may have woken somebody
		}
		if s.next() {
			idle = 0
		} else if idle++; idle > 10_000 {
			s.stall = "the actors wait for something that never comes"
		}
	}
}

// stallTime is how long, by the real clock, an actor may be busy between calls.
const stallTime = time.Minute

// watch ends a run in which an actor waits for something outside the schedule.
// A bubble finds that out by itself.
func (s *Schedule) watch() *time.Timer {
	if s.bubble {
		return nil
	}
	return time.AfterFunc(stallTime, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for name, a := range s.actors {
			if a.live && len(a.pending) == 0 {
				s.stall = fmt.Sprintf("after step %d, %s neither calls the store nor returns", s.step, name)
			}
		}
		s.wake.Broadcast()
	})
}

// settle waits until nothing can happen but by a step, and tells whether actors
// are left. The lock is held on entry and on return.
func (s *Schedule) settle() bool {
	if s.bubble {
		s.mu.Unlock()
		synctest.Wait()
		s.mu.Lock()
	}
	for s.stall == "" {
		live, running := false, false
		for _, a := range s.actors {
			live = live || a.live || len(a.pending) > 0
			running = running || a.live && len(a.pending) == 0
		}
		if s.bubble || !running {
			if !s.bubble { // let the other goroutines of an actor reach their calls too
				s.mu.Unlock()
				runtime.Gosched()
				s.mu.Lock()
			}
			return live
		}
		s.wake.Wait()
	}
	return true
}

// next takes one step and tells whether there was one to take.
func (s *Schedule) next() bool {
	if s.applyLate() {
		return true
	}
	var ready []*call
	for _, name := range slices.Sorted(keysOf(s.actors)) {
		a := s.actors[name]
		if a.paused > s.step {
			continue
		}
		for _, c := range a.pending {
			if c.ctx.Err() != nil || !c.until.After(s.now) {
				ready = append(ready, c)
			}
		}
	}
	if len(ready) == 0 {
		s.leap()
		return false
	}
	// Goroutines of one actor arrive in any order; sorting makes it the same order.
	slices.SortStableFunc(ready, func(a, b *call) int {
		return cmp.Or(cmp.Compare(a.actor.name, b.actor.name), cmp.Compare(a.title, b.title))
	})
	s.perform(ready[s.rng.IntN(len(ready))])
	return true
}
