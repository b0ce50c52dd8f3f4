package query

import (
	"context"
	"errors"
	"fmt"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// Pin is the state of a batch, or of what an annotator wrote of it, that a read
// goes through.
type Pin struct {
	Batch      string `json:"batch"`
	Generation int64  `json:"generation"`
	// Commit is that of the record: a generation that was lost and committed
	// anew is another state.
	Commit string `json:"commit"`
	Rows   int64  `json:"rows"`
}

// Pins are the states that a read goes through, of each batch with merged rows
// and, by annotator, of each layer that it lays beside them.
type Pins struct {
	Batches []Pin            `json:"batches"`
	Layers  map[string][]Pin `json:"layers,omitempty"`
	// Absent are the batches that had no commit record yet at the moment that
	// was read.
	Absent []string `json:"absent,omitempty"`
}

// TakePins tells what a read with these options would go through now, with the
// errors that Rows gives before its first row. Options with these Pins read the
// same rows whenever they are read, or fail with ErrNotKept.
func TakePins(ctx context.Context, s objstore.Store, o Options) (Pins, error) {
	if err := o.check(); err != nil {
		return Pins{}, err
	}
	if o.Live || o.Missing != "" {
		return Pins{}, errors.New("what is not merged yet cannot be pinned")
	}
	r := &reader{ctx: ctx, store: s, o: o, last: o.after()}
	defer r.close()
	if err := r.open(); err != nil {
		return Pins{}, err
	}
	j, err := r.joined()
	if err != nil {
		return Pins{}, err
	}
	defer j.close()
	return r.pins(j), nil
}

// pins gives the records that a reader and the layers beside it start from.
func (r *reader) pins(j *join) Pins {
	p := Pins{Batches: r.pinned(), Absent: r.sum.Absent}
	for _, l := range j.closers {
		if p.Layers == nil {
			p.Layers = map[string][]Pin{}
		}
		p.Layers[l.layer] = l.pinned()
	}
	return p
}

func (r *reader) pinned() []Pin {
	out := []Pin{}
	for _, b := range r.batches {
		if rec := b.head.Record; b.head.Exists() && !rec.Deleted {
			out = append(out, Pin{Batch: b.id.Batch, Generation: rec.Generation, Commit: rec.Commit, Rows: rec.Rows})
		}
	}
	return out
}

// ownPins are those of what the reader reads.
func (r *reader) ownPins() []Pin {
	if r.layer != "" {
		return r.o.Pins.Layers[r.layer]
	}
	return r.o.Pins.Batches
}

// fixed reports whether blocks that are gone cannot be looked for under a later
// generation.
func (r *reader) fixed() bool { return r.o.At != nil || r.o.Pins != nil }

// pin takes the record that a batch is pinned to.
func (r *reader) pin(ctx context.Context, b *batch) (err error) {
	if b.head, err = catalog.HeadOf(ctx, r.store, b.id, b.pin.Generation); err != nil {
		return err
	}
	if got := b.head.Record.Commit; got != b.pin.Commit {
		return fmt.Errorf("generation %d of %s: %w: it was committed anew, as %s in place of %s", b.pin.Generation, b.id, ErrNotKept, got, b.pin.Commit)
	}
	return r.present(ctx, b)
}

// idsOf gives the batches of pins.
func (r *reader) idsOf(pins []Pin) []dataset.BatchID {
	ids := make([]dataset.BatchID, len(pins))
	for i, p := range pins {
		ids[i] = dataset.BatchID{Dataset: r.o.Dataset, Batch: p.Batch, Annotator: r.layer}
	}
	return ids
}
