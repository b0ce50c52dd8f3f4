package query_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/query"
)

func (b *bucket) pins(o query.Options) query.Pins {
	b.t.Helper()
	o.Dataset = "d"
	p, err := query.TakePins(b.t.Context(), b.store, o)
	if err != nil {
		b.t.Fatal(err)
	}
	raw, err := json.Marshal(p)
	if err != nil {
		b.t.Fatal(err)
	}
	var again query.Pins
	if err := json.Unmarshal(raw, &again); err != nil {
		b.t.Fatal(err)
	}
	if diff := cmp.Diff(p, again); diff != "" {
		b.t.Error(diff)
	}
	return again
}

func TestPinsReadTheSameRowsWhateverIsMergedMeanwhile(t *testing.T) {
	b := newBucket(t)
	b.mergedAt(0, "x", line("b"), line("d"))
	b.mergedAt(0, "y", line("c"))
	b.notes("words", "x", 0, true, `{"id":"b","_batch":"x","data":{"n":1}}`)
	o := query.Options{Annotators: []string{"words"}}
	want := b.read(o)
	pins := b.pins(o)
	if len(pins.Batches) != 2 || len(pins.Layers["words"]) != 1 || pins.Batches[0].Rows != 2 {
		t.Errorf("%+v", pins)
	}
	old := b.blocks("x")
	b.mergedAt(time.Minute, "x", line("a"), line("e"))
	b.mergedAt(time.Minute, "z", line("z"))
	b.notes("words", "y", 0, true, `{"id":"c","_batch":"y","data":{"n":2}}`)
	if len(b.read(o)) != len(want)+3 {
		t.Error("nothing was merged")
	}
	o.Pins = &pins
	same(t, b.read(o), want...)
	o.After = &query.Cursor{ID: "b", Batch: "x"}
	same(t, b.read(o), want[1:]...)
	o.After = nil
	for _, key := range old {
		b.delete(key)
	}
	o.Dataset = "d"
	if _, err := b.readVia(b.store, o); !errors.Is(err, query.ErrNotKept) {
		t.Error(err)
	}
}

func TestAPinnedGenerationThatWasCommittedAnewIsAnother(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("a"))
	pins := b.pins(query.Options{})
	pins.Batches[0].Commit = "ffffffffffffffff"
	if _, err := b.readVia(b.store, query.Options{Dataset: "d", Pins: &pins}); !errors.Is(err, query.ErrNotKept) {
		t.Error(err)
	}
	for _, o := range []query.Options{{Live: true}, {Missing: "words"}} {
		o.Dataset = "d"
		if _, err := query.TakePins(t.Context(), b.store, o); err == nil {
			t.Errorf("%+v was pinned", o)
		}
		o.Pins = &pins
		if _, err := b.readVia(b.store, o); err == nil {
			t.Errorf("%+v was read", o)
		}
	}
}

func TestASortByAFieldOfALayerThatIsNotReadIsRefused(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("a"))
	b.notes("words", "x", 0, true, `{"id":"a","_batch":"x","data":{"n":1}}`)
	o := query.Options{Dataset: "d", Sort: []query.SortBy{{Column: "words.n"}}}
	if _, err := b.readVia(b.store, o); !errors.Is(err, query.ErrLayer) {
		t.Error(err)
	}
	o.Annotators = []string{"words"}
	if rows, err := b.readVia(b.store, o); err != nil || len(rows) != 1 {
		t.Errorf("%q %v", rows, err)
	}
	o = query.Options{Dataset: "d", Sort: []query.SortBy{{Column: "other.n"}}} // a column of rows may have a dot
	if rows, err := b.readVia(b.store, o); err != nil || len(rows) != 1 {
		t.Errorf("%q %v", rows, err)
	}
}
