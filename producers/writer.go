package producers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// Writer puts rows into one batch. It may be used from many goroutines at once,
// and must be ended with Close or Abort.
type Writer struct {
	store    objstore.Store
	announce *announcements
	log      *slog.Logger
	batch    dataset.BatchID
	run      dataset.Run
	opt      options
	stamper  *dataset.Stamper

	// ctx is that of the puts. They outlive the call that filled their chunk, so
	// they end with the writer, not with a caller's context.
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // puts and the age timer

	// turn guards the buffer. It is a channel because whoever holds it may wait
	// for a slot, and waiting for it must end with the caller's context.
	turn   chan struct{}
	buf    chunk
	room   int         // what its body takes, to go by the last one
	next   int         // number of the chunk being filled
	timer  *time.Timer // of the rows in the buffer; nil without any
	closed bool
	slots  chan struct{} // one for each put under way

	mu        sync.Mutex // guards what follows; never held while waiting
	manifest  catalog.RunManifest
	accepted  int64 // rows
	rejected  int64
	ending    bool // Close or Abort has begun
	underWay  map[int]*chunk
	failed    []int
	unsettled []*chunk      // failed ones of a run under a lease: they may have been stored
	failure   error         // of the first chunk that failed
	broken    chan struct{} // closed when failure is set
	finished  chan struct{} // closed when result and finalErr are set
	result    Result
	finalErr  error
	storedSeq sync.Mutex // one OnStored at a time
}

// Open starts a run in a batch of a dataset: it claims a run id by creating the
// run manifest. ctx bounds that alone; the writer lives until Close or Abort.
// announce may be nil.
func Open(ctx context.Context, store objstore.Store, announce Announcer, log *slog.Logger, ds, batch string, opts ...Option) (*Writer, error) {
	return OpenBatch(ctx, store, announce, log, dataset.BatchID{Dataset: ds, Batch: batch}, opts...)
}

// OpenBatch is Open for a batch or for an annotator's part of one.
func OpenBatch(ctx context.Context, store objstore.Store, announce Announcer, log *slog.Logger, b dataset.BatchID, opts ...Option) (*Writer, error) {
	if err := b.Check(); err != nil {
		return nil, err
	}
	o, err := newOptions(opts)
	if err != nil {
		return nil, fmt.Errorf("write to %s: %w", b, err)
	}
	now := o.now().UTC()
	m := catalog.RunManifest{
		Dataset: b.Dataset, Batch: b.Batch, DeduplicateOn: o.deduplicateOn,
		Writer: o.name, Token: o.token, StartedAt: now, UpdatedAt: now, State: catalog.RunOpen,
	}
	if b.Annotator != "" {
		m.Annotator = &b.Annotator
	}
	if m, err = catalog.ClaimRun(ctx, store, m, o.random); err != nil {
		return nil, fmt.Errorf("write to %s: %w", b, err)
	}
	w := &Writer{
		store: store, log: log, batch: b, run: m.Run, opt: o,
		announce: &announcements{to: announce, log: log},
		stamper:  dataset.NewStamper(o.now, dataset.Random(o.random)),
		turn:     make(chan struct{}, 1),
		slots:    make(chan struct{}, InFlight),
		manifest: m,
		underWay: map[int]*chunk{},
		broken:   make(chan struct{}),
		finished: make(chan struct{}),
	}
	w.ctx, w.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return w, nil
}

// Run is the id of the run.
func (w *Writer) Run() dataset.Run { return w.run }

// Write adds a row: raw JSON ([]byte, json.RawMessage, dataset.Row), which is
// stored byte for byte but for the place of id and _created_at, or any value
// that encodes to a JSON object. It waits while too many chunks are under way.
//
// A nil error means that the row will be stored or that a later call, Close at
// the latest, says that it was not; a row counts as written once its chunk is
// stored. After an error the row is not taken: ErrRejected where it can never
// be, and the writer goes on; anything else where the writer or ctx has ended.
func (w *Writer) Write(ctx context.Context, row any) error {
	line, err := encode(row)
	if err != nil {
		return w.reject(err)
	}
	r, err := w.stamper.Stamp(line)
	if err != nil {
		return w.reject(err)
	}
	return w.WriteRow(ctx, r)
}

// WriteLine is Write of the line that an Input has given last. What the input
// knows of it is not found out once more.
func (w *Writer) WriteLine(ctx context.Context, line Line) error {
	switch {
	case line.Reject != "":
		return w.reject(errors.New(line.Reject))
	case line.scanned == nil:
		return w.Write(ctx, line.Raw)
	}
	r, err := w.stamper.StampScanned(line.scanned)
	if err != nil {
		return w.reject(err)
	}
	return w.WriteRow(ctx, r)
}

// WriteRow adds a row that has its id and whatever else it needs already. The
// caller answers for it being a valid row; the row may be used again after the
// call.
func (w *Writer) WriteRow(ctx context.Context, r dataset.Row) error {
	if err := w.take(ctx); err != nil {
		return err
	}
	defer w.give()
	if w.full(r) {
		if err := w.seal(ctx); err != nil {
			return err
		}
	}
	if w.buf.body == nil {
		// The chunk will be about as large as the last one, and growing to that
		// costs twice.
		w.buf.body = make([]byte, 0, max(w.room, len(r.Raw)+1))
	}
	w.buf.add(r, w.opt.onStored != nil)
	w.mu.Lock()
	w.accepted++
	w.mu.Unlock()
	if w.full(dataset.Row{}) {
		// The row is taken, whatever comes of this: where it cannot be put on its
		// way now, the next call does it or says why not.
		_ = w.seal(ctx)
	} else if w.timer == nil && w.opt.chunkAge > 0 {
		w.startTimer()
	}
	return nil
}

func (w *Writer) reject(err error) error {
	w.mu.Lock()
	w.rejected++
	w.mu.Unlock()
	return fmt.Errorf("%w: %w", ErrRejected, err)
}

// take waits for the turn to change the buffer. It fails when the writer has
// ended or cannot store any more.
func (w *Writer) take(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := w.brokenErr(); err != nil {
		w.give()
		return err
	}
	if w.closed {
		w.give()
		return ErrClosed
	}
	return nil
}

func (w *Writer) give() { <-w.turn }
