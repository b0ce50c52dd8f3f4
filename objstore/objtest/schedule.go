package objtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
