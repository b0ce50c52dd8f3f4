package objtest

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/siltstone-data/siltstone/objstore"
)

func keysOf(m map[string]*actor) iter.Seq[string] { return maps.Keys(m) }

// do queues a call and waits for its turn.
func (s *Schedule) do(ctx context.Context, c *call) error {
	c.ctx = ctx
	c.answer = make(chan error, 1)
	s.mu.Lock()
	if c.actor.crashed {
		s.mu.Unlock()
		return ErrCrashed
	}
	c.actor.pending = append(c.actor.pending, c)
	s.wake.Broadcast()
	s.mu.Unlock()
	return <-c.answer
}

// perform lets one call happen, with the fault that the seed has for it.
func (s *Schedule) perform(c *call) {
	a := c.actor
	fault := s.draw(c)
	if fault == "Pause" {
		a.paused = s.step + 1 + s.rng.IntN(s.cfg.PauseSteps)
		s.fired[fault]++
		s.note("%s: %s [paused until step %d]", a.name, c.title, a.paused)
		return
	}
	if fault != "" {
		s.fired[fault]++
	}
	if err := c.ctx.Err(); err != nil && !a.crashed {
		s.note("%s: %s -> %v", a.name, c.title, err)
		s.reply(c, fmt.Errorf("%s: %w", c.title, context.Cause(c.ctx)))
		return
	}
	switch fault {
	case "CrashBefore":
		s.note("%s: %s [crashed before it]", a.name, c.title)
		s.crash(a)
	case "CrashAfter":
		out, err := s.effect(context.WithoutCancel(c.ctx), c)
		s.note("%s: %s -> %s [crashed after it]", a.name, c.title, outcome(out, err))
		s.crash(a)
	case "LostAnswer":
		out, err := s.effect(context.WithoutCancel(c.ctx), c)
		s.note("%s: %s -> %s [answer lost]", a.name, c.title, outcome(out, err))
		s.reply(c, lost(c))
	case "LateEffect":
		late := lateEffect{due: s.step + 1 + s.rng.IntN(s.cfg.LateSteps), title: a.name + ": " + c.title}
		ctx := context.WithoutCancel(c.ctx)
		late.apply = func() error { _, err := s.effect(ctx, c); return err }
		s.late = append(s.late, late)
		s.note("%s: %s [no answer, takes effect at step %d]", a.name, c.title, late.due)
		s.reply(c, lost(c))
	case "ReadError":
		s.note("%s: %s [failed]", a.name, c.title)
		s.reply(c, fmt.Errorf("%s: %w", c.title, errAnswerLost))
	default:
		out, err := s.effect(c.ctx, c)
		s.note("%s: %s -> %s", a.name, c.title, outcome(out, err))
		s.reply(c, err)
	}
}

// effect lets a call have its effect on the store.
func (s *Schedule) effect(ctx context.Context, c *call) (out string, err error) {
	s.unlocked(func() { out, err = c.effect(ctx) })
	return out, err
}

// draw picks the fault of a call, or "".
func (s *Schedule) draw(c *call) string {
	p := s.rng.Float64() // drawn for every call, so that sparing one does not shift the others
	spared := c.verb == "sleep"
	if !spared && s.cfg.Spare != nil {
		s.unlocked(func() { spared = s.cfg.Spare(c.actor.name, c.verb, c.key) })
	}
	if spared {
		return ""
	}
	ch := s.cfg.Chances
	for _, f := range []struct {
		name    string
		chance  float64
		applies bool
	}{
		{"CrashBefore", ch.CrashBefore, true},
		{"CrashAfter", ch.CrashAfter, true},
		{"LostAnswer", ch.LostAnswer, c.write},
		{"LateEffect", ch.LateEffect, c.write},
		{"ReadError", ch.ReadError, !c.write},
		{"Pause", ch.Pause, true},
	} {
		if p -= f.chance; p < 0 {
			if f.applies {
				return f.name
			}
			return ""
		}
	}
	return ""
}

// crash ends an actor: whatever it waits for, and all it asks later, fails.
func (s *Schedule) crash(a *actor) {
	a.crashed = true
	a.cancel(ErrCrashed)
	for _, c := range slices.Clone(a.pending) {
		s.reply(c, ErrCrashed)
	}
}

// reply hands a call its answer.
func (s *Schedule) reply(c *call, err error) {
	c.actor.pending = slices.DeleteFunc(c.actor.pending, func(p *call) bool { return p == c })
	c.answer <- err
}

// applyLate lets one late effect happen whose step has come, or, when no actor
// is left, the next one.
func (s *Schedule) applyLate() bool {
	alive := slices.ContainsFunc(slices.Collect(maps.Values(s.actors)), func(a *actor) bool { return a.live })
	best := -1
	for i, l := range s.late {
		if (l.due <= s.step || !alive) && (best < 0 || l.due < s.late[best].due) {
			best = i
		}
	}
	if best < 0 {
		return false
	}
	l := s.late[best]
	s.late = slices.Delete(s.late, best, best+1)
	s.note("%s -> %s [late effect]", l.title, outcome("", l.apply()))
	return true
}

// abandon crashes whoever is left, so that no goroutine outlives the run.
func (s *Schedule) abandon() {
	for _, a := range s.actors {
		s.crash(a)
	}
}

// lost is what a call reports whose answer never came.
func lost(c *call) error {
	if c.verb == "put" || c.verb == "upload" {
		return fmt.Errorf("%s: %w", c.title, objstore.ErrUnknown)
	}
	return fmt.Errorf("%s: %w", c.title, errAnswerLost)
}

func outcome(out string, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case out != "":
		return out
	default:
		return "ok"
	}
}
