package merger_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

func batchOf(name string) dataset.BatchID { return dataset.BatchID{Dataset: "d", Batch: name} }

// legacyDataset has three batches and a layer's part in parquet, one of them with
// another tool's manifest, and a batch that was never in parquet.
func legacyDataset(t testing.TB) *mem.Store {
	s := mem.New()
	types, _ := parquetOfAllTypes(t)
	small, err := os.ReadFile("testdata/merged.parquet")
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, batchOf("b1").BlockKey("merged.parquet"), types)
	put(t, s, batchOf("b2").BlockKey("merged.parquet"), string(small))
	put(t, s, batchOf("b2").CommitKey(), "rows: 2\n")
	put(t, s, batchOf("b3").BlockKey("merged.parquet"), string(small))
	put(t, s, layer("b1").BlockKey("merged.parquet"), string(small))
	put(t, s, batchOf("lines").BlockKey("merged_00000.jsonl.gz"), zipped(t, row("a", "A", 1)))
	return s
}

func converter(t testing.TB, s objstore.Store, told merger.Announcer, limit int64) *merger.Converter {
	t.Helper()
	e, err := merger.New(s, told, config(t, newClock()), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return merger.NewConverter(e, limit)
}

// convertAll does what the command does, and gives the errors by batch.
func convertAll(t testing.TB, c *merger.Converter) (map[string]error, error) {
	plan, err := c.Plan(t.Context(), "d")
	if err != nil {
		return nil, err
	}
	if err := c.Begin(t.Context(), plan); err != nil {
		return nil, err
	}
	failed := map[string]error{}
	for _, b := range plan.Due() {
		if _, err := c.Batch(t.Context(), b.Batch, nil); err != nil {
			failed[catalog.ConversionName(b.Batch)] = err
		}
	}
	return failed, nil
}

func status(t testing.TB, s objstore.Store) catalog.Conversion {
	t.Helper()
	c, err := catalog.ReadConversion(t.Context(), s, "d")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestParquetOfOlderToolsIsConvertedBatchByBatch(t *testing.T) {
	s := legacyDataset(t)
	told := &events{}
	c := converter(t, s, told, 1<<30)
	plan, err := c.Plan(t.Context(), "d")
	if err != nil || len(plan.Due()) != 4 || plan.Over() || plan.Bytes == 0 {
		t.Fatalf("%+v %v", plan, err)
	}
	if got := plan.Batches[0].String(); got != "d/b1: 1 parquet file of an older tool" {
		t.Error(got)
	}
	failed, err := convertAll(t, c)
	if err != nil || len(failed) > 0 {
		t.Fatal(failed, err)
	}
	_, want := parquetOfAllTypes(t)
	for i := range want {
		want[i] = strings.ReplaceAll(want[i], dataset.DerivedID("d/b/merged.parquet", i+1), dataset.DerivedID("d/b1/merged.parquet", i+1))
	}
	if diff := cmp.Diff(want, merged(t, s, batchOf("b1"))); diff != "" {
		t.Error(diff)
	}
	for _, b := range []dataset.BatchID{batchOf("b1"), batchOf("b2"), batchOf("b3"), layer("b1")} {
		healthy(t, s, b)
		if r := record(t, s, b); !strings.HasSuffix(r.Blocks[0].File, ".jsonl.gz") {
			t.Errorf("%+v", r.Blocks)
		}
	}
	st := status(t, s)
	if st.State != catalog.ConversionDone || st.BatchesDone != 4 || st.BatchesTotal != 4 || st.BytesDone != st.BytesTotal || st.BytesDone == 0 {
		t.Errorf("%+v", st)
	}
	var progress []dataset.Event
	seen := map[string]bool{}
	for _, e := range told.all {
		if e.Type == dataset.ConversionProgress {
			progress = append(progress, e)
			if seen[e.MsgID()] {
				t.Errorf("%s twice", e.MsgID())
			}
			seen[e.MsgID()] = true
		}
	}
	if len(progress) != 8 {
		t.Fatalf("%d events", len(progress))
	}
	if last := progress[7]; *last.BatchesDone != 4 || *last.BatchesTotal != 4 || *last.BytesDone != st.BytesTotal || last.State != catalog.ConversionDone {
		t.Errorf("%+v", last)
	}
	before := keys(t, s, "")
	if failed, err := convertAll(t, c); err != nil || len(failed) > 0 {
		t.Fatal(failed, err)
	}
	if diff := cmp.Diff(before, keys(t, s, "")); diff != "" {
		t.Errorf("a second conversion: %s", diff)
	}
}

func TestADamagedBatchFailsAlone(t *testing.T) {
	s := legacyDataset(t)
	whole := get(t, s, batchOf("b2").BlockKey("merged.parquet"))
	put(t, s, batchOf("b2").BlockKey("merged.parquet"), whole[:len(whole)-20])
	put(t, s, batchOf("b3").CommitKey(), `{"version":1,"commit`) // a record that was cut
	before := keys(t, s, "d/b2/")
	c := converter(t, s, nil, 1<<30)
	failed, err := convertAll(t, c)
	if err != nil || len(failed) != 2 || !errors.Is(failed["b2"], block.ErrDamaged) || !errors.Is(failed["b3"], catalog.ErrDamaged) {
		t.Fatal(failed, err)
	}
	if diff := cmp.Diff(before, keys(t, s, "d/b2/")); diff != "" {
		t.Error(diff)
	}
	st := status(t, s)
	if st.State != catalog.ConversionFailed || st.BatchesDone != 2 || st.BatchesTotal != 4 || !strings.Contains(st.Errors["b2"], "merged.parquet") || st.Errors["b3"] == "" {
		t.Errorf("%+v", st)
	}
	put(t, s, batchOf("b2").BlockKey("merged.parquet"), whole)
	put(t, s, batchOf("b3").CommitKey(), "rows: 2\n")
	if failed, err := convertAll(t, c); err != nil || len(failed) > 0 {
		t.Fatal(failed, err)
	}
	if st := status(t, s); st.State != catalog.ConversionDone || st.BatchesDone != 4 || len(st.Errors) > 0 {
		t.Errorf("%+v", st)
	}
}

func TestADatasetAboveTheLimitIsMergedAsAnyOther(t *testing.T) {
	s := legacyDataset(t)
	c := converter(t, s, nil, 100)
	plan, err := c.Plan(t.Context(), "d")
	if err != nil || !plan.Over() || len(plan.Due()) != 4 {
		t.Fatalf("%+v %v", plan, err)
	}
	if failed, err := convertAll(t, c); err != nil || len(failed) > 0 {
		t.Fatal(failed, err)
	}
	for _, b := range []dataset.BatchID{batchOf("b1"), batchOf("b2"), batchOf("b3"), layer("b1")} {
		healthy(t, s, b)
	}
	if st := status(t, s); st.State != catalog.ConversionDone || st.BatchesDone != 4 {
		t.Errorf("%+v", st)
	}
}

// Jobs come batch by batch, to several mergers, and nobody has planned: a batch
// may have been adopted by a merge, and the status may get lost on the way.
func TestJobsMakeTheStatusThatTheyNeed(t *testing.T) {
	s := legacyDataset(t)
	one, two := converter(t, s, nil, 1<<30), converter(t, s, nil, 1<<30)
	do := func(c *merger.Converter, b dataset.BatchID) {
		t.Helper()
		if _, err := c.Batch(t.Context(), b, nil); err != nil {
			t.Fatal(err)
		}
	}
	do(one, batchOf("b1"))
	if st := status(t, s); st.State != catalog.ConversionRunning || st.BatchesDone != 1 || st.BatchesTotal != 4 {
		t.Fatalf("%+v", st)
	}
	merge(t, engine(t, s, config(t, newClock())), batchOf("b3"))
	do(two, layer("b1"))
	do(one, batchOf("lines")) // nothing of it is parquet
	if err := s.Delete(t.Context(), dataset.ConversionKey("d")); err != nil {
		t.Fatal(err)
	}
	do(one, batchOf("b2"))
	if st := status(t, s); st.State != catalog.ConversionDone || st.BatchesDone != 1 || st.BatchesTotal != 1 {
		t.Fatalf("%+v", st)
	}
	do(two, batchOf("b3")) // its job comes late
	if st := status(t, s); st.State != catalog.ConversionDone {
		t.Fatalf("%+v", st)
	}
}

// The last to end finds that a merge has seen to what is left.
func TestAConversionEndsAlthoughMergesTakePart(t *testing.T) {
	s := legacyDataset(t)
	c := converter(t, s, nil, 1<<30)
	for _, b := range []dataset.BatchID{batchOf("b1"), batchOf("b2"), layer("b1")} {
		if b == layer("b1") {
			merge(t, engine(t, s, config(t, newClock())), batchOf("b3"))
		}
		if _, err := c.Batch(t.Context(), b, nil); err != nil {
			t.Fatal(err)
		}
	}
	if st := status(t, s); st.State != catalog.ConversionDone || st.BatchesDone != 4 || st.BatchesTotal != 4 {
		t.Fatalf("%+v", st)
	}
}

// A crash before and after every call of a conversion, with a sweeper that gives
// no grace: the next one goes on, and what is done is not done again.
func TestAConversionThatDiesAtAnyCallGoesOn(t *testing.T) {
	all := []dataset.BatchID{batchOf("b1"), batchOf("b2"), batchOf("b3"), layer("b1")}
	quiet := legacyDataset(t)
	calls := 0
	counting := objtest.NewFaulty(t, quiet, objtest.On().Before(func() { calls++ }))
	if failed, err := convertAll(t, converter(t, counting, nil, 1<<30)); err != nil || len(failed) > 0 {
		t.Fatal(failed, err)
	}
	step := 1
	if testing.Short() {
		step = 7
	}
	for n := 1; n <= calls; n += step {
		for name, rules := range map[string][]*objtest.Rule{
			"before":         {objtest.On().Nth(n).Times(1 << 30).Fail(errCrash)},
			"after":          {objtest.On().Nth(n).FailAfter(errCrash), objtest.On().Nth(n).Times(1 << 30).Fail(errCrash)},
			"answer is lost": {objtest.On(objtest.Put, objtest.Upload).Nth(n).LoseAnswer()},
		} {
			s := legacyDataset(t)
			f := objtest.NewFaulty(mute{t}, s, rules...)
			_, _ = convertAll(t, converter(t, f, nil, 1<<30))
			f.Flush()
			done := map[dataset.BatchID]string{}
			for _, b := range all {
				sweepNow(t, s, b)
				if h, err := catalog.ReadHead(t.Context(), s, b); err == nil && h.Exists() {
					done[b] = h.Record.Blocks[0].SHA256
				}
			}
			if failed, err := convertAll(t, converter(t, s, nil, 1<<30)); err != nil || len(failed) > 0 {
				t.Fatal(name, n, failed, err)
			}
			for _, b := range all {
				sweepNow(t, s, b)
				healthy(t, s, b)
				if diff := cmp.Diff(merged(t, quiet, b), merged(t, s, b)); diff != "" {
					t.Fatal(name, n, diff)
				}
				if was := done[b]; was != "" && record(t, s, b).Blocks[0].SHA256 != was {
					t.Fatal(name, n, "it was done twice")
				}
			}
			if st := status(t, s); st.State != catalog.ConversionDone && st.State != catalog.ConversionIdle {
				t.Fatalf("%s %d: %+v", name, n, st)
			}
		}
	}
	t.Log(fmt.Sprint(calls), "calls")
}

// Parquet blocks of our own become lines too, byte for byte, in one commit, and
// digests, deduplication and history go on as they were.
func TestParquetBlocksAreConvertedToo(t *testing.T) {
	for _, columns := range [][]string{nil, {"k"}} {
		s := mem.New()
		c := newClock()
		cfg := config(t, c)
		cfg.MaxJSONLBytes, cfg.DatasetBytes = 1, func(context.Context, string) (int64, error) { return 2, nil }
		large := engine(t, s, cfg)
		putRun(t, s, theBatch, "aaaaaa", columns, catalog.RunOpen)
		var lines []string
		for i := range 40 {
			lines = append(lines, fmt.Sprintf(`{"id":"%03d", "k":"k%d","n":1.0,"big":9007199254740993,"e":"\u00e9"}`, i, i))
		}
		putChunk(t, s, theBatch, "aaaaaa", 0, lines[:20]...)
		merge(t, large, theBatch)
		putChunk(t, s, theBatch, "aaaaaa", 1, lines[20:]...)
		merge(t, large, theBatch)
		if b := record(t, s, theBatch).Blocks[0].File; !strings.HasSuffix(b, ".parquet") {
			t.Fatal(b)
		}
		want := record(t, s, theBatch)
		e := engine(t, s, config(t, c))
		conv := merger.NewConverter(e, 1<<30)
		plan, err := conv.Plan(t.Context(), "d")
		if err != nil || len(plan.Due()) != 1 || plan.Due()[0].Older {
			t.Fatalf("%+v %v", plan, err)
		}
		if over, err := merger.NewConverter(e, 10).Plan(t.Context(), "d"); err != nil || len(over.Due()) != 0 {
			t.Fatalf("above the limit parquet blocks stay: %+v %v", over, err)
		}
		putChunk(t, s, theBatch, "aaaaaa", 2, `{"id":"m","k":"k7"}`, `{"id":"new","k":"new"}`)
		res, err := conv.Batch(t.Context(), theBatch, nil)
		if err != nil || !res.Committed || res.Generation != want.Generation+1 {
			t.Fatalf("%+v %v", res, err)
		}
		got := record(t, s, theBatch)
		for _, b := range got.Blocks {
			if !strings.HasSuffix(b.File, ".jsonl.gz") {
				t.Errorf("%s is left", b.File)
			}
		}
		all := lines
		if columns == nil {
			all = append(all, `{"id":"m","k":"k7"}`)
		}
		if diff := cmp.Diff(append(all, `{"id":"new","k":"new"}`), merged(t, s, theBatch)); diff != "" {
			t.Error(diff)
		}
		healthy(t, s, theBatch)
		sweepNow(t, s, theBatch)
		healthy(t, s, theBatch)
		if res, err := conv.Batch(t.Context(), theBatch, nil); err != nil || res.Committed {
			t.Errorf("%+v %v", res, err)
		}
		if st := status(t, s); st.State != catalog.ConversionDone {
			t.Errorf("%+v", st)
		}
	}
}
