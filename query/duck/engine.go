package duck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrBusy reports that every connection is at work: with the expressions of
// others, or with one that was cancelled and does not end.
var ErrBusy = errors.New("DuckDB is busy with other expressions")

// Config holds the settings of an Engine.
type Config struct {
	MemoryBytes int64         // bound of DuckDB's own memory; 256 MB when 0
	Connections int           // expressions that run at once; 2 when 0
	Wait        time.Duration // for a free connection, before ErrBusy; 10 s when 0
}

// Validate names the field that makes a configuration unusable.
func (c Config) Validate() error {
	switch {
	case c.MemoryBytes < 0:
		return fmt.Errorf("duck: MemoryBytes is %d, it must not be negative", c.MemoryBytes)
	case c.Connections < 0:
		return fmt.Errorf("duck: Connections is %d, it must not be negative", c.Connections)
	case c.Wait < 0:
		return fmt.Errorf("duck: Wait is %s, it must not be negative", c.Wait)
	}
	return nil
}

func (c Config) memory() int64       { return cmp.Or(c.MemoryBytes, 256e6) }
func (c Config) connections() int    { return cmp.Or(c.Connections, 2) }
func (c Config) wait() time.Duration { return cmp.Or(c.Wait, 10*time.Second) }

// Engine has one DuckDB database in memory, made when the first expression
// comes. All methods may be called from many goroutines. It is never closed: it
// has no file, and lives as long as the process.
type Engine struct {
	cfg Config

	mu   sync.Mutex
	box  *sandbox   // nil: not made yet
	free chan *slot // slots that nobody has

	sources sync.Map // number of a source -> *source
	last    atomic.Int64
}

// New makes an Engine. It costs nothing until it is used.
func New(cfg Config) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Engine{cfg: cfg}, nil
}

// Shared gives the Engine of those who have none of their own.
var Shared = sync.OnceValue(func() *Engine { return &Engine{} })

// open makes the database if there is none.
func (e *Engine) open() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.box != nil {
		return nil
	}
	box, err := newSandbox(e.cfg, e.source)
	if err != nil {
		return fmt.Errorf("open DuckDB: %w", err)
	}
	n := e.cfg.connections()
	e.box, e.free = box, make(chan *slot, n)
	for range n {
		e.free <- &slot{engine: e, statements: map[string]*statement{}}
	}
	return nil
}

// do runs fn with a connection. When ctx ends, do returns at once and fn keeps
// the connection until it is done: nothing that fn uses may be used again then.
func (e *Engine) do(ctx context.Context, fn func(context.Context, *slot) error) error {
	if err := e.open(); err != nil {
		return err
	}
	s, err := e.acquire(ctx)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		err := s.connect(ctx)
		if err == nil {
			err = fn(ctx, s)
		}
		e.free <- s
		done <- err
	}()
	select {
	case err := <-done:
		if ctx.Err() != nil {
			return context.Cause(ctx) // DuckDB says in many ways that it was interrupted
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (e *Engine) acquire(ctx context.Context) (*slot, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case s := <-e.free:
		return s, nil
	default:
	}
	wait := time.NewTimer(e.cfg.wait())
	defer wait.Stop()
	select {
	case s := <-e.free:
		return s, nil
	case <-wait.C:
		return nil, fmt.Errorf("%w: none of %d connections came free in %s; try again", ErrBusy, e.cfg.connections(), e.cfg.wait())
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// source finds the source that a statement names.
func (e *Engine) source(number int64) (*source, error) {
	s, ok := e.sources.Load(number)
	if !ok {
		return nil, fmt.Errorf("there is no source %d", number)
	}
	return s.(*source), nil
}
