package producers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/objstore"
)

// settle finds out what became of the chunks that were given up: some may have
// been stored although no answer came, and some may still be. A name that was
// free is taken by an empty chunk, so that nothing comes late. While that cannot
// be had, the run has to stay open, for the next holder of the lease to seal.
func (w *Writer) settle(ctx context.Context) error {
	for _, c := range w.unsettled {
		key := w.batch.ChunkKey(w.run, c.number)
		created, err := sealName(ctx, w.store, key, w.opt.retryFor)
		if err != nil {
			return fmt.Errorf("chunk %s may still be stored: %w", key, err)
		}
		if created {
			continue
		}
		same, _, err := w.holds(ctx, key, c.body)
		if err != nil && !errors.Is(err, objstore.ErrNotFound) {
			return fmt.Errorf("look for chunk %s: %w", key, err)
		}
		if same {
			w.mu.Lock()
			w.count(c)
			w.mu.Unlock()
			w.tellStored(c)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.accepted == w.manifest.Rows {
		w.failure = nil // all of it was stored after all
	}
	return nil
}

// endRun closes the manifest, unless the next holder of the lease has.
func (w *Writer) endRun(ctx context.Context, m catalog.RunManifest) error {
	began := time.Now()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		now, err := catalog.EndRun(ctx, w.store, m)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, objstore.ErrLost) && now.State != catalog.RunOpen:
			return fmt.Errorf("%w: run %s was closed by the next holder of the lease", ErrRunTaken, w.run)
		case errors.Is(err, objstore.ErrLost):
			m.ETag = now.ETag
		}
		if ctx.Err() != nil || time.Since(began)+pause > w.opt.retryFor {
			return err
		}
		if err := sleep(ctx, pause/2+rand.N(pause/2)); err != nil {
			return err
		}
	}
}

// sealName takes a chunk's name with an empty chunk, and reports whether that
// was free. It tries again until it knows, at most for so long.
func sealName(ctx context.Context, s objstore.Store, key string, within time.Duration) (created bool, err error) {
	began := time.Now()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		_, err := s.Put(ctx, key, nil, objstore.IfAbsent())
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, objstore.ErrLost):
			// Perhaps by an earlier try of this call, which is the same to everybody.
			return false, nil
		}
		if ctx.Err() != nil || time.Since(began)+pause > within {
			return false, fmt.Errorf("seal %s: %w", key, err)
		}
		if err := sleep(ctx, pause/2+rand.N(pause/2)); err != nil {
			return false, fmt.Errorf("seal %s: %w", key, err)
		}
	}
}
