package lockd

import (
	"context"
	"slices"
	"sync"
	"time"
)

// queue lets those who want one name come one after the other, in the order in
// which they asked. Only the first of each line asks the store.
type queue struct {
	mu    sync.Mutex
	lines map[string][]*waiter
}

type waiter struct {
	q     *queue
	name  string
	owner string
	ttl   time.Duration
	turn  chan struct{} // closed when it is the first of its line
	woken chan struct{} // the lease was released, here
}

// join takes a place at the end of the line.
func (q *queue) join(name, owner string, ttl time.Duration) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lines == nil {
		q.lines = map[string][]*waiter{}
	}
	w := &waiter{q: q, name: name, owner: owner, ttl: ttl, turn: make(chan struct{}), woken: make(chan struct{}, 1)}
	q.lines[name] = append(q.lines[name], w)
	if len(q.lines[name]) == 1 {
		close(w.turn)
	}
	return w
}

// leave gives the place up, to whoever comes next if it was the first.
func (w *waiter) leave() {
	w.q.mu.Lock()
	defer w.q.mu.Unlock()
	line := w.q.lines[w.name]
	i := slices.Index(line, w)
	line = slices.Delete(line, i, i+1)
	if len(line) == 0 {
		delete(w.q.lines, w.name)
		return
	}
	w.q.lines[w.name] = line
	if i == 0 {
		close(line[0].turn)
	}
}

// ahead is the first of the line, where that is somebody else.
func (w *waiter) ahead() *waiter {
	w.q.mu.Lock()
	defer w.q.mu.Unlock()
	if first := w.q.lines[w.name][0]; first != w {
		return first
	}
	return nil
}

// await waits for the turn, until the time is up.
func (w *waiter) await(ctx context.Context, timeUp <-chan time.Time) (first bool, err error) {
	select {
	case <-w.turn:
		return true, nil
	default:
	}
	select {
	case <-w.turn:
		return true, nil
	case <-timeUp:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// released lets the first of a line look at once.
func (q *queue) released(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if line := q.lines[name]; len(line) > 0 {
		select {
		case line[0].woken <- struct{}{}:
		default:
		}
	}
}

// waiting is how many stand in line.
func (q *queue) waiting(name string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.lines[name])
}
