package objtest

import (
	"context"
	"time"
)

// Now reads the virtual clock.
func (s *Schedule) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Sleep waits for d on the virtual clock; ctx is that of an actor.
func (s *Schedule) Sleep(ctx context.Context, name string, d time.Duration) error {
	until := s.Now().Add(d)
	return s.do(ctx, &call{actor: s.actor(name), verb: "sleep", title: "sleep " + d.String(), until: until,
		effect: func(context.Context) (string, error) { return "", nil }})
}

// tick moves the clock by the time that a step takes.
func (s *Schedule) tick() {
	d := time.Duration(s.rng.Int64N(int64(s.cfg.StepTime))) + 1
	if s.rng.Float64() < s.cfg.Jump {
		d += time.Duration(s.rng.Int64N(int64(s.cfg.JumpTime)))
	}
	s.advance(d)
}

// leap ends a time in which nobody can move: it goes to the next wake-up.
func (s *Schedule) leap() {
	var next time.Time
	for _, a := range s.actors {
		for _, c := range a.pending {
			if !c.until.IsZero() && (next.IsZero() || c.until.Before(next)) {
				next = c.until
			}
		}
	}
	switch {
	case next.After(s.now):
		s.advance(next.Sub(s.now))
	case s.bubble:
		s.advance(s.cfg.StepTime) // timers of actors
	}
}

func (s *Schedule) advance(d time.Duration) {
	s.now = s.now.Add(d)
	if s.bubble {
		s.mu.Unlock()
		time.Sleep(d)
		s.mu.Lock()
	}
}
