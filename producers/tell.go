package producers

import (
	"context"
	"time"
)

// tellProgress tells how far it is until ctx ends, and once more then.
func (a *annotating) tellProgress(ctx context.Context) {
	t := time.NewTicker(250 * time.Millisecond)
	defer t.Stop()
	var m rateMeter
	for {
		a.o.progress(a.progress(&m))
		select {
		case <-t.C:
		case <-ctx.Done():
			a.o.progress(a.progress(&m))
			return
		}
	}
}

func (a *annotating) progress(m *rateMeter) Progress {
	a.tally.mu.Lock()
	p := Progress{Done: a.tally.stored, Failed: a.tally.failed, Spent: a.tally.spent}
	handled := a.tally.answered + p.Failed
	a.tally.mu.Unlock()
	p.Following = a.scale.following.Load()
	p.PerSecond = m.rateAfter(time.Now(), handled)
	p.Left = -1
	if !p.Following {
		p.Left = a.scale.left(handled, a.o.where != nil)
	}
	if p.Left > 0 && p.PerSecond > 0 {
		p.TimeLeft = time.Duration(float64(p.Left) / p.PerSecond * float64(time.Second))
	}
	return p
}

// left estimates how many rows are still to be annotated. Without a filter only
// annotations that are not merged yet make it too many; with one, the rows to
// come are taken to be like those that have come.
func (s *scale) left(handled int64, filtered bool) int64 {
	scanned, given := s.scanned.Load(), s.given.Load()
	ahead := max(0, s.total.Load()-scanned)
	if scanned == 0 && filtered {
		return -1
	}
	if filtered {
		ahead = int64(float64(ahead) * float64(given) / float64(scanned))
	} else {
		ahead = max(0, ahead-max(0, s.annotated.Load()-(scanned-given)))
	}
	return ahead + max(0, given-handled)
}
