package producers

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query"
)

// Func annotates one row. It has to return soon after its context has ended:
// a lease that was lost, or a timeout.
type Func func(ctx context.Context, row dataset.Row) (dataset.Annotation, error)

// Worker annotates rows, one after the other. Each slot of the concurrency has
// its own. An error that is no *CallError is one of KindError.
type Worker interface {
	// Annotate gives data and metadata as JSON objects, valid until the next call.
	// Metadata beside an error says what the call cost all the same.
	Annotate(ctx context.Context, row query.Row) (data, metadata []byte, err error)
	Close() error
}

// severalWorker is a Worker that would rather have several rows at once.
type severalWorker interface {
	Worker
	// Ahead is how many rows it should get; 1 means one at a time.
	Ahead() int
	// AnnotateAll gives to each what came of rows, in their order, and says of how
	// many. The others are to be asked for one by one.
	AnnotateAll(ctx context.Context, rows []query.Row, each func(row query.Row, data, metadata []byte, err error)) (done int)
}

// FatalError is what a Worker gives when no row will ever be annotated: it ends
// the work.
type FatalError struct{ Err error }

func (e *FatalError) Error() string { return e.Err.Error() }
func (e *FatalError) Unwrap() error { return e.Err }

const (
	// callGrace is how long a function may go on after its context has ended. Then
	// it is left behind, and its answer is dropped.
	callGrace = 5 * time.Second
	// mostLeft bounds the calls that are left behind and still go on.
	mostLeft = 64
)

// funcWorker is a Worker of a Func.
type funcWorker struct {
	fn   Func
	left *atomic.Int64 // calls that go on although nobody waits for them
}

// Close does nothing.
func (w funcWorker) Close() error { return nil }

type answer struct {
	data, metadata []byte
	err            error
}

// Annotate calls the function.
func (w funcWorker) Annotate(ctx context.Context, row query.Row) (data, metadata []byte, err error) {
	answered := make(chan answer)
	gone := make(chan struct{})
	go func() {
		a := w.call(ctx, row.Row)
		select {
		case answered <- a:
		case <-gone:
			w.left.Add(-1)
		}
	}()
	select {
	case a := <-answered:
		return a.data, a.metadata, a.err
	case <-ctx.Done():
	}
	t := time.NewTimer(callGrace)
	defer t.Stop()
	select {
	case a := <-answered:
		return a.data, a.metadata, a.err
	case <-t.C:
	}
	close(gone)
	if n := w.left.Add(1); n > mostLeft {
		return nil, nil, &FatalError{fmt.Errorf("%d calls go on although they were cancelled: a function has to return when its context ends", n)}
	}
	return nil, nil, fmt.Errorf("the call goes on %s after it was cancelled: %w", callGrace, context.Cause(ctx))
}

func (w funcWorker) call(ctx context.Context, row dataset.Row) (a answer) {
	defer func() {
		if v := recover(); v != nil {
			a = answer{err: callErrorf(KindPanic, "%v", v)}
		}
	}()
	note, err := w.fn(ctx, row)
	if err != nil {
		a.metadata, _ = encodePart(note.Metadata)
		return answer{metadata: a.metadata, err: err}
	}
	if a.data, err = encodePart(note.Data); err != nil {
		return answer{err: callErrorf(KindInvalid, "data: %v", err)}
	}
	if a.metadata, err = encodePart(note.Metadata); err != nil {
		return answer{err: callErrorf(KindInvalid, "metadata: %v", err)}
	}
	return a
}

// encodePart is encode of a part of an annotation, which may be missing.
func encodePart(v any) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	return encode(v)
}
