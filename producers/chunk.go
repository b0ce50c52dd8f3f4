package producers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// chunk is some rows under way to the store. Its body is made anew for each
// chunk and never used again: a store may still be reading it when a put that
// was cancelled returns.
type chunk struct {
	number int
	body   []byte
	rows   int64
	ids    []string      // only where somebody wants to know them
	done   chan struct{} // closed when it is stored or given up
}

func (c *chunk) add(r dataset.Row, withID bool) {
	c.body = append(append(c.body, r.Raw...), '\n')
	c.rows++
	if withID {
		c.ids = append(c.ids, r.ID)
	}
}

// upload stores a chunk, notes the outcome and announces it.
func (w *Writer) upload(c *chunk) {
	info, err := w.putChunk(w.ctx, c)
	now := w.opt.now().UTC()
	w.mu.Lock()
	delete(w.underWay, c.number)
	if err != nil {
		w.failed = append(w.failed, c.number)
		if w.opt.token > 0 {
			w.unsettled = append(w.unsettled, c)
		}
		if w.failure == nil {
			w.failure = err
			close(w.broken)
		}
	} else {
		w.count(c)
	}
	w.mu.Unlock()
	if err == nil {
		w.tellStored(c)
	}
	close(c.done)
	if err != nil {
		return
	}
	e := dataset.NewEvent(dataset.RowsIngested, w.batch, now)
	if w.batch.Annotator != "" {
		e = dataset.NewEvent(dataset.AnnotationUpdated, w.batch, now)
	}
	e.Key, e.ETag, e.Rows, e.Bytes = w.batch.ChunkKey(w.run, c.number), info.ETag, &c.rows, int64(len(c.body))
	w.announce.chunk(w.ctx, e)
}

// count notes a stored chunk; the caller has mu.
func (w *Writer) count(c *chunk) {
	w.manifest.Chunks++
	w.manifest.Rows += c.rows
	w.manifest.Bytes += int64(len(c.body))
}

func (w *Writer) tellStored(c *chunk) {
	if w.opt.onStored != nil {
		w.storedSeq.Lock()
		w.opt.onStored(c.ids)
		w.storedSeq.Unlock()
	}
}

const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// putChunk stores a chunk under its name, which stands for these bytes for
// ever. Every try sends the same bytes and asks for a free name. To find it
// taken means at the first try that somebody else uses the run, and later that
// an earlier try was stored, which reading it back must prove.
func (w *Writer) putChunk(ctx context.Context, c *chunk) (objstore.Info, error) {
	key := w.batch.ChunkKey(w.run, c.number)
	began := time.Now()
	for try, pause := 1, firstPause; ; try++ {
		info, err := w.store.Put(ctx, key, c.body, objstore.IfAbsent())
		if errors.Is(err, objstore.ErrLost) {
			if try == 1 {
				return info, fmt.Errorf("put %s: %w: %w", key, ErrRunTaken, err)
			}
			var same bool
			if same, info, err = w.holds(ctx, key, c.body); err == nil && !same {
				return info, fmt.Errorf("put %s: %w: it holds other bytes", key, ErrRunTaken)
			}
			// A chunk that is gone again was absorbed by a merger, which knows
			// its number: putting it once more does no harm.
		}
		if err == nil {
			return info, nil
		}
		if ctx.Err() != nil {
			return info, fmt.Errorf("put %s: %w", key, context.Cause(ctx))
		}
		if time.Since(began)+pause > w.opt.retryFor {
			return info, fmt.Errorf("put %s: given up after %d tries in %s: %w", key, try, time.Since(began).Round(time.Millisecond), err)
		}
		if try == 1 {
			w.log.Warn("a chunk was not stored; trying again", "key", key, "for", w.opt.retryFor, "err", err)
		}
		if err := sleep(ctx, pause/2+rand.N(pause/2)); err != nil {
			return info, fmt.Errorf("put %s: %w", key, err)
		}
		pause = min(2*pause, longestPause)
	}
}

// holds reports whether these bytes lie under the key.
func (w *Writer) holds(ctx context.Context, key string, body []byte) (bool, objstore.Info, error) {
	r, info, err := w.store.Get(ctx, key, objstore.Span{})
	if err != nil {
		return false, info, err
	}
	defer r.Close()
	if info.Size != int64(len(body)) {
		return false, info, nil
	}
	stored, err := io.ReadAll(r)
	return err == nil && bytes.Equal(stored, body), info, err
}

// sleep waits unless ctx ends, whose cause it then gives.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
