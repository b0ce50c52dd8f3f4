package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/query"
)

// generations gives all that were committed, in order.
func (g *guard) generations() []generation {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.past)
}

// copyOf is a store that holds a generation alone, as it was.
func (g *guard) copyOf(ctx context.Context, number int64) (objstore.Store, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r, err := g.parse(number)
	if err != nil {
		return nil, err
	}
	s := mem.New(mem.Config{})
	for _, b := range r.Blocks {
		if _, err := s.Put(ctx, g.batch.BlockKey(b.File), g.bodies[b.File], objstore.Condition{}); err != nil {
			return nil, err
		}
	}
	_, err = s.Put(ctx, g.batch.CommitKey(), g.records[number], objstore.Condition{})
	return s, err
}

// looksBack reads generations and moments of the past. It must get exactly the
// rows of then, or a refusal, and that only where nobody has said that history
// is to be kept.
func (s *simulation) looksBack(ctx context.Context, name string, store objstore.Store) error {
	rnd := rand.New(s.random(name))
	for range 6 {
		if err := s.sched.Sleep(ctx, name, time.Duration(rnd.IntN(5000))*time.Millisecond); err != nil {
			return err
		}
		before := s.guard.generations()
		if len(before) == 0 {
			continue
		}
		at := before[rnd.IntN(len(before))]
		m := query.Moment{Generation: at.number}
		if rnd.IntN(2) == 0 {
			m = query.Moment{Time: at.at.Add([]time.Duration{0, -1, 1, time.Second}[rnd.IntN(4)])}
		}
		slow := rnd.IntN(2) == 0
		o := s.options()
		o.Live, o.At = false, &m
		seen, err := s.read(ctx, store, o, func(n int) error {
			if slow && n%2 == 1 {
				return s.sched.Sleep(ctx, name, time.Second)
			}
			return nil
		})
		switch {
		case errors.Is(err, query.ErrNotKept):
			s.guard.happened("past was refused")
		case err == nil:
			s.guard.happened("past was read")
		}
		switch {
		case err == nil:
			err = s.wasSo(ctx, m, before, s.guard.generations(), seen)
		case errors.Is(err, query.ErrNotKept) && s.policy.HistoryMaxAge > 0 && s.guard.lost() == 0:
			err = fmt.Errorf("%w: history is kept for %s: %w", errBroken, s.policy.HistoryMaxAge, err)
		}
		if err := s.outcome(ctx, err); err != nil {
			return fmt.Errorf("a read at %s: %w", m, err)
		}
	}
	return nil
}

// wasSo compares rows with those of a moment. Which generation a time means may
// change while it is read: a commit has the time at which its merger made it.
func (s *simulation) wasSo(ctx context.Context, m query.Moment, before, after []generation, seen []query.Row) error {
	meant := map[int64]bool{m.Generation: true}
	if m.Generation == 0 {
		meant = map[int64]bool{}
		for n := len(before); n <= len(after); n++ {
			of := int64(0)
			for _, g := range after[:n] {
				if !g.at.After(m.Time) {
					of = g.number
				}
			}
			meant[of] = true
		}
	}
	var was string
	for number := range meant {
		var rows []query.Row
		if number > 0 {
			store, err := s.guard.copyOf(ctx, number)
			if err != nil {
				return err
			}
			o := s.options()
			o.Live = false
			if rows, err = s.read(ctx, store, o, nil); err != nil {
				return fmt.Errorf("%w: generation %d: %w", errBroken, number, err)
			}
		}
		if was = listOf(rows); was == listOf(seen) {
			return nil
		}
	}
	return fmt.Errorf("%w: at %s there was %s, and a read gave %s", errBroken, m, was, listOf(seen))
}
