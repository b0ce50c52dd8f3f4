package merger_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

// everything is what a store holds.
func everything(t testing.TB, s objstore.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	for i, err := range s.List(context.Background(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		out[i.Key] = i.ETag
	}
	return out
}

func TestAPlanIsWhatTheMergeDoesThen(t *testing.T) {
	for _, columns := range [][]string{nil, {"k"}} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			c := newClock()
			s := busy(t, c, columns)
			before := everything(t, s)
			was := record(t, s, theBatch)
			told := &events{}
			e, err := merger.New(s, told, config(t, c), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			f, err := e.Plan(t.Context(), theBatch)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, everything(t, s)); diff != "" || len(told.all) > 0 {
				t.Fatalf("a plan has changed something:\n%s", diff)
			}
			res := merge(t, e, theBatch)
			now := record(t, s, theBatch)
			var written int64
			is := map[string]bool{}
			for _, b := range now.Blocks {
				is[b.File] = true
			}
			rewritten := []string{}
			old := map[string]bool{}
			for _, b := range was.Blocks {
				if old[b.File] = true; !is[b.File] {
					rewritten = append(rewritten, b.File)
				}
			}
			for _, b := range now.Blocks {
				if !old[b.File] {
					written += b.Bytes
				}
			}
			want := merger.Forecast{
				Due: true, Why: []string{"live chunks: 2"}, Generation: was.Generation, LiveChunks: 2, LiveBytes: f.LiveBytes, Leftovers: 1,
				DeduplicatedOn: columns, DeduplicateOn: columns, Rows: res.Rows, Added: res.Added, Duplicates: res.Duplicates,
				Rejected: res.Rejected, IDConflicts: res.IDConflicts, Kept: res.Kept, Rewritten: rewritten, Created: res.Written, BytesWritten: written,
			}
			if diff := cmp.Diff(want, f); diff != "" {
				t.Fatal(diff)
			}
			if f.Added == 0 || f.Rejected == 0 || len(f.Rewritten) == 0 {
				t.Fatalf("too simple: %+v", f)
			}
			if f, err = e.Plan(t.Context(), theBatch); err != nil || f.Due || f.Rows != res.Rows || len(f.Why) != 1 {
				t.Fatalf("nothing to do: %+v, %v", f, err)
			}
			if columns != nil {
				return
			}
			putRun(t, s, theBatch, "cccccc", []string{"k"}, catalog.RunOpen)
			f, err = e.Plan(t.Context(), theBatch)
			if err != nil || !f.Due || !f.FullPass || f.Duplicates == 0 || len(f.Why) != 2 {
				t.Fatalf("a new list: %+v, %v", f, err)
			}
			if res := merge(t, e, theBatch); res.Duplicates != f.Duplicates || res.Rows != f.Rows {
				t.Fatalf("%+v, planned %+v", res, f)
			}
		})
	}
}

func TestAPlanOfNothingAndOfARemovedBatch(t *testing.T) {
	c := newClock()
	s := mem.New()
	e := engine(t, s, config(t, c))
	if f, err := e.Plan(t.Context(), theBatch); err != nil || f.Due || f.Generation != 0 {
		t.Fatalf("%+v, %v", f, err)
	}
	putChunk(t, s, theBatch, "aaaaaa", 0, a)
	if f, err := e.Plan(t.Context(), theBatch); err != nil || !f.Due || f.Added != 1 || f.Created != 1 || f.Generation != 0 {
		t.Fatalf("%+v, %v", f, err)
	}
	merge(t, e, theBatch)
	rewrite(t, s, func(r *catalog.Record) { r.Deleted = true })
	if f, err := e.Plan(t.Context(), theBatch); err != nil || f.Due || !f.Deleted {
		t.Fatalf("%+v, %v", f, err)
	}
}

func TestAPlanBesideAMergeLooksAgain(t *testing.T) {
	c := newClock()
	s := busy(t, c, nil)
	f := objtest.NewFaulty(t, s, objtest.On(objtest.Get).Key("*_chunk_*").Nth(1).Before(func() {
		merge(t, engine(t, s, config(t, c)), theBatch)
	}))
	p, err := engine(t, f, config(t, c)).Plan(t.Context(), theBatch)
	if err != nil || p.Due || p.Generation != 3 {
		t.Fatalf("%+v, %v", p, err)
	}
}
