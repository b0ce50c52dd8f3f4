package producers

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/siltstone-data/siltstone/dataset"
)

// parallelRuns is how many runs or batches are opened, ended or looked at at
// once.
const parallelRuns = 8

// layer is what one annotator's worker writes: a run in each batch that it comes
// to. The rows that wait in the buffers of all runs together are never more than
// a chunk may have; so many annotations are lost at most when the process dies.
type layer struct {
	open func(ctx context.Context, batch string, sealed func(rows int64)) (*Writer, error)
	most int64

	mu      sync.Mutex
	parts   map[string]*part
	waiting int64 // rows in all buffers
}

// part is the layer's part in one batch.
type part struct {
	ready   chan struct{} // closed when w or err is set
	w       *Writer
	err     error
	waiting int64 // guarded by layer.mu
}

// add writes a row. When too many wait, the fullest buffer is put on its way.
func (l *layer) add(ctx context.Context, batch string, r dataset.Row) error {
	p, first := l.part(batch)
	if first {
		p.w, p.err = l.open(ctx, batch, func(rows int64) { l.count(p, -rows) })
		close(p.ready)
	}
	select {
	case <-p.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if p.err != nil {
		return p.err
	}
	if err := p.w.WriteRow(ctx, r); err != nil {
		return err
	}
	l.count(p, 1) // the count may have been below zero for a moment
	for {
		fullest := l.fullest()
		if fullest == nil {
			return nil
		}
		if err := fullest.w.push(ctx, false); err != nil {
			return err
		}
	}
}

// part gives the part in a batch, and whether the caller is the first to ask for
// it, who has to open it.
func (l *layer) part(batch string) (p *part, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p = l.parts[batch]
	if first = p == nil; first {
		p = &part{ready: make(chan struct{})}
		l.parts[batch] = p
	}
	return p, first
}

func (l *layer) count(p *part, rows int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.waiting += rows
	l.waiting += rows
}

// fullest is the part with the most rows waiting, where too many wait.
func (l *layer) fullest() *part {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting < l.most {
		return nil
	}
	var most *part
	for _, p := range l.parts {
		if p.waiting > 0 && (most == nil || p.waiting > most.waiting) {
			most = p
		}
	}
	return most
}

// writers are those of all runs. Nobody adds rows meanwhile.
func (l *layer) writers() []*Writer {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ws []*Writer
	for _, p := range l.parts {
		if p.w != nil {
			ws = append(ws, p.w)
		}
	}
	return ws
}

// flush waits until all rows are stored.
func (l *layer) flush(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelRuns)
	for _, w := range l.writers() {
		g.Go(func() error { return w.Flush(ctx) })
	}
	return g.Wait()
}

// close ends all runs, and sums up what they have stored.
func (l *layer) close(ctx context.Context) (sum Result, runs int, err error) {
	ws := l.writers()
	var g errgroup.Group
	g.SetLimit(parallelRuns)
	results, errs := make([]Result, len(ws)), make([]error, len(ws))
	for i, w := range ws {
		g.Go(func() error {
			results[i], errs[i] = w.Close(ctx)
			return nil
		})
	}
	_ = g.Wait()
	for _, r := range results {
		sum.Rows += r.Rows
		sum.Chunks += r.Chunks
		sum.Bytes += r.Bytes
	}
	return sum, len(ws), errors.Join(errs...)
}

// push puts the buffer on its way to the store; an empty one only when it is to
// say that there are no rows.
func (w *Writer) push(ctx context.Context, empty bool) error {
	if err := w.take(ctx); err != nil {
		return err
	}
	defer w.give()
	if w.buf.rows == 0 && !empty {
		return nil
	}
	return w.seal(ctx)
}
