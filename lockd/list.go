package lockd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Show describes one lease.
func (l *Leases) Show(ctx context.Context, name string) (Status, error) {
	if err := CheckName(name); err != nil {
		return Status{}, err
	}
	cur, err := l.look(ctx, name)
	if err != nil {
		return Status{}, err
	}
	if cur.rec == nil {
		return Status{}, fmt.Errorf("%w: %s", ErrNoLease, name)
	}
	return cur.status(l.queue.waiting(name)), nil
}

// List describes all leases whose names start with prefix, free ones too: those
// below _locks/, then those of annotators. What is no lease is left out.
func (l *Leases) List(ctx context.Context, prefix string) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		var batch []string
		flush := func() bool {
			some, err := l.statuses(ctx, batch)
			batch = batch[:0]
			for _, st := range some {
				if !yield(st, nil) {
					return false
				}
			}
			return err == nil || yield(Status{}, err)
		}
		for name, err := range l.names(ctx, prefix) {
			if err != nil {
				if flush() {
					yield(Status{}, unreachable(err))
				}
				return
			}
			if batch = append(batch, name); len(batch) == listBatch && !flush() {
				return
			}
		}
		flush()
	}
}

const (
	listBatch  = 64 // leases that are read before the first of them is given
	listAtOnce = 16 // of them at the same time
)

// statuses reads some leases at once, and leaves out what is not there.
func (l *Leases) statuses(ctx context.Context, names []string) ([]Status, error) {
	found := make([]seen, len(names))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(listAtOnce)
	for i, name := range names {
		g.Go(func() error {
			cur, err := l.look(ctx, name)
			if errors.Is(err, ErrAlien) {
				return nil
			}
			found[i] = cur
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var out []Status
	for _, cur := range found {
		if cur.rec != nil {
			out = append(out, cur.status(l.queue.waiting(cur.name)))
		}
	}
	return out, nil
}

// names gives the names that leases with the prefix may have. Those of
// annotators are guessed from the folders that there are.
func (l *Leases) names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if from, ok := within(locksDir, prefix); ok {
			for info, err := range l.store.List(ctx, from, "") {
				if err != nil {
					yield("", err)
					return
				}
				if CheckName(info.Key) == nil && !yield(info.Key, nil) {
					return
				}
			}
		}
		for dataset, err := range l.store.Dirs(ctx, "") {
			if err != nil {
				yield("", err)
				return
			}
			if _, ok := within(dataset, prefix); !ok || !isPlain(dataset) {
				continue
			}
			for annotator, err := range l.store.Dirs(ctx, dataset+"annotations/") {
				if err != nil {
					yield("", err)
					return
				}
				name := annotatorLock(dataset, annotator)
				if strings.HasPrefix(name, prefix) && CheckName(name) == nil && !yield(name, nil) {
					return
				}
			}
		}
	}
}

// within tells whether names below dir can have the prefix, and which of the
// two is the longer.
func within(dir, prefix string) (string, bool) {
	if strings.HasPrefix(prefix, dir) {
		return prefix, true
	}
	return dir, strings.HasPrefix(dir, prefix)
}
