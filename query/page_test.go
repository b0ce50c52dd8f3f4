package query_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/index"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/objtest"
	"github.com/siltstone-data/siltstone/query"
)

var quiet = slog.New(slog.DiscardHandler)

func engineOver(t testing.TB, s objstore.Store, cfg query.EngineConfig) *query.Engine {
	t.Helper()
	e, err := query.NewEngine(s, query.Listed(s), cfg, quiet, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// engine reads a bucket, with a disk cache or without.
func (b *bucket) engine(cached bool) *query.Engine {
	cfg := query.EngineConfig{Parallel: 4}
	if cached {
		cfg.CacheDir = b.t.TempDir()
	}
	return engineOver(b.t, b.store, cfg)
}

// indexAll builds the indexes of a batch.
func (b *bucket) indexAll(batch string) {
	b.t.Helper()
	for _, bl := range b.head(batch).Record.Blocks {
		if err := index.Build(context.Background(), b.store, batchID(batch), bl); err != nil {
			b.t.Fatal(err)
		}
	}
}

func page(t testing.TB, e *query.Engine, q query.PageRequest) query.Page {
	t.Helper()
	q.Dataset = "d"
	p, err := e.Page(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// liveMark is what a row that is not merged yet is told at its end.
const liveMark = `,"_silt_live":true}`

// lines are the rows of a page as strings, without that mark.
func lines(p query.Page) []string {
	out := make([]string, len(p.Rows))
	for i, r := range p.Rows {
		out[i] = string(r)
		if s, live := strings.CutSuffix(out[i], liveMark); live {
			out[i] = s + "}"
		}
	}
	return out
}

func TestAPageTellsWhichRowsAreNotMergedYet(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("a"), line("b"))
	b.chunk("x", 9, line("b", `"again":true`), line("c"), line("d", `"t":"12345"`))
	b.chunk("y", 0, line("a"))
	e := b.engine(false)
	raw := func(q query.PageRequest) []string {
		var out []string
		for _, r := range page(t, e, q).Rows {
			out = append(out, string(r))
		}
		return out
	}
	same(t, raw(query.PageRequest{Clip: 3}),
		`{"id":"a","_batch":"x"}`, `{"id":"a","_batch":"y","_silt_live":true}`, `{"id":"b","_batch":"x"}`, `{"id":"c","_batch":"x","_silt_live":true}`,
		`{"id":"d","t":"123","_batch":"x","_silt_live":true,"_silt_clipped":{"t":5}}`)
	same(t, raw(query.PageRequest{Columns: []string{"_silt_live", "t"}, Batches: []string{"x"}, Desc: true, Limit: 3}),
		`{"id":"d","t":"12345","_batch":"x","_silt_live":true}`, `{"id":"c","_batch":"x","_silt_live":true}`, `{"id":"b","_batch":"x"}`)
	same(t, page(t, e, query.PageRequest{}).Columns, "id", "_created_at", "t")
}

// shown is what model and read give, as a page shows it.
func shown(t testing.TB, rows []string) []string {
	t.Helper()
	out := make([]string, len(rows))
	for i, r := range rows {
		batch, line, _ := strings.Cut(r, " ")
		raw, err := query.Project(row(t, batch, line), nil, true)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = string(raw)
	}
	return out
}

// walkPages follows a cursor of the pages from q on, and checks that the other
// cursor of each leads back to the page before.
func walkPages(t testing.TB, e *query.Engine, q query.PageRequest) []string {
	t.Helper()
	var out, before []string
	for first := true; ; first = false {
		p := page(t, e, q)
		got := lines(p)
		if !first {
			back := q
			back.Cursor = p.Prev
			if b := page(t, e, back); !slices.Equal(lines(b), before) {
				t.Fatalf("back from %q:\n got %q\nwant %q", got, lines(b), before)
			} else if fwd := page(t, e, query.PageRequest{Batches: q.Batches, Limit: q.Limit, Desc: q.Desc, Cursor: b.Next}); !slices.Equal(lines(fwd), got) {
				t.Fatalf("back and on from %q: got %q", got, lines(fwd))
			}
		}
		if len(got) > q.Limit || len(got) == 0 && p.Next != "" || len(got) < q.Limit && p.Next != "" {
			t.Fatalf("%d rows, next %q", len(got), p.Next)
		}
		out = append(out, got...)
		before = got
		if p.Next == "" {
			return out
		}
		q.Cursor = p.Next
	}
}

func TestPagesOfRandomLayoutsAreWhatTheModelSays(t *testing.T) {
	seeds := uint64(120)
	if testing.Short() {
		seeds = 25
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 3))
		b := newBucket(t)
		serial := 0
		batches := []string{"b1", "b2", "ü", "b10"}[:1+r.IntN(4)]
		for range 2 + r.IntN(12) {
			batch := batches[r.IntN(len(batches))]
			b.cut = 1 + r.IntN(8)
			var lines []string
			for range r.IntN(12) {
				lines = append(lines, randomLine(r, serial))
				serial++
			}
			if r.IntN(3) == 0 {
				b.merged(batch, lines...)
				if r.IntN(2) == 0 {
					b.indexAll(batch)
				}
			} else {
				b.chunk(batch, 100+serial, lines...)
			}
		}
		want := shown(t, model(t, b.store, query.Options{Live: true}))
		e := b.engine(seed%2 == 0)
		tiny := seed%3 == 0
		if tiny {
			query.SetMaxTable(e, 2)
		}
		q := query.PageRequest{Limit: 1 + r.IntN(9), Desc: r.IntN(2) == 0}
		if q.Desc {
			slices.Reverse(want)
		}
		if got := walkPages(t, e, q); !slices.Equal(got, want) {
			t.Fatalf("seed %d, %+v:\n got %q\nwant %q", seed, q, got, want)
		}
		if n, exact, err := e.Count(t.Context(), "d", nil); err != nil || exact && n != int64(len(want)) || !exact && !tiny {
			t.Fatalf("seed %d: count %d, %v, %v; want %d", seed, n, exact, err, len(want))
		}
		for _, w := range want {
			var key struct {
				ID    string `json:"id"`
				Batch string `json:"_batch"`
			}
			if err := json.Unmarshal([]byte(w), &key); err != nil {
				t.Fatal(err)
			}
			rows, err := e.Row(t.Context(), "d", key.ID, key.Batch)
			if err != nil || len(rows) != 1 {
				t.Fatalf("seed %d: row %q of %q: %v, %v", seed, key.ID, key.Batch, rows, err)
			}
			if got, _ := query.Project(rows[0].Row, nil, true); string(got) != w {
				t.Fatalf("seed %d: got %s, want %s", seed, got, w)
			}
		}
	}
}

func TestPagingSkipsAndRepeatsNothingWhileBatchesAreMerged(t *testing.T) {
	seeds := uint64(100)
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 4))
		b := newBucket(t)
		b.cut = 1 + r.IntN(6)
		serial := 0
		add := func(id string) {
			batch := []string{"x", "y"}[r.IntN(2)]
			if serial++; r.IntN(2) == 0 {
				b.merged(batch, line(id, fmt.Sprintf(`"n":%d`, serial)))
			} else {
				b.chunk(batch, 100+serial, line(id, fmt.Sprintf(`"n":%d`, serial)))
			}
		}
		for range 30 {
			add(fmt.Sprintf("%02d", r.IntN(60)))
		}
		start := shown(t, model(t, b.store, query.Options{Live: true}))
		q := query.PageRequest{Limit: 1 + r.IntN(5), Desc: r.IntN(2) == 0}
		if q.Desc {
			slices.Reverse(start)
		}
		e := b.engine(r.IntN(2) == 0)
		var got []string
		for {
			p := page(t, e, q)
			got = append(got, lines(p)...)
			if p.Next == "" {
				break
			}
			q.Cursor = p.Next
			switch r.IntN(4) {
			case 0:
				b.mergeNow("x")()
			case 1:
				b.mergeNow("y")()
			case 2:
				add(fmt.Sprintf("%02d.%d", r.IntN(60), serial)) // a new id
			}
			if r.IntN(10) == 0 {
				e = b.engine(false) // a new process
			}
		}
		got = slices.DeleteFunc(got, func(s string) bool { return strings.Contains(s, ".") })
		if !slices.Equal(got, start) {
			t.Fatalf("seed %d:\n got %q\nwant %q", seed, got, start)
		}
	}
}

func TestThePreviousCursorGetsWhatHasArrivedBefore(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("05"), line("06"), line("07"))
	e := b.engine(true)
	for _, desc := range []bool{false, true} {
		p := page(t, e, query.PageRequest{Limit: 2, Desc: desc})
		nothing := page(t, e, query.PageRequest{Limit: 2, Desc: desc, Cursor: p.Prev})
		if len(nothing.Rows) > 0 || nothing.Prev != p.Prev {
			t.Errorf("%q has arrived", lines(nothing))
		}
		if on := page(t, e, query.PageRequest{Limit: 2, Desc: desc, Cursor: nothing.Next}); !slices.Equal(lines(on), lines(p)) {
			t.Errorf("on from nothing: %q, want %q", lines(on), lines(p))
		}
		n, id := 10, "04"
		if desc {
			n, id = 20, "08"
		}
		b.chunk("x", n, line(id))
		got := page(t, e, query.PageRequest{Limit: 2, Desc: desc, Cursor: nothing.Prev})
		same(t, lines(got), `{"id":"`+id+`","_batch":"x"}`)
		if got.LiveRows != int64(n/10) {
			t.Errorf("%d live rows", got.LiveRows)
		}
	}
}

func TestAnEmptyPageLeadsBack(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("1"), line("2"), line("3"))
	e := b.engine(false)
	p := page(t, e, query.PageRequest{Limit: 2})
	b.remove("x")
	b.merged("y", line("0"))
	empty := page(t, e, query.PageRequest{Limit: 2, Cursor: p.Next})
	if len(empty.Rows) > 0 || empty.Next != "" {
		t.Errorf("%q, next %q", lines(empty), empty.Next)
	}
	same(t, lines(page(t, e, query.PageRequest{Limit: 2, Cursor: empty.Prev})), `{"id":"0","_batch":"y"}`)
}

func TestAPageHasTheColumnsAskedFor(t *testing.T) {
	b := newBucket(t)
	b.merged("x", `{"id":"1","_created_at":5,"n":1.0,"a.b":9007199254740993,"t":"\u00e9 \"","__proto__":1e400,"":null}`)
	b.chunk("x", 9, `{"b":2,"id":2}`, `{"n":-0}`)
	e := b.engine(false)
	p := page(t, e, query.PageRequest{})
	same(t, p.Columns, "id", "_created_at", "n", "a.b", "t", "__proto__", "", "b")
	if !slices.Contains(lines(p), `{"b":2,"id":2,"_batch":"x"}`) {
		t.Errorf("%q", lines(p))
	}
	p = page(t, e, query.PageRequest{Columns: []string{"n", "", "a.b", "none"}, Limit: 1})
	same(t, p.Columns, "id", "_created_at", "n", "", "a.b", "none")
	same(t, lines(p), `{"id":"1","_created_at":5,"n":1.0,"":null,"a.b":9007199254740993,"_batch":"x"}`)
	p = page(t, e, query.PageRequest{Columns: []string{"_batch"}, Limit: 1})
	same(t, p.Columns, "id", "_created_at", "_batch")
	same(t, lines(p), `{"id":"1","_created_at":5,"_batch":"x"}`)
	if _, err := e.Page(t.Context(), query.PageRequest{Dataset: "d", Columns: []string{"\xff"}}); err == nil {
		t.Error("a column that is no text was taken")
	}
}

func TestAnAlienCursorIsRefused(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("1"), line("2"), line("3"))
	e := b.engine(false)
	c := page(t, e, query.PageRequest{Limit: 1}).Next
	other := page(t, e, query.PageRequest{Limit: 1, Desc: true}).Next
	b.put("other/x/abc123_chunk_00000.jsonl", line("1"))
	for _, q := range []query.PageRequest{
		{Dataset: "d", Cursor: other}, {Dataset: "d", Cursor: c, Desc: true}, {Dataset: "other", Cursor: c},
		{Dataset: "d", Cursor: c[1:]}, {Dataset: "d", Cursor: c + "="}, {Dataset: "d", Cursor: c + "AA"}, {Dataset: "d", Cursor: "!"},
		{Dataset: "d", Cursor: "e30"}, {Dataset: "d", Cursor: "bnVsbA"}, {Dataset: "d", Cursor: strings.Repeat("A", 100_000)},
	} {
		if _, err := e.Page(t.Context(), q); !errors.Is(err, query.ErrCursor) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	for _, q := range []query.PageRequest{{Dataset: "d", Limit: 1001}, {Dataset: "d", Limit: -1}, {Dataset: "d", Clip: -1}} {
		if _, err := e.Page(t.Context(), q); err == nil {
			t.Errorf("%+v was taken", q)
		}
	}
}

func FuzzCursor(f *testing.F) {
	b := newBucket(f)
	b.merged("x", line("1"), line("2"), line("3"))
	e := b.engine(false)
	for _, desc := range []bool{false, true} {
		p, err := e.Page(context.Background(), query.PageRequest{Dataset: "d", Limit: 1, Desc: desc})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p.Next, desc)
		f.Add(p.Prev, desc)
	}
	f.Add("", false)
	f.Add("eyJ2IjoxfQ", true)
	f.Fuzz(func(t *testing.T, c string, desc bool) {
		p, err := e.Page(t.Context(), query.PageRequest{Dataset: "d", Limit: 1, Desc: desc, Cursor: c})
		if err != nil && !errors.Is(err, query.ErrCursor) {
			t.Fatal(err)
		}
		if err == nil && len(p.Rows) > 1 {
			t.Fatalf("%d rows", len(p.Rows))
		}
	})
}

// oddNames are batches and ids that have broken other tools.
var oddNames = []string{"naïve", "50%", "a+b", "a b", "x=1", "日本語", "CON", `"`, "'; DROP TABLE x;--", "<img src=x onerror=alert(1)>",
	"a.b>*", "🙂", "a\u0300", strings.Repeat("n", 200), "merged_00000.jsonl.gz", "manifest.yaml", "\u202etxt"}

func TestOddNamesSurvivePagesCursorsAndRows(t *testing.T) {
	b := newBucket(t)
	var want []string
	n := 0
	for _, batch := range oddNames {
		if dataset.CheckBatch(batch) != nil {
			continue
		}
		var ls []string
		for _, id := range append(oddNames, "a\x00", "\x7f", "/", "..", strings.Repeat("é", 128)) {
			raw, err := json.Marshal(id)
			if err != nil {
				t.Fatal(err)
			}
			ls = append(ls, fmt.Sprintf(`{"id":%s,"__proto__":"</script>","1e400":1e400}`, raw))
		}
		if n++; n%2 == 0 {
			b.merged(batch, ls...)
		} else {
			b.chunk(batch, 7, ls...)
		}
	}
	want = shown2(t, b)
	e := b.engine(true)
	for _, desc := range []bool{false, true} {
		if got := walkPages(t, e, query.PageRequest{Limit: 37, Desc: desc}); !slices.Equal(got, want) {
			t.Fatalf("%d rows, want %d", len(got), len(want))
		}
		slices.Reverse(want)
	}
	for _, id := range oddNames {
		rows, err := e.Row(t.Context(), "d", id, "")
		if err != nil || len(rows) != n {
			t.Errorf("id %q: %d rows, %v", id, len(rows), err)
		}
	}
}

// shown2 is what a read gives, as a page shows it; batches may have spaces.
func shown2(t testing.TB, b *bucket) []string {
	t.Helper()
	var out []string
	for row, err := range query.Rows(t.Context(), b.store, query.Options{Dataset: "d", Live: true}) {
		if err != nil {
			t.Fatal(err)
		}
		raw, err := query.Project(row, nil, true)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(raw))
	}
	return out
}

func TestAPageEndsEarlyWhereRowsAreLarge(t *testing.T) {
	b := newBucket(t)
	b.cut = 1000
	big := `"t":"` + strings.Repeat("é\\n", 600_000) + `"` // 2.4 MB
	var ls []string
	for i := range 12 {
		ls = append(ls, line(fmt.Sprintf("%02d", i), big))
	}
	b.merged("x", ls[:6]...)
	b.chunk("x", 9, ls[6:]...)
	e := b.engine(true)
	for _, desc := range []bool{false, true} {
		var ids []string
		q := query.PageRequest{Limit: 100, Desc: desc}
		for {
			p := page(t, e, q)
			size := 0
			for _, r := range p.Rows {
				size += len(r)
				ids = append(ids, string(r[7:9]))
			}
			if size > 8<<20 {
				t.Errorf("a page of %d bytes", size)
			}
			if q.Cursor = p.Next; p.Next == "" {
				break
			}
		}
		want := []string{"00", "01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11"}
		if desc {
			slices.Reverse(want)
		}
		same(t, ids, want...)
	}
	if p := page(t, e, query.PageRequest{Limit: 100, Clip: 10}); len(p.Rows) != 12 || len(p.Rows[3]) > 200 {
		t.Errorf("%d rows", len(p.Rows))
	}
	// One row is larger than a page.
	b.chunk("y", 1, line("00", `"t":"`+strings.Repeat("x", 9<<20)+`"`), line("01"))
	p := page(t, e, query.PageRequest{Batches: []string{"y"}})
	if len(p.Rows) != 1 || p.Next == "" {
		t.Errorf("%d rows, next %q", len(p.Rows), p.Next)
	}
	same(t, lines(page(t, e, query.PageRequest{Batches: []string{"y"}, Cursor: p.Next})), `{"id":"01","_batch":"y"}`)
}

func TestALargeChunkIsReadInParts(t *testing.T) {
	b := newBucket(t)
	var text bytes.Buffer
	text.WriteString("\xEF\xBB\xBF")
	for i := range 1600 {
		fmt.Fprintf(&text, `{"id":"%05d","t":"%s"}`+"\r\n", (i*7919)%1600, strings.Repeat("x", 300+i%1000))
		if i%100 == 0 {
			text.WriteString("no row\n\n{\"n\":" + fmt.Sprint(i) + "}\n")
		}
	}
	b.put(batchID("x").ChunkKey(run, 0), text.String())
	want := shown(t, model(t, b.store, query.Options{Live: true}))
	for _, most := range []int64{1 << 20, 100} { // rows that a table may have
		e := b.engine(most > 100)
		query.SetMaxTable(e, most)
		if got := walkPages(t, e, query.PageRequest{Limit: 500}); !slices.Equal(got, want) {
			t.Errorf("%d rows, want %d", len(got), len(want))
		}
		down := slices.Clone(want)
		slices.Reverse(down)
		if got := walkPages(t, e, query.PageRequest{Limit: 500, Desc: true}); !slices.Equal(got, down) {
			t.Errorf("downwards %d rows, want %d", len(got), len(want))
		}
	}
}

func TestAPageReadsFramesAndNotBlocks(t *testing.T) {
	b := newBucket(t)
	b.cut = 5000
	var ls []string
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 5000 {
		ls = append(ls, line(fmt.Sprintf("%05d", i), fmt.Sprintf(`"t":"%x%x"`, r.Uint64(), r.Uint64()), `"u":"`+strings.Repeat("text ", 200)+`"`))
	}
	b.merged("x", ls...)
	b.indexAll("x")
	e := b.engine(false)
	p := page(t, e, query.PageRequest{})
	if size := int64(len(b.get(b.blocks("x")[0]))); p.BytesRead > size/4 && p.BytesRead > 400<<10 {
		t.Errorf("the first page read %d of %d bytes", p.BytesRead, size)
	}
	p = page(t, e, query.PageRequest{Cursor: p.Next})
	if p.BytesRead > 100<<10 || p.BytesRead == 0 {
		t.Errorf("the second page read %d bytes", p.BytesRead)
	}
	same(t, lines(p)[:1], shown(t, []string{"x " + ls[50]})...)
}

func TestWhatIsMissingIsNotFound(t *testing.T) {
	b := newBucket(t)
	b.merged("batch", line("1"))
	e := b.engine(false)
	ctx := t.Context()
	check := func(err error, what, nearest string) {
		t.Helper()
		var nf *query.NotFoundError
		if !errors.As(err, &nf) || nf.What != what || nf.Nearest != nearest || !errors.Is(err, query.ErrNotFound) {
			t.Errorf("got %v, want no %s, but %q", err, what, nearest)
		}
	}
	_, err := e.Page(ctx, query.PageRequest{Dataset: "e"})
	check(err, "dataset", "d")
	_, err = e.Page(ctx, query.PageRequest{Dataset: "d", Batches: []string{"btach"}})
	check(err, "batch", "batch")
	_, err = e.Row(ctx, "d", "2", "")
	check(err, "row", "")
	_, err = e.Row(ctx, "d", "", "batch")
	check(err, "row", "")
	_, err = e.Row(ctx, "d", "1", "bat")
	check(err, "batch", "")
	_, _, err = e.Dataset(ctx, "dd")
	check(err, "dataset", "d")
	_, err = e.Schema(ctx, "x")
	check(err, "dataset", "d")
	_, _, err = e.Count(ctx, "x", nil)
	check(err, "dataset", "d")
	for _, name := range []string{"", "a/b", "_x"} {
		if _, err := e.Page(ctx, query.PageRequest{Dataset: name}); !errors.Is(err, dataset.ErrName) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestPagesAmongWritersAndMergers lets every store call of readers, writers and
// mergers be a step in an order that a seed decides. Whatever the order, pages
// from the first to the last give each row that was stored before the first one
// exactly once, in order.
func TestPagesAmongWritersAndMergers(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 15
	}
	for seed := range seeds {
		s := objtest.NewSchedule(seed, objtest.ScheduleConfig{
			Chances: objtest.Chances{Pause: .08, LostAnswer: .03, LateEffect: .03, CrashBefore: .004, CrashAfter: .004},
			Spare:   func(actor, _, _ string) bool { return strings.HasPrefix(actor, "reader") || actor == "writer" },
		})
		stored := map[string]bool{}
		mu := make(chan struct{}, 1)
		r := rand.New(rand.NewPCG(seed, 5))
		perm := r.Perm(45)
		b := &bucket{t: t, store: s.Store(), cut: 1 + r.IntN(6)}
		b.merged("x", line("00"))
		b.merged("y", line("00"))
		s.Go("writer", func(ctx context.Context, store objstore.Store) error {
			for n := 0; n < len(perm); n += 3 {
				batch := []string{"x", "y"}[n/3%2]
				var ls []string
				for _, i := range perm[n : n+3] {
					ls = append(ls, line(fmt.Sprintf("%02d", i+10)))
				}
				if _, err := store.Put(ctx, batchID(batch).ChunkKey(run, 50+n), []byte(strings.Join(ls, "\n")), objstore.IfAbsent()); err != nil {
					return err
				}
				mu <- struct{}{}
				for _, i := range perm[n : n+3] {
					stored[fmt.Sprint(i+10)+batch] = true
				}
				<-mu
			}
			return nil
		})
		for m := range 2 {
			s.Go(fmt.Sprintf("merger%d", m), func(ctx context.Context, store objstore.Store) error {
				for n := range 10 {
					_ = merge(ctx, store, batchID([]string{"x", "y"}[n%2]), b.cut, fmt.Sprintf("%d-%08d-%06d", m, seed, n))
				}
				return nil
			})
		}
		for rd := range 2 {
			s.Go(fmt.Sprintf("reader%d", rd), func(ctx context.Context, store objstore.Store) error {
				e, err := query.NewEngine(store, query.Listed(store), query.EngineConfig{Parallel: 1}, quiet, nil)
				if err != nil {
					return err
				}
				for n := range 3 {
					mu <- struct{}{}
					must := map[string]bool{"00x": true, "00y": true}
					for id := range stored {
						must[id] = true
					}
					<-mu
					last := ""
					q := query.PageRequest{Dataset: "d", Limit: 3 + n, Desc: (rd+n)%2 == 0}
					for {
						p, err := e.Page(ctx, q)
						if err != nil {
							return err
						}
						for _, raw := range lines(p) {
							at := raw[7:9] + string(raw[len(raw)-3])
							if last != "" && (at > last) == q.Desc || at == last {
								return fmt.Errorf("%v after %v", at, last)
							}
							last = at
							delete(must, at)
						}
						if q.Cursor = p.Next; p.Next == "" {
							break
						}
					}
					if len(must) > 0 {
						return fmt.Errorf("stored before the first page and not given: %v", must)
					}
				}
				return nil
			})
		}
		if err := s.Run(t.Context()); err != nil {
			t.Fatalf("%v\n%s", err, s.Trace())
		}
	}
}
