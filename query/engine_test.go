package query_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/cache"
	"github.com/siltstone-data/siltstone/objstore/objtest"
	"github.com/siltstone-data/siltstone/query"
)

// followed is a catalog that knows what was told last, as one that follows
// events does: it may be behind the store.
type followed struct {
	mu   sync.Mutex
	live map[dataset.BatchID]query.LiveChunks
}

func (f *followed) Datasets(context.Context) ([]string, error) { return []string{"d"}, nil }

func (f *followed) Batches(context.Context, string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for b := range f.live {
		if b.Annotator == "" {
			names = append(names, b.Batch)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (f *followed) Layer(_ context.Context, _, annotator string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for b := range f.live {
		if b.Annotator == annotator {
			names = append(names, b.Batch)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (f *followed) Live(_ context.Context, b dataset.BatchID) (query.LiveChunks, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.live[b], nil
}

// follow lets the catalog see what is in the store now.
func (f *followed) follow(b *bucket, batch string) { f.followID(b, batchID(batch)) }

func (f *followed) followID(b *bucket, id dataset.BatchID) {
	b.t.Helper()
	live, err := query.Listed(b.store).Live(context.Background(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	live.Generation = b.headOf(id).Record.Generation
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live[id] = live
}

func followedEngine(t testing.TB, s objstore.Store) (*query.Engine, *followed) {
	t.Helper()
	f := &followed{live: map[dataset.BatchID]query.LiveChunks{}}
	e, err := query.NewEngine(s, f, query.EngineConfig{Parallel: 1}, quiet, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e, f
}

func TestARecordAtHandServesWhileTheCatalogNamesItsGeneration(t *testing.T) {
	b := newBucket(t)
	b.cut = 100
	b.merged("x", line("1"), line("2"))
	records := 0
	c := &counting{Store: b.store, get: func(key string) {
		if strings.HasSuffix(key, "manifest.yaml") {
			records++
		}
	}}
	e, f := followedEngine(t, c)
	f.follow(b, "x")
	for range 5 {
		if p := page(t, e, query.PageRequest{}); len(p.Rows) != 2 {
			t.Errorf("%q", lines(p))
		}
	}
	if records != 1 {
		t.Errorf("the record was read %d times", records)
	}
	b.chunk("x", 7, line("3"))
	f.follow(b, "x")
	if p := page(t, e, query.PageRequest{}); len(p.Rows) != 3 || p.LiveRows != 1 {
		t.Errorf("%q, %d live", lines(p), p.LiveRows)
	}
	// The batch is merged, and the catalog has not heard of it: the chunk is gone,
	// so the record is read; then it has, and the old record does not serve.
	b.mergeNow("x")()
	fresh, other := followedEngine(t, b.store)
	other.live = f.live
	for _, e := range []*query.Engine{e, fresh} {
		if p := page(t, e, query.PageRequest{}); len(p.Rows) != 3 {
			t.Errorf("%q", lines(p))
		}
	}
	f.follow(b, "x")
	if p := page(t, e, query.PageRequest{}); len(p.Rows) != 3 || p.LiveRows != 0 {
		t.Errorf("%q, %d live", lines(p), p.LiveRows)
	}
	// A catalog that has seen a generation that the store does not have.
	f.live[batchID("x")] = query.LiveChunks{Generation: 99}
	if _, err := e.Page(t.Context(), query.PageRequest{Dataset: "d"}); !errors.Is(err, query.ErrDamaged) {
		t.Error(err)
	}
}

func TestPagesThroughACatalogThatIsBehindSkipNothing(t *testing.T) {
	b := newBucket(t)
	e, f := followedEngine(t, b.store)
	var want []string
	for i := range 40 {
		id := fmt.Sprintf("%02d", i)
		b.chunk("x", i, line(id))
		want = append(want, `{"id":"`+id+`","_batch":"x"}`)
		if i%5 == 0 {
			f.follow(b, "x")
		}
	}
	f.follow(b, "x")
	q := query.PageRequest{Limit: 3}
	var got []string
	for n := 0; ; n++ {
		p := page(t, e, q)
		got = append(got, lines(p)...)
		if q.Cursor = p.Next; p.Next == "" {
			break
		}
		b.chunk("x", 100+n, line(fmt.Sprintf("00.%d", n)))
		b.mergeNow("x")()
		if n%4 == 3 {
			f.follow(b, "x")
		}
	}
	same(t, got, want...)
}

func TestSumsOfDatasets(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("1"), line("2"))
	b.chunk("x", 8, line("2"), line("3"), "no row")
	b.chunk("y", 1, line("1"))
	b.merged("gone", line("1"))
	b.remove("gone")
	b.put("d/annotations/lang/x/merged_00000.jsonl.gz", "x")
	b.put("d/annotations/custom_search/.temp/x/abc123_chunk_00000.jsonl", "x")
	b.put("d/_index/x/00000.parquet", "x")
	b.put("empty/x/nothing.txt", "x")
	e := b.engine(false)
	all, err := e.Datasets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rec := b.head("x").Record
	want := query.DatasetInfo{Name: "d", Batches: 2, Rows: 2, Bytes: rec.Blocks[0].Bytes, LiveRows: 3, LiveChunks: 2,
		Annotators: []string{"custom_search", "lang"}, UpdatedAt: rec.CommittedAt}
	if diff := cmp.Diff([]query.DatasetInfo{want}, all, cmpopts.IgnoreFields(query.DatasetInfo{}, "Bytes")); diff != "" {
		t.Error(diff)
	}
	one, batches, err := e.Dataset(t.Context(), "d")
	if err != nil {
		t.Fatal(err)
	}
	want.Layers = []query.LayerInfo{
		{Annotator: "custom_search", Batches: 1, LiveChunks: 1, Parts: []query.LayerPart{{BatchInfo: query.BatchInfo{Name: "x", LiveChunks: 1}}}},
		{Annotator: "lang", Batches: 1, Parts: []query.LayerPart{{BatchInfo: query.BatchInfo{Name: "x"}}}},
	}
	if diff := cmp.Diff(want, one, cmpopts.IgnoreFields(query.DatasetInfo{}, "Bytes")); diff != "" {
		t.Error(diff)
	}
	wantBatches := []query.BatchInfo{
		{Name: "x", Rows: 2, Generation: rec.Generation, LiveRows: 2, LiveChunks: 1, UpdatedAt: rec.CommittedAt},
		{Name: "y", LiveRows: 1, LiveChunks: 1},
	}
	if diff := cmp.Diff(wantBatches, batches, cmpopts.IgnoreFields(query.BatchInfo{}, "Bytes")); diff != "" {
		t.Error(diff)
	}
	if n, exact, err := e.Count(t.Context(), "d", []string{"x"}); n != 3 || !exact || err != nil {
		t.Errorf("%d, %v, %v", n, exact, err)
	}
}

func TestRowsOfManyChunksAreNotCountedForANumber(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("1"))
	for i := range 1001 {
		b.chunk("x", 10+i, line(fmt.Sprint(i)))
	}
	e := b.engine(false)
	d, _, err := e.Dataset(t.Context(), "d")
	if err != nil || d.LiveRows != -1 || d.LiveChunks != 1001 {
		t.Errorf("%+v, %v", d, err)
	}
	if n, exact, err := e.Count(t.Context(), "d", nil); exact || n < 1 || err != nil {
		t.Errorf("%d, %v, %v", n, exact, err)
	}
	if p := page(t, e, query.PageRequest{}); p.LiveRows != 1001 {
		t.Errorf("%d", p.LiveRows)
	}
	if d, _, _ = e.Dataset(t.Context(), "d"); d.LiveRows != 1001 { // known from the page
		t.Errorf("%+v", d)
	}
}

func TestTheSchemaOfADataset(t *testing.T) {
	b := newBucket(t)
	b.cut = 10_000
	b.merged("x", `{"id":"1","_created_at":5,"n":1,"m":"a","b":true,"o":{"x":1},"long":"`+strings.Repeat("x", 65)+`","esc":"`+strings.Repeat(`\u0041`, 64)+`"}`,
		`{"id":"2","n":1.5,"m":2,"N":null}`)
	b.chunk("y", 0, `{"id":"1","live":[1],"n":null}`)
	e := b.engine(false)
	got, err := e.Schema(t.Context(), "d")
	if err != nil {
		t.Fatal(err)
	}
	col := func(name string, nulls int64, lean bool, types ...string) query.Column {
		return query.Column{Name: name, Types: append([]string{}, types...), Nulls: nulls, Lean: lean, Source: "base", Rows: 3}
	}
	want := []query.Column{col("id", 0, true, "string"), col("_created_at", 2, true, "number"), col("n", 1, true, "number"),
		col("m", 1, false, "number", "string"), col("b", 2, true, "boolean"), col("o", 2, false, "object"), col("long", 2, false, "string"),
		col("esc", 2, true, "string"), col("N", 3, false), col("live", 2, false, "array")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// A large block: a sample, with an index or without.
	var ls []string
	for i := range 3000 {
		ls = append(ls, line(fmt.Sprintf("%05d", i), fmt.Sprintf(`"n":%d,"t":"%x%s"`, i, i*7919, strings.Repeat("text ", i%300))))
	}
	b.merged("z", ls...)
	for range 2 {
		got, err := e.Schema(t.Context(), "d")
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(got, func(c query.Column) bool { return c.Name == "t" }); i < 0 || !got[i].Sample || got[i].Rows < 50 || got[i].Rows > 2000 {
			t.Errorf("%+v", got)
		}
		b.indexAll("z")
	}
}

func TestABlockThatIsGoneUnderAPageWasReplaced(t *testing.T) {
	for nth := range 4 {
		b := newBucket(t)
		b.cut = 2
		b.merged("x", line("b"), line("d"), line("f"), line("h"))
		b.chunk("x", 5, line("a"), line("e"))
		f := objtest.NewFaulty(t, b.store, objtest.On(objtest.Get).Key("*merged_*").Nth(nth+1).Before(b.mergeNow("x")))
		e := engineOver(t, f, query.EngineConfig{Parallel: 1})
		same(t, lines(page(t, e, query.PageRequest{})), shown(t, []string{`x {"id":"a"}`, `x {"id":"b"}`, `x {"id":"d"}`, `x {"id":"e"}`, `x {"id":"f"}`, `x {"id":"h"}`})...)
	}
}

func TestAChunkThatIsGoneUnderAPageIsFoundInABlock(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("b"))
	key := b.chunk("x", 5, line("a"), line("c"))
	f := objtest.NewFaulty(t, b.store, objtest.On(objtest.Get).Key(key).Nth(1).Before(b.mergeNow("x")))
	e := engineOver(t, f, query.EngineConfig{Parallel: 1})
	same(t, lines(page(t, e, query.PageRequest{})), shown(t, []string{`x {"id":"a"}`, `x {"id":"b"}`, `x {"id":"c"}`})...)
}

func TestDamageIsReportedByPagesToo(t *testing.T) {
	for name, wound := range map[string]func(b *bucket, key string, raw []byte){
		"missing":     func(b *bucket, key string, _ []byte) { b.delete(key) },
		"cut":         func(b *bucket, key string, raw []byte) { b.put(key, string(raw[:len(raw)-5])) },
		"longer":      func(b *bucket, key string, raw []byte) { b.put(key, string(raw)+"\x00") },
		"middle byte": func(b *bucket, key string, raw []byte) { raw[len(raw)/2]++; b.put(key, string(raw)) },
		"parquet":     func(b *bucket, key string, raw []byte) { b.put(key, "PAR1"+string(raw[4:])) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, indexed := range []bool{false, true} {
				b := newBucket(t)
				b.cut = 1000
				b.merged("x", line("1", `"t":"some text"`), line("2"))
				if indexed {
					b.indexAll("x")
				}
				key := b.blocks("x")[0]
				wound(b, key, b.get(key))
				_, err := b.engine(true).Page(t.Context(), query.PageRequest{Dataset: "d"})
				if !errors.Is(err, query.ErrDamaged) || !strings.Contains(err.Error(), key) {
					t.Errorf("indexed %v: %v", indexed, err)
				}
			}
		})
	}
	b := newBucket(t)
	b.merged("x", line("1"))
	key := b.chunk("x", 5, line("2"))
	f := objtest.NewFaulty(t, b.store, objtest.On(objtest.Get).Key(key).Nth(1).Before(func() { b.delete(key) }))
	if _, err := engineOver(t, f, query.EngineConfig{Parallel: 1}).Page(t.Context(), query.PageRequest{Dataset: "d"}); !errors.Is(err, query.ErrDamaged) || !strings.Contains(err.Error(), key) {
		t.Error(err)
	}
	down := errors.New("the store is down")
	g := objtest.NewFaulty(t, b.store, objtest.On(objtest.Get).Key("*.jsonl.gz").Fail(down))
	if _, err := engineOver(t, g, query.EngineConfig{}).Page(t.Context(), query.PageRequest{Dataset: "d"}); !errors.Is(err, down) || errors.Is(err, query.ErrDamaged) {
		t.Error(err)
	}
}

func TestABatchThatNeverRestsIsReportedByPagesToo(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("a"))
	b.chunk("x", 50, line("b"))
	c := &counting{Store: b.store, get: func(key string) {
		if strings.HasSuffix(key, ".jsonl.gz") {
			b.mergeNow("x")()
		}
	}}
	if _, err := engineOver(t, c, query.EngineConfig{Parallel: 1}).Page(t.Context(), query.PageRequest{Dataset: "d"}); !errors.Is(err, query.ErrDamaged) || !strings.Contains(err.Error(), "replaced") {
		t.Error(err)
	}
}

func TestAnIndexThatIsWrongIsNotTrusted(t *testing.T) {
	b := newBucket(t)
	b.cut = 100
	b.merged("x", line("1"), line("2"))
	key := batchID("x").IndexKey(0)
	for _, raw := range []string{"", "PAR1", strings.Repeat("x", 100_000)} {
		b.put(key, raw)
		if p := page(t, b.engine(true), query.PageRequest{}); len(p.Rows) != 2 {
			t.Errorf("%d rows", len(p.Rows))
		}
	}
}

func TestManyPagesAtOnceThroughOneCache(t *testing.T) {
	b := newBucket(t)
	b.cut = 400
	var ls []string
	for i := range 2000 {
		ls = append(ls, line(fmt.Sprintf("%04d", i), `"t":"`+strings.Repeat("text ", 100)+`"`))
	}
	b.merged("x", ls...)
	b.chunk("x", 9, line("0500.5"), line("9"))
	want := shown2(t, b)
	e := engineOver(t, b.store, query.EngineConfig{CacheDir: t.TempDir(), CacheBytes: 200 << 10})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			q := query.PageRequest{Dataset: "d", Limit: 200 + g, Desc: g%2 == 0}
			var got []string
			for {
				p, err := e.Page(t.Context(), q)
				if err != nil {
					t.Error(err)
					return
				}
				got = append(got, lines(p)...)
				if q.Cursor = p.Next; p.Next == "" {
					break
				}
			}
			if q.Desc {
				slices.Reverse(got)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d rows", len(got))
			}
		})
	}
	wg.Wait()
}

func TestACacheFolderHasOneEngine(t *testing.T) {
	b := newBucket(t)
	dir := t.TempDir()
	e := engineOver(t, b.store, query.EngineConfig{CacheDir: dir})
	if _, err := query.NewEngine(b.store, query.Listed(b.store), query.EngineConfig{CacheDir: dir}, quiet, nil); !errors.Is(err, cache.ErrInUse) {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	engineOver(t, b.store, query.EngineConfig{CacheDir: dir})
	for _, cfg := range []query.EngineConfig{{CacheBytes: -1}, {Parallel: -1}} {
		if _, err := query.NewEngine(b.store, query.Listed(b.store), cfg, quiet, nil); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
}

func TestAPageEndsWithItsContext(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("1"))
	gone := errors.New("gone away")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := b.engine(false).Page(ctx, query.PageRequest{Dataset: "d"}); !errors.Is(err, gone) && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestFilesOfAnotherToolAreNoShortPage(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("1"))
	b.put(batchID("old").CommitKey(), "blocks: [a]\n")
	e := b.engine(false)
	if _, err := e.Page(t.Context(), query.PageRequest{Dataset: "d"}); !errors.Is(err, dataset.ErrNotMerged) {
		t.Error(err)
	}
	if p := page(t, e, query.PageRequest{Batches: []string{"x"}}); len(p.Rows) != 1 {
		t.Errorf("%q", lines(p))
	}
	if d, _, err := e.Dataset(t.Context(), "d"); err != nil || d.Batches != 2 {
		t.Errorf("%+v, %v", d, err)
	}
}
