package objtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

// ErrCrashed is what every call of a crashed actor returns, and the cause of its
// cancelled context. The actor should return at once; whoever started it may
// start it again under a new name.
var ErrCrashed = errors.New("the actor crashed")

// errAnswerLost is what an operation without an outcome of its own (a delete, a
// read) returns when its answer never came.
var errAnswerLost = errors.New("connection reset: the answer was lost")

// Chances say how likely, from 0 to 1, each fault is at one call. Their sum
// must not exceed 1.
type Chances struct {
	CrashBefore float64 // the actor dies, the call has no effect
	CrashAfter  float64 // the actor dies, the call had its effect
	LostAnswer  float64 // a write has its effect and returns ErrUnknown (a delete: another error)
	LateEffect  float64 // a write returns the same, and has its effect some steps later
	ReadError   float64 // a get or a page of a list fails
	Pause       float64 // the actor stands still before the call while others go on
}

// ScheduleConfig sets up a simulation; the zero value schedules without faults.
type ScheduleConfig struct {
	Chances Chances
	// Spare, if set, names the calls that no fault befalls.
	Spare func(actor, verb, key string) bool

	Store objstore.Store // what Go's actors work on; a new mem.Store when nil
	Start time.Time      // first reading of the clock

	Page       int           // most objects in one page of a list; 3 when 0
	PauseSteps int           // longest pause; 40 when 0
	LateSteps  int           // longest delay of a late effect; 40 when 0
	StepTime   time.Duration // most that one step takes; 200 ms when 0
	Jump       float64       // chance of a step at which the clock jumps
	JumpTime   time.Duration // longest jump; 5 min when 0
	MaxSteps   int           // more steps than this fail the run; 200,000 when 0
}

// Schedule runs actors one store call at a time, in an order that a seed
// decides, with faults that the same seed decides. It waits until every live
// actor is blocked in a call (or has returned), picks one call, lets it happen,
// and hands the answer back. Two runs with one seed are the same run, as long as
// each actor's calls follow from the answers it got.
//
// That holds for actors that make one call at a time. Run an actor that works
// with several goroutines inside synctest.Test: the schedule notices the bubble,
// waits for every goroutine in it, and moves the bubble's clock along with its
// own, so that timers of actors fire. (There, no goroutine may hold a mutex
// during a store call that another goroutine wants: a bubble cannot see that it
// is blocked.)
type Schedule struct {
	seed   uint64
	cfg    ScheduleConfig
	store  objstore.Store
	bubble bool

	mu     sync.Mutex
	wake   *sync.Cond // an actor is now blocked, or done
	rng    *rand.Rand // used by the scheduling goroutine only
	now    time.Time
	step   int
	actors map[string]*actor
	late   []lateEffect
	trace  []string
	fired  map[string]int
	errs   []error
	stall  string
}

type actor struct {
	name    string
	ctx     context.Context
	cancel  context.CancelCauseFunc
	live    bool // its goroutine runs
	crashed bool
	paused  int // not picked before this step
	pending []*call
}

type lateEffect struct {
	due   int
	title string
	apply func() error
}

// call is a store call that waits to be picked.
type call struct {
	actor  *actor
	verb   string
	key    string
	title  string
	write  bool
	until  time.Time // a sleep: not before this time
	effect func(ctx context.Context) (string, error)
	ctx    context.Context
	answer chan error
}

// NewSchedule is a simulation without actors. Everything random in it follows
// from the seed.
func NewSchedule(seed uint64, cfg ScheduleConfig) *Schedule {
	cfg.Page = cmp.Or(cfg.Page, 3)
	cfg.PauseSteps = cmp.Or(cfg.PauseSteps, 40)
	cfg.LateSteps = cmp.Or(cfg.LateSteps, 40)
	cfg.StepTime = cmp.Or(cfg.StepTime, 200*time.Millisecond)
	cfg.JumpTime = cmp.Or(cfg.JumpTime, 5*time.Minute)
	cfg.MaxSteps = cmp.Or(cfg.MaxSteps, 200_000)
	s := &Schedule{
		seed: seed, cfg: cfg, bubble: inBubble(), now: cfg.Start,
		rng:    rand.New(rand.NewPCG(seed, 0x5117)),
		actors: map[string]*actor{}, fired: map[string]int{},
	}
	if s.bubble {
		s.now = time.Now()
	} else if s.now.IsZero() {
		s.now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	s.wake = sync.NewCond(&s.mu)
	s.store = cfg.Store
	if s.store == nil {
		s.store = mem.New(mem.Config{Now: s.Now})
	}
	return s
}

func inBubble() (yes bool) {
	defer func() { yes = recover() == nil }()
	synctest.Wait()
	return
}

// Store is what the actors work on, unscheduled: for preparing and judging.
func (s *Schedule) Store() objstore.Store { return s.store }

// Now reads the virtual clock.
func (s *Schedule) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Go starts an actor on the schedule's store. It may be called at any time, by
// an actor too; names must be new. The error of fn fails the run unless it is
// ErrCrashed.
func (s *Schedule) Go(name string, fn func(ctx context.Context, store objstore.Store) error) {
	a := s.actor(name)
	s.mu.Lock()
	if a.live {
		s.mu.Unlock()
		panic("objtest: two actors named " + name)
	}
	a.live = true
	s.mu.Unlock()
	go func() {
		err := fn(a.ctx, s.Actor(name, s.store))
		s.mu.Lock()
		defer s.mu.Unlock()
		a.live = false
		if err != nil && !errors.Is(err, ErrCrashed) && !a.crashed {
			s.errs = append(s.errs, fmt.Errorf("%s: %w", name, err))
		}
		s.wake.Broadcast()
	}()
}

// Actor is the view that the named actor has of a store. Each of its calls is a
// step: each page of a list too, and a get with the reading of its body.
func (s *Schedule) Actor(name string, store objstore.Store) objstore.Store {
	return &view{s: s, a: s.actor(name), store: store}
}

// Sleep waits for d on the virtual clock; ctx is that of an actor.
func (s *Schedule) Sleep(ctx context.Context, name string, d time.Duration) error {
	until := s.Now().Add(d)
	return s.do(ctx, &call{actor: s.actor(name), verb: "sleep", title: "sleep " + d.String(), until: until,
		effect: func(context.Context) (string, error) { return "", nil }})
}

// Fired counts the faults that happened, by the names of Chances' fields.
func (s *Schedule) Fired() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]int, len(s.fired))
	for k, v := range s.fired {
		out[k] = v
	}
	return out
}

// Trace is the log of the steps, one a line, headed by the seed.
func (s *Schedule) Trace() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("seed %d\n%s\n", s.seed, strings.Join(s.trace, "\n"))
}

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

// unlocked runs fn without the lock: a store may read the clock.
func (s *Schedule) unlocked(fn func()) {
	s.mu.Unlock()
	defer s.mu.Lock()
	fn()
}

func (s *Schedule) actor(name string) *actor {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.actors[name]
	if !ok {
		a = &actor{name: name}
		a.ctx, a.cancel = context.WithCancelCause(context.Background())
		s.actors[name] = a
	}
	return a
}

func (s *Schedule) note(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf("%5d %s ", s.step, s.now.UTC().Format("15:04:05.000"))+fmt.Sprintf(format, args...))
}
