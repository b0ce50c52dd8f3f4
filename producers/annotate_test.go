package producers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
	"github.com/siltstone-data/siltstone/producers"
)

// annotate runs the annotator A over the dataset d.
func annotate(ctx context.Context, t testing.TB, s objstore.Store, l producers.Locker, fn producers.Func, opts ...producers.AnnotateOption) (producers.AnnotateResult, error) {
	t.Helper()
	return producers.Annotate(ctx, s, nil, l, quiet, "d", "A", fn, append([]producers.AnnotateOption{producers.WorkDir(t.TempDir())}, opts...)...)
}

// sized says how long a row is.
func sized(_ context.Context, row dataset.Row) (dataset.Annotation, error) {
	return dataset.Annotation{Data: map[string]any{"size": len(row.Raw)}, Metadata: map[string]any{"cost": 0.5}}, nil
}

func TestEachMergedRowIsAnnotatedOnce(t *testing.T) {
	for name, merged := range map[string]bool{"live": false, "merged": true} {
		t.Run(name, func(t *testing.T) {
			s := mem.New()
			fillBatch(t, s, "b1", 0, 250)
			fillBatch(t, s, "b2", 100, 350)
			var made calls
			fn := func(ctx context.Context, row dataset.Row) (dataset.Annotation, error) {
				made.count(row.ID)
				return sized(ctx, row)
			}
			res, err := annotate(t.Context(), t, s, &locks{}, fn)
			if err != nil || res.Rows != 500 || res.Failed != 0 || res.Calls != 500 || res.Unstored != 0 || res.Stopped != "" || res.Runs != 2 {
				t.Fatalf("%+v, %v", res, err)
			}
			if merged {
				merge(t, s, layerOf("b1"))
				merge(t, s, layerOf("b2"))
			}
			got := notes(t, s, !merged)
			if len(got) != 500 || !strings.HasPrefix(got["b1 r000000"], "size=") {
				t.Fatalf("%d annotations, %q", len(got), got["b1 r000000"])
			}
			// Exporting calls nobody, and neither does a second run.
			res, err = annotate(t.Context(), t, s, &locks{}, fn)
			if err != nil || res.Rows != 0 || res.Calls != 0 || made.sum() != 500 {
				t.Fatalf("%+v, %v, %d calls", res, err, made.sum())
			}
			// New rows alone are new.
			fillBatch(t, s, "b1", 250, 260)
			if res, err = annotate(t.Context(), t, s, &locks{}, fn); err != nil || res.Rows != 10 || made.sum() != 510 {
				t.Fatalf("%+v, %v, %d calls", res, err, made.sum())
			}
		})
	}
}

func TestAFunctionSeesTheColumnsThatWereAskedFor(t *testing.T) {
	s := mem.New()
	fillBatch(t, s, "b", 0, 3)
	var raw atomic.Value
	_, err := annotate(t.Context(), t, s, &locks{}, func(ctx context.Context, row dataset.Row) (dataset.Annotation, error) {
		if row.ID == rowID(1) {
			raw.Store(string(row.Raw))
		}
		return sized(ctx, row)
	}, producers.Columns("text"))
	if got := raw.Load().(string); err != nil || !strings.HasPrefix(got, `{"id":"r000001","_created_at":`) || !strings.HasSuffix(got, `,"text":"row 1"}`) {
		t.Fatalf("%s, %v", got, err)
	}
}

func TestAFilterSaysWhichRowsAreAnnotated(t *testing.T) {
	s := mem.New()
	fillBatch(t, s, "b", 0, 100)
	f, err := dataset.ParseFilter([]byte(`{"all":[{"column":"n","op":"gte","value":90},{"column":"nope","op":"is_null"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	res, err := annotate(t.Context(), t, s, &locks{}, sized, producers.Where(f), producers.Batches("b"))
	if err != nil || res.Rows != 10 || fmt.Sprint(res.Unknown) != "[nope]" {
		t.Fatalf("%+v, %v", res, err)
	}
}

func TestFailuresAreCountedByReasonAndTriedByTheNextRun(t *testing.T) {
	s := mem.New()
	fillBatch(t, s, "b", 0, 210)
	broken := true
	fn := func(ctx context.Context, row dataset.Row) (dataset.Annotation, error) {
		var n int
		_, _ = fmt.Sscanf(row.ID, "r%d", &n)
		switch {
		case !broken:
		case n%7 == 0:
			return dataset.Annotation{}, fmt.Errorf("status 50%d: try later\nand more", n%10)
		case n%11 == 0:
			panic("index out of range")
		case n%13 == 0:
			return dataset.Annotation{Data: []string{"no object"}}, nil
		case n%17 == 0:
			return dataset.Annotation{Data: map[string]any{"f": func() {}}}, nil
		case n%19 == 0:
			return dataset.Annotation{}, nil
		}
		return sized(ctx, row)
	}
	res, err := annotate(t.Context(), t, s, &locks{}, fn)
	if err != nil || res.Rows+res.Failed != 210 || res.Failed == 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	kinds := map[producers.Kind]int64{}
	var sum int64
	for _, r := range res.Reasons {
		kinds[r.Kind] += r.Rows
		sum += r.Rows
		if r.ID == "" || r.Batch != "b" || strings.Contains(r.Text, "\n") {
			t.Errorf("%+v", r)
		}
	}
	if sum != res.Failed || kinds[producers.KindError] != 30 || kinds[producers.KindPanic] == 0 || kinds[producers.KindInvalid] == 0 {
		t.Fatalf("%+v", res.Reasons)
	}
	if first := res.Reasons[0]; first.Rows != 30 || !strings.HasPrefix(first.Text, "status 50") {
		t.Fatalf("texts that differ in a number are one reason: %+v", first)
	}
	broken = false
	again, err := annotate(t.Context(), t, s, &locks{}, fn)
	if err != nil || again.Rows != res.Failed || again.Calls != res.Failed || again.Failed != 0 {
		t.Fatalf("%+v, %v", again, err)
	}
	if n := len(notes(t, s, true)); n != 210 {
		t.Fatalf("%d annotations", n)
	}
}

func TestACallIsMadeAgainAndTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		fillBatch(t, s, "b", 0, 6)
		var made calls
		res, err := annotate(t.Context(), t, s, &locks{}, func(ctx context.Context, row dataset.Row) (dataset.Annotation, error) {
			n := made.count(row.ID)
			switch {
			case row.ID == rowID(1) && n < 3:
				return dataset.Annotation{}, errors.New("not now")
			case row.ID == rowID(2):
				<-ctx.Done()
				return dataset.Annotation{}, ctx.Err()
			case row.ID == rowID(3) && n == 1: // does not listen
				<-time.After(time.Hour)
			}
			return sized(ctx, row)
		}, producers.Retry(2), producers.Timeout(30*time.Second), producers.Concurrency(2))
		if err != nil || res.Rows != 5 || res.Failed != 1 || res.Calls != 6+2+2+1 {
			t.Fatalf("%+v, %v", res, err)
		}
		if r := res.Reasons; len(r) != 1 || r[0].Kind != producers.KindTimeout || r[0].ID != rowID(2) {
			t.Fatalf("%+v", r)
		}
		<-time.After(2 * time.Hour) // the one that does not listen
	})
}

func TestAnnotationsThatWaitAreNeverMoreThanAChunk(t *testing.T) {
	s := mem.New()
	for b := range 20 {
		fillBatch(t, s, fmt.Sprintf("b%02d", b), 0, 60)
	}
	var begun, safe, most atomic.Int64
	watch := objtest.NewFaulty(t, s)
	res, err := annotate(t.Context(), t, watched{watch, func(rows int64) { safe.Add(rows) }}, &locks{}, func(ctx context.Context, row dataset.Row) (dataset.Annotation, error) {
		if open := begun.Add(1) - safe.Load(); open > most.Load() {
			most.Store(open)
		}
		return sized(ctx, row)
	}, producers.Concurrency(3), producers.ChunkRows(50))
	if err != nil || res.Rows != 1200 {
		t.Fatalf("%+v, %v", res, err)
	}
	if most.Load() > 53 {
		t.Errorf("%d calls had begun and were not stored", most.Load())
	}
	if res.Chunks > 1200/2 {
		t.Errorf("%d chunks", res.Chunks)
	}
}

// watched tells of the rows of chunks of layers that are stored.
type watched struct {
	objstore.Store
	stored func(rows int64)
}

func (w watched) Put(ctx context.Context, key string, body []byte, c objstore.Condition) (objstore.Info, error) {
	info, err := w.Store.Put(ctx, key, body, c)
	if k := dataset.ParseKey(key); err == nil && k.Kind == dataset.KindChunk && k.Batch.Annotator != "" {
		w.stored(int64(strings.Count(string(body), "\n")))
	}
	return info, err
}

func TestARateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		fillBatch(t, s, "b", 0, 100)
		began := time.Now()
		res, err := annotate(t.Context(), t, s, &locks{}, sized, producers.AtRate(10))
		if took := time.Since(began); err != nil || res.Rows != 100 || took < 9*time.Second || took > 11*time.Second {
			t.Fatalf("%+v, %v after %s", res, err, took)
		}
	})
}

func TestABudgetStopsTheWork(t *testing.T) {
	s := mem.New()
	fillBatch(t, s, "b", 0, 100)
	limit, err := producers.ParseLimit("cost=10.25")
	if err != nil {
		t.Fatal(err)
	}
	res, err := annotate(t.Context(), t, s, &locks{}, sized, producers.Budget(limit), producers.Concurrency(1))
	if err != nil || res.Rows != 21 || *res.Spent != 10.5 || res.Stopped != producers.StoppedByBudget {
		t.Fatalf("%+v, %v", res, err)
	}
	// A call that failed was paid for too.
	failing := func(ctx context.Context, row dataset.Row) (dataset.Annotation, error) {
		note, _ := sized(ctx, row)
		return note, errors.New("no use")
	}
	res, err = annotate(t.Context(), t, s, &locks{}, failing, producers.Budget(producers.Limit{Field: "cost", Most: 2}), producers.Concurrency(1))
	if err != nil || res.Rows != 0 || res.Failed != 4 || *res.Spent != 2 || res.Stopped != producers.StoppedByBudget {
		t.Fatalf("%+v, %v", res, err)
	}
	// What costs nothing that anybody says cannot be kept within a budget.
	fillBatch(t, s, "b", 100, 400)
	res, err = annotate(t.Context(), t, s, &locks{}, sized, producers.Budget(producers.Limit{Field: "cost_usd", Most: 1}))
	if !errors.Is(err, producers.ErrBudget) || res.Rows < 100 || res.Rows > 100+16 {
		t.Fatalf("%+v, %v", res, err)
	}
}

func TestADrainLetsCallsEndAndACancelDoesNot(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := mem.New()
			fillBatch(t, s, "b", 0, 100)
			ctx, stop := context.WithCancel(t.Context())
			drain, startDrain := context.WithCancel(t.Context())
			time.AfterFunc(5500*time.Millisecond, func() {
				if startDrain(); cancel {
					stop()
				}
			})
			var cancelled atomic.Int64
			res, err := annotate(ctx, t, s, &locks{}, func(ctx context.Context, row dataset.Row) (dataset.Annotation, error) {
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					cancelled.Add(1)
					return dataset.Annotation{}, ctx.Err()
				}
				return sized(ctx, row)
			}, producers.Concurrency(4), producers.DrainWhen(drain))
			want, c := int64(24), int64(0)
			if cancel {
				want, c = 20, 4
			}
			if res.Rows != want || cancelled.Load() != c || res.Failed != 0 || res.Stopped != producers.StoppedByInterrupt || errors.Is(err, context.Canceled) != cancel || (err != nil) != cancel {
				t.Fatalf("cancel %v: %+v, %v, %d cancelled", cancel, res, err, cancelled.Load())
			}
			if n := len(notes(t, s, true)); int64(n) != want {
				t.Fatalf("%d annotations", n)
			}
		})
	}
}

func TestAnEmptyDatasetGetsAnEmptyLayer(t *testing.T) {
	s := mem.New()
	w, err := producers.Open(t.Context(), s, nil, quiet, "d", "b")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	merge(t, s, baseOf("b"))
	for range 2 {
		res, err := annotate(t.Context(), t, s, &locks{}, sized)
		if err != nil || res.Rows != 0 {
			t.Fatalf("%+v, %v", res, err)
		}
		l, err := catalog.ListLive(t.Context(), s, layerOf("b"))
		if err != nil || len(l.Chunks) != 1 || l.Chunks[0].Size != 0 || len(l.Runs) != 1 {
			t.Fatalf("%+v, %v", l, err)
		}
	}
	merge(t, s, layerOf("b"))
	if got := notes(t, s, false); len(got) != 0 {
		t.Fatal(got)
	}
}

func TestNothingIsAnnotatedThatIsNotMerged(t *testing.T) {
	s := mem.New()
	w, err := producers.Open(t.Context(), s, nil, quiet, "d", "b")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), map[string]any{"x": 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := &locks{}
	if _, err := annotate(t.Context(), t, s, l, sized); !errors.Is(err, dataset.ErrNotMerged) {
		t.Fatal(err)
	}
	if _, err := producers.Annotate(t.Context(), s, nil, l, quiet, "typo", "A", sized); err == nil || l.token != 0 {
		t.Fatalf("%v, and a lease of a dataset that is not there", err)
	}
}

func TestOptionsThatCannotBeMeantAreRefusedFirst(t *testing.T) {
	for _, o := range []producers.AnnotateOption{
		producers.Concurrency(0), producers.Retry(-1), producers.Timeout(-1), producers.AtRate(-1), producers.LeaseTTL(time.Second),
		producers.ChunkRows(0), producers.DeduplicateOn("x"), producers.OnStored(func([]string) {}),
	} {
		if _, err := producers.Annotate(t.Context(), mem.New(), nil, &locks{}, quiet, "d", "A", sized, o); !errors.Is(err, producers.ErrOption) {
			t.Errorf("%v", err)
		}
	}
	for ds, annotator := range map[string]string{"d": "a.b", "_d": "a"} {
		if _, err := producers.Annotate(t.Context(), mem.New(), nil, &locks{}, quiet, ds, annotator, sized); !errors.Is(err, dataset.ErrName) {
			t.Errorf("%v", err)
		}
	}
}

func TestRatesAndBudgetsAreRead(t *testing.T) {
	for s, want := range map[string]producers.Rate{"10/s": 10, "600/m": 10, "36/h": 0.01, "2.5/s": 2.5} {
		if got, err := producers.ParseRate(s); err != nil || got != want {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "10", "0/s", "-1/s", "x/s", "1/d", "Inf/s", "NaN/s"} {
		if _, err := producers.ParseRate(s); err == nil {
			t.Errorf("%q is no rate", s)
		}
	}
	for _, s := range []string{"", "cost", "=5", "cost=", "cost=0", "cost=-1", "cost=NaN"} {
		if _, err := producers.ParseLimit(s); err == nil {
			t.Errorf("%q is no budget", s)
		}
	}
}
