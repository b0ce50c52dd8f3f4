package lockd

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/siltstone-data/siltstone/objstore"
)

// ForceRelease takes a lease from whoever has it, and notes in it who did so.
// The holder finds out when it renews, so it may work on until then. What is no
// lease is made a free one. A lease that is free stays so, and nothing is noted.
func (l *Leases) ForceRelease(ctx context.Context, name, by string) (Status, error) {
	if err := CheckName(name); err != nil {
		return Status{}, err
	}
	if by == "" || len(by) > MaxOwner || !utf8.ValidString(by) {
		return Status{}, invalid("releasing by force needs to be told who does it, in 1 to %d bytes of UTF-8", MaxOwner)
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for {
		cur, err := l.look(ctx, name)
		alien := errors.Is(err, ErrAlien)
		switch {
		case err != nil && !alien:
			return Status{}, fmt.Errorf("release by force: %w", err)
		case !alien && cur.rec == nil:
			return Status{}, fmt.Errorf("release by force: %w: %s", ErrNoLease, name)
		case !alien && cur.rec.State == free:
			return cur.status(l.queue.waiting(name)), nil
		}
		r := &record{Token: max(l.now().UnixMilli(), 1), Owner: "unknown", Lease: "unknown"}
		if !alien {
			copied := *cur.rec
			r = &copied
		}
		r.State, r.Freed = free, byForce
		r.Forced = append(r.Forced[:len(r.Forced):len(r.Forced)], Forced{At: cur.date.UTC(), By: by, Owner: r.Owner, Token: r.Token})
		if over := len(r.Forced) - keepForced; over > 0 {
			r.Forced, r.ForcedMore = r.Forced[over:], r.ForcedMore+int64(over)
		}
		got, err := l.put(ctx, name, r, objstore.IfMatch(cur.etag))
		if errors.Is(err, errRaced) {
			continue
		}
		if err != nil {
			return Status{}, fmt.Errorf("release by force: %w", err)
		}
		l.metrics.Forced.Inc()
		l.log.Warn("lease released by force", "lease", name, "by", by, "owner", r.Owner, "token", r.Token)
		l.queue.released(name)
		return got.status(l.queue.waiting(name)), nil
	}
}
