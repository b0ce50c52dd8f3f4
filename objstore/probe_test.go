package objstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

// broken is a store whose puts do something else about conditions.
type broken struct {
	objstore.Store
	put func(c objstore.Condition) (objstore.Condition, error)
}

func (b broken) Put(ctx context.Context, key string, body []byte, c objstore.Condition) (objstore.Info, error) {
	c, err := b.put(c)
	if err != nil {
		return objstore.Info{}, err
	}
	return b.Store.Put(ctx, key, body, c)
}

func TestAProbeTellsStoresThatKeepConditions(t *testing.T) {
	s := mem.New()
	if err := objstore.Probe(t.Context(), s, "_locks/"); err != nil {
		t.Fatal(err)
	}
	for info := range s.List(t.Context(), "", "") {
		t.Errorf("%q is left", info.Key)
	}
	for name, put := range map[string]func(objstore.Condition) (objstore.Condition, error){
		"ignores all": func(objstore.Condition) (objstore.Condition, error) { return objstore.Condition{}, nil },
		"ignores IfMatch": func(c objstore.Condition) (objstore.Condition, error) {
			if c.Match() != "" {
				c = objstore.Condition{}
			}
			return c, nil
		},
		"always refuses": func(c objstore.Condition) (objstore.Condition, error) { return c, objstore.ErrLost },
		"refuses IfMatch": func(c objstore.Condition) (objstore.Condition, error) {
			if c.Match() != "" {
				return c, objstore.ErrLost
			}
			return c, nil
		},
	} {
		if err := objstore.Probe(t.Context(), broken{mem.New(), put}, ""); !errors.Is(err, objstore.ErrNoConditions) {
			t.Errorf("a store that %s: %v", name, err)
		}
	}
}

func TestAProbeOfAStoreThatFailsSaysSo(t *testing.T) {
	denied := errors.New("access denied")
	f := objtest.NewFaulty(t, mem.New(), objtest.On(objtest.Put).Fail(denied))
	if err := objstore.Probe(t.Context(), f, ""); !errors.Is(err, denied) || errors.Is(err, objstore.ErrNoConditions) {
		t.Errorf("got %v", err)
	}
}
