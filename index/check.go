package index

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/objstore"
)

// Fault is something that is not right about an index, or about the summary of
// a batch's indexes. Readers do without either.
type Fault struct {
	Key  string
	What string
	// Late says that it is merely not made yet, or not brought up to date.
	Late bool
	// Block is the block whose index it is; nil for the summary.
	Block *catalog.Block
}

// Check compares the indexes of a record's blocks with the blocks, row by row,
// and the summary with both. A block that is gone or damaged is not for an index
// to tell: it is left out.
func Check(ctx context.Context, s objstore.Store, r catalog.Record) ([]Fault, error) {
	if r.Deleted {
		return nil, nil
	}
	b := r.ID()
	have, err := Numbers(ctx, s, b)
	if err != nil {
		return nil, err
	}
	var faults []Fault
	for _, bl := range r.Blocks {
		key, err := Key(b, bl)
		if err != nil {
			continue // it is read whole
		}
		if !Has(have, b, bl) {
			faults = append(faults, Fault{key, "the block is not indexed yet, and is read whole", true, &bl})
			continue
		}
		switch err := Verify(ctx, s, b, bl); {
		case err == nil, errors.Is(err, objstore.ErrNotFound), errors.Is(err, block.ErrDamaged):
		case errors.Is(err, ErrDamaged):
			faults = append(faults, Fault{key, err.Error(), false, &bl})
		default:
			return nil, err
		}
	}
	f, err := checkMeta(ctx, s, r, have)
	if err != nil {
		return nil, err
	}
	return append(faults, f...), nil
}

func checkMeta(ctx context.Context, s objstore.Store, r catalog.Record, have map[int]bool) ([]Fault, error) {
	key := r.ID().IndexMetaKey()
	m, err := ReadMeta(ctx, s, r.ID())
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return []Fault{{key, "there is no summary of the indexes yet", true, nil}}, nil
	case errors.Is(err, ErrDamaged):
		return []Fault{{key, err.Error(), false, nil}}, nil
	case err != nil:
		return nil, err
	case m.Generation > r.Generation:
		return []Fault{{key, fmt.Sprintf("it is of generation %d, and the commit record of generation %d", m.Generation, r.Generation), false, nil}}, nil
	case !reflect.DeepEqual(m, Summarize(r, have)):
		return []Fault{{key, fmt.Sprintf("it is of generation %d and not up to date", m.Generation), true, nil}}, nil
	}
	return nil, nil
}

// Repair makes anew what Check has found for a record.
func Repair(ctx context.Context, s objstore.Store, r catalog.Record, faults []Fault) error {
	b := r.ID()
	for _, f := range faults {
		if !f.Late {
			if err := s.Delete(ctx, f.Key); err != nil {
				return fmt.Errorf("delete %s: %w", f.Key, err)
			}
		}
		if f.Block == nil {
			continue
		}
		err := Build(ctx, s, b, *f.Block)
		if err != nil && !errors.Is(err, objstore.ErrNotFound) && !errors.Is(err, ErrNoIndex) {
			return err
		}
	}
	have, err := Numbers(ctx, s, b)
	if err != nil {
		return err
	}
	return PutMeta(ctx, s, b, Summarize(r, have))
}
