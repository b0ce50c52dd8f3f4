package query_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/query"
)

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows differ (-want +got):\n%s", diff)
	}
}

func TestRowsComeInOrderOfIDAndThenBatch(t *testing.T) {
	b := newBucket(t)
	b.merged("y", line("b"), line("a"), line("d"), line("e"), line("f"))
	b.merged("x", line("c"), line("a"), line("g"), line("h"))
	same(t, b.read(query.Options{}),
		`x {"id":"a"}`, `y {"id":"a"}`, `y {"id":"b"}`, `x {"id":"c"}`, `y {"id":"d"}`, `y {"id":"e"}`, `y {"id":"f"}`, `x {"id":"g"}`, `x {"id":"h"}`)
}

func TestIDsCompareBytewiseAfterUnescaping(t *testing.T) {
	b := newBucket(t)
	b.cut = 2
	lines := []string{
		`{"id":"10"}`, `{"id":"9"}`, `{"id":"Z"}`, `{"id":"a"}`, `{"id":"é"}`, `{"id":"\u0065\u0301"}`,
		`{"id":"日本"}`, `{"id":"\ud83d\ude00"}`, `{"id":"ﬀ"}`, `{"id":"a\u0000b"}`, `{"id":"a\u0000"}`, `{"id":" "}`,
		`{"id":"\u0001"}`, `{"id":"a\"b"}`, `{"id":"` + strings.Repeat("a", 256) + `"}`, `{"id":7}`,
	}
	half := len(lines) / 2
	b.merged("x", lines[:half]...)
	b.chunk("x", 9, lines[half:]...)
	var want []dataset.Row
	for _, l := range lines {
		r, err := dataset.ParseRow([]byte(l))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, r)
	}
	slices.SortFunc(want, func(a, b dataset.Row) int { return strings.Compare(a.ID, b.ID) })
	var lines2 []string
	for _, r := range want {
		lines2 = append(lines2, "x "+string(r.Raw))
	}
	same(t, b.read(query.Options{Live: true}), lines2...)
}

func TestARowComesBackByteForByte(t *testing.T) {
	b := newBucket(t)
	lines := []string{
		`{"id":"a", "x" : 1e400,"y":-0,"z":1.0, "n":9007199254740993,"big":18446744073709551616}`,
		`{"id":"b","t":"x\ud83dy","u":"\u00e9\/","o":{"b":1,"a":[null,null,1]},"nul":null}`,
		`{"z":1,"id":"c","__proto__":"x","":5," ":6,"a.b":1,"a":{"b":2},"ID":"2"}`,
	}
	b.merged("x", lines[0], lines[1])
	b.chunk("x", 7, lines[2])
	same(t, b.read(query.Options{Live: true}), "x "+lines[0], "x "+lines[1], "x "+lines[2])
}

func TestLimitAfterAndBatchesNarrowARead(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("a"), line("b"), line("c"), line("d"), line("e"))
	b.merged("y", line("a"), line("c"))
	b.chunk("y", 5, line("bb"), line("a", `"late":1`))
	all := b.read(query.Options{Live: true})
	same(t, all, `x {"id":"a"}`, `y {"id":"a"}`, `x {"id":"b"}`, `y {"id":"bb"}`, `x {"id":"c"}`, `y {"id":"c"}`, `x {"id":"d"}`, `x {"id":"e"}`)
	for n := range len(all) {
		same(t, b.read(query.Options{Live: true, Limit: int64(n + 1)}), all[:n+1]...)
	}
	places := []query.Cursor{{"a", "x"}, {"a", "y"}, {"b", "x"}, {"bb", "y"}, {"c", "x"}, {"c", "y"}, {"d", "x"}, {"e", "x"}}
	for i, c := range places {
		same(t, b.read(query.Options{Live: true, After: &c}), append([]string(nil), all[i+1:]...)...)
	}
	same(t, b.read(query.Options{After: &query.Cursor{ID: "b", Batch: "zz"}}), `x {"id":"c"}`, `y {"id":"c"}`, `x {"id":"d"}`, `x {"id":"e"}`)
	same(t, b.read(query.Options{Batches: []string{"y", "y"}}), `y {"id":"a"}`, `y {"id":"c"}`)
	same(t, b.read(query.Options{Batches: []string{"y", "x"}, Limit: 2}), `x {"id":"a"}`, `y {"id":"a"}`)
}

func TestOfLiveRowsTheOneStaysThatAMergeWouldKeep(t *testing.T) {
	at := func(s string) string { return `"_created_at":"` + s + `"` }
	b := newBucket(t)
	b.merged("x", line("m", `"from":"block"`))
	b.chunk("x", 3, line("m", at("1999-01-01T00:00:00Z"), `"from":"chunk"`),
		line("k", `"v":"no time"`), line("k", at("2020-01-01T00:00:01Z"), `"v":"later"`),
		line("l", `"v":"first line"`), line("l", `"v":"second line"`))
	b.chunk("x", 2, line("k", at("2020-01-01T00:00:00.000001Z"), `"v":"earliest"`), line("l", `"v":"lower chunk"`))
	b.chunk("x", 4, line("k", at("1969-12-31T23:59:59+01:00"), `"v":"before 1970"`), line("o", `"_created_at":1e99`))
	want := b.read(query.Options{Live: true})
	same(t, want, `x {"id":"k","_created_at":"1969-12-31T23:59:59+01:00","v":"before 1970"}`, `x {"id":"l","v":"lower chunk"}`,
		`x {"id":"m","from":"block"}`, `x {"id":"o","_created_at":1e99}`)
	if err := merge(t.Context(), b.store, batchID("x"), 2, b.commit()); err != nil {
		t.Fatal(err)
	}
	same(t, b.read(query.Options{}), want...)
}

func TestALiveRowKnowsItsTimeAndThatItIsLive(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("a", `"_created_at":"2026-02-03T04:05:06.000007+02:00"`))
	b.chunk("x", 3, line("b", `"_created_at":"2026-02-03T04:05:06.123456789Z"`), line("c"))
	type seen struct {
		ID   string
		Live bool
		At   string
	}
	var got []seen
	for r, err := range query.Rows(t.Context(), b.store, query.Options{Dataset: "d", Live: true, WorkDir: t.TempDir()}) {
		if err != nil {
			t.Fatal(err)
		}
		at := ""
		if !r.CreatedAt.IsZero() {
			at = r.CreatedAt.Format(time.RFC3339Nano)
		}
		got = append(got, seen{r.ID, r.Live, at})
	}
	want := []seen{{"a", false, "2026-02-03T02:05:06.000007Z"}, {"b", true, "2026-02-03T04:05:06.123456789Z"}, {"c", true, ""}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLinesThatAMergeRejectsAreLeftOutAndTold(t *testing.T) {
	b := newBucket(t)
	key := b.chunk("x", 0, "\ufeff"+line("a"), "", "nonsense", line("b", `"_batch":"x"`), line("c", `"\u005fsilt_raw":1`),
		`{"t":"no id"}`, line("d", `"text":"_silt_ and \"_batch\""`)+"\r", `{"id":"e","t":"hel`)
	var rejected []query.Rejected
	got := b.read(query.Options{Live: true, Rejected: func(r query.Rejected) { rejected = append(rejected, r) }})
	derived := dataset.DerivedID(key, 6)
	want := []string{`x {"id":"` + derived + `","t":"no id"}`, `x {"id":"a"}`, `x {"id":"d","text":"_silt_ and \"_batch\""}`}
	slices.Sort(want)
	slices.Sort(got)
	same(t, got, want...)
	var lines []int
	for _, r := range rejected {
		if r.Key != key || r.Reason == "" {
			t.Errorf("rejected %+v", r)
		}
		lines = append(lines, r.Line)
	}
	if diff := cmp.Diff([]int{3, 4, 5, 8}, lines); diff != "" {
		t.Error(diff)
	}
}

func TestAnUnknownNameComesWithTheNearest(t *testing.T) {
	b := newBucket(t)
	b.merged("2026-06", line("a"))
	b.put("d/empty-folder/", "")
	tests := []struct {
		o    query.Options
		want query.NotFoundError
	}{
		{query.Options{Dataset: "dd"}, query.NotFoundError{What: "dataset", Name: "dd", Nearest: "d"}},
		{query.Options{Dataset: "quite-other"}, query.NotFoundError{What: "dataset", Name: "quite-other"}},
		{query.Options{Dataset: "d", Batches: []string{"2026-07"}}, query.NotFoundError{What: "batch", Name: "2026-07", Nearest: "2026-06"}},
		{query.Options{Dataset: "d", Batches: []string{"empty-folder"}}, query.NotFoundError{What: "batch", Name: "empty-folder"}},
		{query.Options{Dataset: "e", Batches: []string{"2026-06"}}, query.NotFoundError{What: "dataset", Name: "e", Nearest: "d"}},
	}
	for _, tt := range tests {
		for _, live := range []bool{false, true} {
			tt.o.Live = live
			_, err := read(t.Context(), b.store, tt.o)
			var got *query.NotFoundError
			if !errors.As(err, &got) || *got != tt.want || !errors.Is(err, query.ErrNotFound) {
				t.Errorf("%+v: %v", tt.o, err)
			}
		}
	}
	for _, o := range []query.Options{{Dataset: "a/b"}, {Dataset: "d", Batches: []string{"annotations"}}} {
		if _, err := read(t.Context(), b.store, o); !errors.Is(err, dataset.ErrName) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := read(t.Context(), b.store, query.Options{Dataset: "d", Limit: -1}); err == nil {
		t.Error("a negative limit was taken")
	}
}

func TestWhatIsNotMergedDiffersFromWhatIsEmpty(t *testing.T) {
	b := newBucket(t)
	b.chunk("x", 0, line("a"))
	if _, err := read(t.Context(), b.store, query.Options{}); !errors.Is(err, dataset.ErrNotMerged) {
		t.Errorf("only live rows: %v", err)
	}
	same(t, b.read(query.Options{Live: true}), `x {"id":"a"}`)
	b.merged("y", "no row")
	same(t, b.read(query.Options{}))
	if _, err := read(t.Context(), b.store, query.Options{Batches: []string{"x"}}); !errors.Is(err, dataset.ErrNotMerged) {
		t.Errorf("only live rows in the batch: %v", err)
	}
	same(t, b.read(query.Options{Batches: []string{"x", "y"}}))
	if rec := b.head("y").Record; len(rec.Blocks) != 1 || rec.Blocks[0].Rows != 0 {
		t.Errorf("blocks of an empty batch: %+v", rec.Blocks)
	}

	b.put("e/b/abc123.manifest.json", `{"version":1}`)
	if _, err := read(t.Context(), b.store, query.Options{Dataset: "e"}); !errors.Is(err, dataset.ErrNotMerged) {
		t.Errorf("a run without a chunk: %v", err)
	}
	if rows, err := read(t.Context(), b.store, query.Options{Dataset: "e", Live: true}); err != nil || len(rows) > 0 {
		t.Errorf("a run without a chunk, live: %v %v", rows, err)
	}
	b.put("e/b/abc123.manifest.json", `{"version":1,"state":"completed","chunks":0}`)
	if rows, err := read(t.Context(), b.store, query.Options{Dataset: "e"}); err != nil || len(rows) > 0 {
		t.Errorf("a run that ended without a chunk: %v %v", rows, err)
	}
}

func TestABatchThatHasLostItsRecordIsDamaged(t *testing.T) {
	b := newBucket(t)
	b.put("d/x/abc123.manifest.json", `{"version":1,"state":"completed","chunks":1}`)
	b.merged("x", line("a"))
	b.merged("y", line("b"))
	same(t, b.read(query.Options{Live: true}), `x {"id":"a"}`, `y {"id":"b"}`)
	b.delete("d/x/manifest.yaml")
	look := func(t *testing.T) {
		for _, o := range []query.Options{{}, {Live: true}, {Batches: []string{"x"}}, {Batches: []string{"x", "y"}, Live: true}} {
			if rows, err := read(t.Context(), b.store, o); len(rows) > 0 || !errors.Is(err, query.ErrDamaged) || !strings.Contains(err.Error(), "d/x/manifest.yaml") {
				t.Errorf("%+v: %v, %v", o, rows, err)
			}
		}
		for _, names := range [][]string{nil, {"x"}} {
			p, err := b.engine(false).Page(t.Context(), query.PageRequest{Dataset: "d", Batches: names, Limit: 10})
			if len(p.Rows) > 0 || !errors.Is(err, query.ErrDamaged) {
				t.Errorf("a page of %v: %v, %v", names, p.Rows, err)
			}
		}
	}
	t.Run("nothing is live", look)
	b.chunk("x", 7, line("z"))
	t.Run("something is live", look)
	for info, err := range b.store.List(t.Context(), "d/x/merged", "") {
		if err != nil {
			t.Fatal(err)
		}
		b.delete(info.Key)
	}
	b.delete(batchID("x").ChunkKey(run, 7))
	if rows, err := read(t.Context(), b.store, query.Options{Batches: []string{"x"}}); len(rows) > 0 || !errors.Is(err, query.ErrDamaged) {
		t.Errorf("its blocks are gone too: %v, %v", rows, err)
	}
}

func TestARecordThatHasLostABlockIsDamaged(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("a"), line("b"), line("c"), line("d"))
	rec := b.head("x").Record
	rec.Blocks = rec.Blocks[:1]
	raw, err := json.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	b.put("d/x/manifest.yaml", string(raw))
	if rows, err := read(t.Context(), b.store, query.Options{}); len(rows) > 0 || !errors.Is(err, query.ErrDamaged) {
		t.Errorf("%v, %v", rows, err)
	}
}

func TestFilesOfAnotherToolAreNotTakenForNothing(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("a"))
	b.put("d/y/manifest.yaml", "rows: 1\n")
	b.put("d/y/merged_00000.jsonl.gz", "")
	same(t, b.read(query.Options{}), `x {"id":"a"}`)
	if out, err := query.LiveRows(t.Context(), b.store, "d", nil); err != nil || out.Foreign != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	for _, o := range []query.Options{{Live: true}, {Live: true, Batches: []string{"y"}}, {Batches: []string{"y"}}} {
		if rows, err := read(t.Context(), b.store, o); len(rows) > 0 || !errors.Is(err, dataset.ErrNotMerged) {
			t.Errorf("%+v: %v, %v", o, rows, err)
		}
	}
	same(t, b.read(query.Options{Live: true, Batches: []string{"x"}}), `x {"id":"a"}`)
}

func TestARemovedBatchIsNotThere(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("a"))
	b.merged("y", line("b"))
	b.remove("y")
	b.chunk("y", 8, line("undead"))
	same(t, b.read(query.Options{Live: true}), `x {"id":"a"}`)
	if _, err := read(t.Context(), b.store, query.Options{Batches: []string{"y"}}); !errors.Is(err, query.ErrNotFound) {
		t.Error(err)
	}
	b.remove("x")
	if _, err := read(t.Context(), b.store, query.Options{}); !errors.Is(err, query.ErrNotFound) {
		t.Error(err)
	}
}

func (b *bucket) remove(batch string) {
	b.t.Helper()
	h := b.head(batch)
	next := h.Record.Next(b.commit(), "test", time.Unix(0, 0))
	next.Deleted, next.Blocks, next.Rows = true, nil, 0
	if _, err := catalog.Commit(context.Background(), b.store, h, next); err != nil {
		b.t.Fatal(err)
	}
}

func TestNeighboursDoNotLeakIn(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("a"))
	b.merged("xx", line("b"))
	b.put("d2/x/abc123_chunk_00000.jsonl", line("other"))
	b.put("d/annotations/ann/x/manifest.yaml", "{}")
	b.put("d/_index/x.meta.json", "{}")
	b.put("d/x/notes.txt", "hello")
	same(t, b.read(query.Options{Live: true}), `x {"id":"a"}`, `xx {"id":"b"}`)
	same(t, b.read(query.Options{Live: true, Batches: []string{"x"}}), `x {"id":"a"}`)
}

func TestManyBatchesAreReadTogether(t *testing.T) {
	b := newBucket(t)
	b.cut = 50
	const batches, rows = 120, 40
	var want []string
	for i := range batches {
		name := fmt.Sprintf("b%03d", i)
		var lines []string
		for j := range rows {
			// Every batch spans all ids, so all are open at once; past the
			// first sixteen their blocks are read in pieces.
			l := line(fmt.Sprintf("%04d", j*97%rows), fmt.Sprintf(`"t":"%s"`, strings.Repeat(name, 900)))
			lines = append(lines, l)
			want = append(want, fmt.Sprintf("%04d %s", j*97%rows, name))
		}
		b.merged(name, lines...)
	}
	slices.Sort(want)
	got := b.read(query.Options{})
	for i, r := range got {
		batch, rest, _ := strings.Cut(r, " ")
		got[i] = rest[len(`{"id":"`):len(`{"id":"`)+4] + " " + batch
	}
	same(t, got, want...)
}

func TestABatchIsOpenedWhenItsTurnComes(t *testing.T) {
	b := newBucket(t)
	for i := range 50 {
		b.merged(fmt.Sprintf("b%02d", i), line(fmt.Sprintf("%02d-1", i)), line(fmt.Sprintf("%02d-2", i)))
	}
	count := &counting{Store: b.store}
	n := 0
	for _, err := range query.Rows(t.Context(), count, query.Options{Dataset: "d"}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 5 {
			break
		}
	}
	if got := count.blocks.Load(); got > 3 {
		t.Errorf("five rows of three batches opened %d blocks", got)
	}
}

func TestAReadCanBeStoppedAndCancelled(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("a"), line("b"), line("c"))
	b.chunk("x", 5, line("d"))
	dir := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	why := errors.New("enough")
	var last error
	for row, err := range query.Rows(ctx, b.store, query.Options{Dataset: "d", Live: true, WorkDir: dir}) {
		if err != nil {
			last = err
			break
		}
		if row.ID == "b" {
			cancel(why)
		}
	}
	if !errors.Is(last, why) {
		t.Errorf("cancelled read ended with %v", last)
	}
	same(t, entries(t, dir))
}

func TestMemoryDoesNotGrowWithTheRows(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 160 MB")
	}
	b := newBucket(t)
	b.cut = 2000
	text := strings.Repeat("0123456789abcdef", 256) // 4 KiB
	// 80 MB of live rows spill out of a buffer of 64 MiB.
	for i := range 2 {
		lines := make([]string, 0, 10_000)
		for j := range cap(lines) {
			lines = append(lines, line(fmt.Sprintf("%d-%05d", i, j*7919%cap(lines)), `"t":"`+text+`"`))
		}
		b.merged("x", lines...)
		b.chunk("y", i, lines...)
	}
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	dir := t.TempDir()
	n, peak := 0, uint64(0)
	for _, err := range query.Rows(t.Context(), b.store, query.Options{Dataset: "d", Live: true, WorkDir: dir}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n%5000 == 1 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapAlloc-min(now.HeapAlloc, before.HeapAlloc))
		}
	}
	if n != 40_000 {
		t.Errorf("%d rows", n)
	}
	if limit := uint64(100 << 20); peak > limit {
		t.Errorf("160 MB of rows took %d MB of memory", peak>>20)
	}
	same(t, entries(t, dir))
}

func TestOptionsAreSetByName(t *testing.T) {
	var o query.Options
	for _, opt := range []query.Option{query.Batches("x"), query.Columns(), query.Live(), query.Limit(3), query.After(query.Cursor{ID: "a", Batch: "x"})} {
		opt(&o)
	}
	want := query.Options{Batches: []string{"x"}, Columns: []string{}, Live: true, Limit: 3, After: &query.Cursor{ID: "a", Batch: "x"}}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Error(diff)
	}
}

var _ objstore.Store = (*counting)(nil)
