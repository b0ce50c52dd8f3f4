package producers

import (
	"context"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
)

// maxLayerWriters bounds the runs of an annotator that are open at a time; the
// one that was used longest ago is closed for another.
const maxLayerWriters = 64

// layerWriter stores annotations of rows of any batches, each under a run of its
// batch. All that is not stored yet is less than one chunk, over all batches
// together: that is what a crash costs.
type layerWriter struct {
	a       *annotating
	batches map[string]*layerBatch
	unsaved int
	since   time.Time // when the first of what is unsaved came
	used    int       // counts uses
}

type layerBatch struct {
	name    string
	w       *Writer
	unsaved int
	used    int
}

// add takes an annotation, and stores a chunk when there are enough.
func (l *layerWriter) add(ctx context.Context, batch string, r dataset.Row) error {
	b, err := l.open(ctx, batch)
	if err != nil {
		return err
	}
	if err := b.w.WriteRow(ctx, r); err != nil {
		return err
	}
	if l.unsaved == 0 {
		l.since = l.a.opt.now()
	}
	b.unsaved++
	l.unsaved++
	if l.unsaved < l.a.opt.chunkRows {
		return nil
	}
	fullest := b
	for _, other := range l.batches {
		if other.unsaved > fullest.unsaved {
			fullest = other
		}
	}
	return l.flush(ctx, fullest)
}

// open gives the writer of a batch. Before a run gets its first chunk the lease
// is asked for again: that it is still held proves that who holds it next will
// see the run, and can shut it out.
func (l *layerWriter) open(ctx context.Context, batch string) (*layerBatch, error) {
	l.used++
	if b := l.batches[batch]; b != nil {
		b.used = l.used
		return b, nil
	}
	if len(l.batches) >= maxLayerWriters {
		var oldest *layerBatch
		for _, b := range l.batches {
			if oldest == nil || b.used < oldest.used {
				oldest = b
			}
		}
		if err := l.close(ctx, oldest); err != nil {
			return nil, err
		}
	}
	id := dataset.BatchID{Dataset: l.a.dataset, Batch: batch, Annotator: l.a.annotator}
	w, err := OpenBatch(ctx, l.a.store, l.a.announce, l.a.log, id, ChunkRows(l.a.opt.chunkRows), ChunkBytes(l.a.opt.chunkBytes),
		ChunkAge(0), RetryFor(l.a.opt.retryFor), Name(l.a.opt.name), Clock(l.a.opt.now), Random(l.a.opt.random))
	if err != nil {
		return nil, err
	}
	b := &layerBatch{name: batch, w: w, used: l.used}
	if err := l.a.keeper.renew(ctx); err != nil {
		_, _ = w.Abort(ctx) // it has no chunk
		return nil, err
	}
	l.batches[batch] = b
	return b, nil
}

// flush stores what is unsaved of a batch.
func (l *layerWriter) flush(ctx context.Context, b *layerBatch) error {
	if err := b.w.Flush(ctx); err != nil {
		return err
	}
	l.saved(b)
	return nil
}

func (l *layerWriter) saved(b *layerBatch) {
	l.a.res.Done += int64(b.unsaved)
	l.unsaved -= b.unsaved
	b.unsaved = 0
}

// flushAll stores everything.
func (l *layerWriter) flushAll(ctx context.Context) error {
	for _, b := range l.batches {
		if b.unsaved == 0 {
			continue
		}
		if err := l.flush(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// close stores what is left of a batch and closes its run.
func (l *layerWriter) close(ctx context.Context, b *layerBatch) error {
	delete(l.batches, b.name)
	res, err := b.w.Close(ctx)
	l.a.res.Chunks += int64(res.Chunks)
	l.a.res.Bytes += res.Bytes
	if err == nil {
		l.saved(b)
	} else {
		l.unsaved -= b.unsaved
	}
	return err
}

// closeAll closes every run, also after an error of one, which it gives.
func (l *layerWriter) closeAll(ctx context.Context) error {
	var first error
	for _, b := range l.batches {
		if err := l.close(ctx, b); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// empty stores a chunk of no rows, which says that nothing of a batch is left to
// annotate.
func (l *layerWriter) empty(ctx context.Context, batch string) error {
	b, err := l.open(ctx, batch)
	if err != nil {
		return err
	}
	if err := b.w.take(ctx); err != nil {
		return err
	}
	err = b.w.seal(ctx)
	b.w.give()
	if err != nil {
		return err
	}
	return l.close(ctx, b)
}
