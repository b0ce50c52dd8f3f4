package query_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/objstore/objtest"
	"github.com/siltstone-data/siltstone/query"
)

func TestLiveRowsCountsWhatIsNotMerged(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("a"), line("b"))
	count := func(batches ...string) query.LeftOut {
		t.Helper()
		out, err := query.LiveRows(t.Context(), b.store, "d", batches)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if diff := cmp.Diff(query.LeftOut{Exact: true}, count()); diff != "" {
		t.Error(diff)
	}
	b.chunk("x", 5, line("c"), "no row", "", line("d"))
	b.chunk("y", 0, line("e"))
	if got := count(); got.Rows != 3 || got.Chunks != 2 || got.Bytes == 0 || !got.Exact {
		t.Errorf("%+v", got)
	}
	if got := count("y", "y"); got.Rows != 1 || got.Chunks != 1 {
		t.Errorf("%+v", got)
	}
	if _, err := query.LiveRows(t.Context(), b.store, "a/b", nil); err == nil {
		t.Error("a bad name was taken")
	}
	// A chunk merged while it is counted is not left out any more.
	f := objtest.NewFaulty(t, b.store, objtest.On(objtest.Get).Key("*_chunk_*").Nth(1).Before(b.mergeNow("x")))
	if out, err := query.LiveRows(t.Context(), f, "d", []string{"x"}); err != nil || out.Rows != 0 {
		t.Errorf("%+v %v", out, err)
	}
}

func TestLiveRowsReadsOnlySoMuch(t *testing.T) {
	b := newBucket(t)
	for i := range 1005 {
		b.chunk("x", i, line(fmt.Sprint(i)))
	}
	got, err := query.LiveRows(t.Context(), b.store, "d", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Rows != 1000 || got.Chunks != 1005 || got.Exact {
		t.Errorf("%+v", got)
	}
	c := newBucket(t)
	c.chunk("x", 0, line("a"))
	c.chunk("x", 1, line("b", `"t":"`+strings.Repeat("x", 33<<20)+`"`))
	if got, err = query.LiveRows(t.Context(), c.store, "d", nil); err != nil || got.Rows != 1 || got.Chunks != 2 || got.Exact {
		t.Errorf("%+v %v", got, err)
	}
}
