package query

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/siltstone-data/siltstone/catalog"
)

// Moment names a state of the past: a generation of one batch, or a time.
type Moment struct {
	Generation int64
	Time       time.Time // zero with a generation
}

// ErrMoment reports a moment that cannot be meant.
var ErrMoment = errors.New("no moment to read at")

// ErrNotKept reports a state of the past that cannot be read any more.
var ErrNotKept = catalog.ErrNotKept

// momentLayouts are the times that ParseMoment reads besides RFC 3339; without
// an offset they are UTC, as stored times are.
var momentLayouts = []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly}

// ParseMoment reads a generation, such as 17, or a time, such as
// 2026-11-30T06:12:09Z.
func ParseMoment(text string) (Moment, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n < 1 {
			return Moment{}, fmt.Errorf("%w: generation %d; the first one is 1", ErrMoment, n)
		}
		return Moment{Generation: n}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	for _, layout := range momentLayouts {
		if err == nil {
			break
		}
		t, err = time.Parse(layout, text)
	}
	if err != nil || t.IsZero() {
		return Moment{}, fmt.Errorf("%w: %q is neither a generation, such as 17, nor a time, such as 2026-11-30T06:12:09Z", ErrMoment, text)
	}
	return Moment{Time: t.UTC()}, nil
}

// String gives what ParseMoment reads.
func (m Moment) String() string {
	if m.Generation > 0 {
		return strconv.FormatInt(m.Generation, 10)
	}
	return m.Time.Format(time.RFC3339Nano)
}

// At reads every batch as its commit record said it at a moment. A batch that
// had no record then gives no rows; Opened names it.
func At(m Moment) Option { return func(o *Options) { o.At = &m } }

// past takes the record that is asked for, once: should it be read again, it is
// the same one.
func (r *reader) past(ctx context.Context, b *batch) (err error) {
	switch {
	case b.head.Exists():
		b.head, err = catalog.HeadOf(ctx, r.store, b.id, b.head.Record.Generation)
	case r.o.At.Generation > 0:
		b.head, err = catalog.HeadOf(ctx, r.store, b.id, r.o.At.Generation)
	default:
		b.head, b.absent, err = catalog.HeadAt(ctx, r.store, b.id, r.o.At.Time)
	}
	if err != nil {
		return err
	}
	b.absent = b.absent && !b.head.Exists()
	return r.present(ctx, b)
}

// present makes sure that all blocks of a record of the past are there, before
// any row is given: a read that breaks off later may look whole to whoever gets
// it.
func (r *reader) present(ctx context.Context, b *batch) error {
	if !b.head.Exists() || b.head.Record.Deleted {
		return nil
	}
	files, err := catalog.Files(ctx, r.store, b.id)
	if err != nil {
		return err
	}
	if gone := files.Lacks(b.head.Record); len(gone) > 0 {
		return notThere(b, gone...)
	}
	return nil
}

// notThere says that blocks of the past are gone, and how to keep them longer.
func notThere(b *batch, files ...string) error {
	more := ""
	if n := len(files) - 1; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Errorf("batch %s, generation %d: %w: its block %s%s was replaced and is gone; HISTORY_MAX_AGE says how long replaced blocks stay (siltstone describe %s --history lists what can be read)",
		b.id, b.head.Record.Generation, ErrNotKept, files[0], more, b.id)
}

// ofOneBatch refuses a generation for more batches than one: each counts its
// own.
func (r *reader) ofOneBatch(batches int) error {
	if r.o.At != nil && r.o.At.Generation > 0 && batches > 1 {
		return fmt.Errorf("%w: generation %d of which batch? Each of the %d batches of %s counts its own; name one, or give a time", ErrMoment, r.o.At.Generation, batches, r.o.Dataset)
	}
	return nil
}
