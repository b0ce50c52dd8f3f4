package lockd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/siltstone-data/siltstone/objstore"
)

// errRaced says that somebody else replaced the version that a put was to
// replace.
var errRaced = errors.New("somebody else was faster")

// put stores a record in place of the version that cond names, or gives
// errRaced. An answer that was lost is asked for by reading back: our own write
// id says that it is stored; another version says that it never will be, for
// the one that it was to replace is gone and comes never again; and if nothing
// has changed, the same put is sent once more, for at most one of the two can
// come to pass. It goes on until ctx ends.
func (l *Leases) put(ctx context.Context, name string, r *record, cond objstore.Condition) (seen, error) {
	body, err := r.encode()
	if err != nil {
		return seen{}, err
	}
	unsure := false
	for try := 0; ; try++ {
		info, err := l.send(ctx, name, body, cond)
		switch {
		case err == nil:
			at := info.Date
			if at.IsZero() {
				at = info.Modified
			}
			return seen{name: name, rec: r, etag: info.ETag, at: at, date: at}, nil
		case errors.Is(err, objstore.ErrLost), errors.Is(err, objstore.ErrNotFound):
			if !unsure {
				return seen{}, errRaced
			}
		case errors.Is(err, objstore.ErrUnknown), errors.Is(err, context.DeadlineExceeded):
			unsure = true
		}
		if unsure {
			cur, lerr := l.read(ctx, name)
			switch {
			case lerr != nil:
				err = fmt.Errorf("%w; reading back: %w", err, lerr)
			case cur.rec != nil && cur.rec.Write == r.Write:
				return cur, nil
			case cur.etag != cond.Match(): // also of an object where none was
				return seen{}, errRaced
			}
		}
		if try >= attempts && !unsure {
			return seen{}, unreachable(err)
		}
		if perr := pause(ctx, try); perr != nil {
			return seen{}, unreachable(fmt.Errorf("%w (%w)", err, perr))
		}
	}
}

// attempts is how often a request that surely had no effect is sent again: the
// store's client has tried already.
const attempts = 2

func (l *Leases) send(ctx context.Context, name string, body []byte, cond objstore.Condition) (objstore.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Attempt)
	defer cancel()
	return l.store.Put(ctx, name, body, cond)
}

// look reads a lease, more than once where the store does not answer.
func (l *Leases) look(ctx context.Context, name string) (seen, error) {
	for try := 0; ; try++ {
		cur, err := l.read(ctx, name)
		if err == nil || tells(err) {
			return cur, err
		}
		if try >= attempts || ctx.Err() != nil {
			return seen{}, unreachable(err)
		}
		if perr := pause(ctx, try); perr != nil {
			return seen{}, unreachable(fmt.Errorf("%w (%w)", err, perr))
		}
	}
}

// read reads a lease once. There is no object for one that nobody ever took.
func (l *Leases) read(ctx context.Context, name string) (seen, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Attempt)
	defer cancel()
	body, info, err := objstore.ReadAll(ctx, l.store, name)
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return seen{name: name}, nil
	case err != nil:
		return seen{}, fmt.Errorf("read lease %s: %w", name, err)
	case info.Date.IsZero(), info.Modified.IsZero():
		return seen{}, fmt.Errorf("read lease %s: %w: a Date or a Last-Modified is missing", name, ErrNoClock)
	}
	cur := seen{name: name, etag: info.ETag, at: info.Modified, date: info.Date}
	if cur.rec, err = decodeRecord(body); err != nil {
		return cur, fmt.Errorf("read lease %s: %w", name, err)
	}
	return cur, nil
}

// pause waits a moment, longer with each try.
func pause(ctx context.Context, try int) error {
	timer := time.NewTimer(50 * time.Millisecond << min(try, 5))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
