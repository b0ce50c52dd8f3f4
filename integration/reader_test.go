package integration_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/objtest"
	"github.com/siltstone-data/siltstone/query"
)

func (s *simulation) options() query.Options {
	return query.Options{Dataset: simBatch.Dataset, Batches: []string{simBatch.Batch}, Live: true, WorkDir: s.dir, Parallel: s.atOnce}
}

// reads reads the batch whole, again and again; sometimes it takes its time
// over a row.
func (s *simulation) reads(ctx context.Context, name string, store objstore.Store) error {
	slow := s.seed/8%2 == 0
	for range 6 {
		due := s.due()
		seen, err := s.read(ctx, store, s.options(), func(n int) error {
			if slow && n%3 == 2 {
				return s.sched.Sleep(ctx, name, time.Second)
			}
			return nil
		})
		if err == nil {
			err = s.judge(due, seen)
		}
		if err := s.outcome(ctx, err); err != nil {
			return fmt.Errorf("a read: %w", err)
		}
		if err := s.sched.Sleep(ctx, name, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// pages reads the batch page by page, each page a read of its own that begins
// behind the last row.
func (s *simulation) pages(ctx context.Context, name string, store objstore.Store) error {
	for range 3 {
		due := s.due()
		var seen []query.Row
		o := s.options()
		o.Limit = 3
		var failure error
		for {
			page, err := s.read(ctx, store, o, nil)
			if err != nil {
				failure = err
				break
			}
			seen = append(seen, page...)
			if len(page) < int(o.Limit) {
				break
			}
			last := page[len(page)-1]
			o.After = &query.Cursor{ID: last.ID, Batch: last.Batch}
			if err := s.sched.Sleep(ctx, name, time.Second); err != nil {
				return err
			}
		}
		if failure == nil {
			failure = s.judge(due, seen)
		}
		if err := s.outcome(ctx, failure); err != nil {
			return fmt.Errorf("pages: %w", err)
		}
	}
	return nil
}

// read takes all rows; between may wait after the n-th of them.
func (s *simulation) read(ctx context.Context, store objstore.Store, o query.Options, between func(n int) error) ([]query.Row, error) {
	var seen []query.Row
	for row, err := range query.Rows(ctx, store, o) {
		if err != nil {
			return nil, err
		}
		seen = append(seen, row)
		if between == nil {
			continue
		}
		if err := between(len(seen)); err != nil {
			return nil, err
		}
	}
	return seen, nil
}

// outcome lets a read fail that met a fault, and nothing else.
func (s *simulation) outcome(ctx context.Context, err error) error {
	switch {
	case crashed(ctx, err):
		return objtest.ErrCrashed
	case errors.Is(err, query.ErrDamaged) && s.guard.lost() > 0:
		return nil
	case errors.Is(err, errBroken), errors.Is(err, query.ErrDamaged):
		return err
	}
	return nil
}

// due is what a read that begins now must show.
func (s *simulation) due() due {
	if s.guard.present().Generation > 0 {
		s.ledger.acknowledge(s.ledger.inherited...)
	}
	d := s.ledger.due()
	d.absorbed = s.guard.absorbed()
	return d
}

// judge compares what a read gave with what it had to. A line that somebody has
// put into one more chunk since may be live again.
func (s *simulation) judge(d due, seen []query.Row) error {
	if s.guard.lost() > 0 { // and with it what it had absorbed last
		clear(d.absorbed)
		d.loose = true
	}
	maps.DeleteFunc(d.absorbed, func(line string, n int) bool { return s.guard.chunks(line) != n })
	return s.ledger.check(d, seen, func() ([]query.Row, error) { return s.read(s.t.Context(), s.store(), s.options(), nil) })
}
