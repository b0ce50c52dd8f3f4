package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/producers"
)

// follower waits for merges of the dataset's batches. It needs no memory of its
// own: what is not annotated is seen in the layer, so a run that starts again
// begins with that, and follows from where it began.
func (c *annotateCmd) follower(ctx context.Context, a *app) (producers.Follower, error) {
	b, err := a.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("--follow: %w", err)
	}
	from, err := b.Position(ctx)
	if err != nil {
		return nil, fmt.Errorf("--follow: %w", err)
	}
	m := &merges{news: make(chan struct{}, 1), batches: map[string]bool{}}
	go m.tail(ctx, b, from, c)
	return m.wait, nil
}

// merges collects the batches that were merged.
type merges struct {
	mu      sync.Mutex
	batches map[string]bool
	all     bool // events were lost: every batch may have been merged
	err     error
	news    chan struct{}
}

func (m *merges) tail(ctx context.Context, b *bus.Bus, from bus.Position, c *annotateCmd) {
	for {
		var err error
		for e, tailErr := range b.Tail(ctx, bus.TailFrom{After: from}, true) {
			if err = tailErr; err != nil {
				break
			}
			from = e.Position
			if e.Event.Type == dataset.BatchMerged && e.Event.Dataset == c.Dataset && (c.Batch == nil || slices.Contains(c.Batch, e.Event.Batch)) {
				m.tell(func() { m.batches[e.Event.Batch] = true })
			}
		}
		if errors.Is(err, bus.ErrReset) {
			if from, err = b.Position(ctx); err == nil {
				m.tell(func() { m.all = true })
				continue
			}
		}
		m.tell(func() { m.err = err })
		return
	}
}

func (m *merges) tell(change func()) {
	m.mu.Lock()
	change()
	m.mu.Unlock()
	select {
	case m.news <- struct{}{}:
	default:
	}
}

// wait gives the batches that were merged since it was called last.
func (m *merges) wait(ctx context.Context) ([]string, error) {
	for {
		select {
		case <-m.news:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		m.mu.Lock()
		batches, all, err := slices.Sorted(maps.Keys(m.batches)), m.all, m.err
		clear(m.batches)
		m.all = false
		m.mu.Unlock()
		switch {
		case all:
			return nil, nil // a read of no batches by name is one of all
		case len(batches) > 0:
			return batches, nil
		case err != nil:
			return nil, err
		}
	}
}
