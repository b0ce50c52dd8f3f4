package producers

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
)

// Announcer tells others of an event and returns when it is safe with them.
type Announcer interface {
	Publish(ctx context.Context, e dataset.Event) error
}

const (
	announceWait  = 5 * time.Second  // most that one announcement may take
	announceQuiet = 30 * time.Second // no more tries after a failed one
)

// announcements sends events without ever failing a write. After a failure it
// keeps quiet for a while, or each chunk would wait for a server that is down.
// What it leaves out, the store's notifications or the reconciler announce.
type announcements struct {
	to  Announcer // nil: nobody is told
	log *slog.Logger

	mu     sync.Mutex
	warned bool
	until  time.Time // quiet until then
}

// chunk announces a stored chunk.
func (a *announcements) chunk(ctx context.Context, e dataset.Event) {
	a.mu.Lock()
	quiet := time.Now().Before(a.until)
	a.mu.Unlock()
	if !quiet {
		a.publish(ctx, e)
	}
}

// publish announces an event even in a quiet time: the end of a run starts its
// merge.
func (a *announcements) publish(ctx context.Context, e dataset.Event) {
	if a.to == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, announceWait)
	defer cancel()
	err := a.to.Publish(ctx, e)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.until = time.Time{}
		return
	}
	a.until = time.Now().Add(announceQuiet)
	if !a.warned {
		a.warned = true
		a.log.Warn("rows are stored but could not be announced; the store's notifications or the reconciler will find them",
			"dataset", e.Dataset, "batch", e.Batch, "err", err)
	}
}
