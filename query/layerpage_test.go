package query_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore/objtest"
	"github.com/siltstone-data/siltstone/query"
)

func TestAPageShowsWhatAnnotatorsWroteBesideItsRows(t *testing.T) {
	b := layered(t)
	for _, cached := range []bool{false, true} {
		e := b.engine(cached)
		p := page(t, e, query.PageRequest{Annotators: []string{"B", "A"}})
		want := []string{
			`{"id":"a","n":1,"A.ok":true,"A.n":10,"_batch":"x"}`,
			`{"id":"b","n":2,"B.é.\"x":[1.0, 1e400],"_batch":"y"}`,
			`{"id":"c","n":3,"_batch":"x"}`,
			`{"id":"c","n":30,"A.ok":false,"_batch":"y"}`,
			`{"id":"d","_batch":"y"}`,
			`{"id":"e","_batch":"x"}`,
			`{"id":"f","n":6,"A.ok":true,"_batch":"y"}`,
		}
		same(t, lines(p), want...)
		same(t, p.Columns, "id", "_created_at", "n", `B.é."x`, "A.ok", "A.n")
		p = page(t, e, query.PageRequest{Annotators: []string{"B", "A"}, Desc: true})
		slices.Reverse(want)
		same(t, lines(p), want...)
		p = page(t, e, query.PageRequest{Annotators: []string{"A", "B"}, Columns: []string{"A.ok", "A._metadata"}, Limit: 2})
		same(t, lines(p), `{"id":"a","A.ok":true,"A._metadata":{"cost_usd":0.5},"_batch":"x"}`, `{"id":"b","_batch":"y","B.é.\"x":[1.0, 1e400]}`)
		same(t, p.Columns, "id", "_created_at", "A.ok", "A._metadata", `B.é."x`)
		p = page(t, e, query.PageRequest{Annotators: []string{"A"}, Batches: []string{"x"}, Columns: []string{"n"}, Limit: 1})
		same(t, lines(p), `{"id":"a","n":1,"_batch":"x","A.ok":true,"A.n":10}`)
	}
}

func TestAPageOfAnAnnotatorThatIsNotThereNamesTheNearest(t *testing.T) {
	b := layered(t)
	b.notes("language", "x", 0, true, note("x", "a", `{"v":"en"}`))
	e := b.engine(false)
	var none *query.NotFoundError
	if _, err := e.Page(t.Context(), query.PageRequest{Dataset: "d", Annotators: []string{"langauge"}}); !errors.As(err, &none) || none.Nearest != "language" || none.What != "annotator" {
		t.Error(err)
	}
	// One that has just begun is known at once, however old the list is.
	b.notes("new", "x", 0, false, note("x", "a", `{"v":1}`))
	same(t, lines(page(t, e, query.PageRequest{Annotators: []string{"new"}, Limit: 1})), `{"id":"a","n":1,"new.v":1,"_batch":"x"}`)
	if _, err := e.Page(t.Context(), query.PageRequest{Dataset: "d", Annotators: []string{"a/b"}}); !errors.Is(err, dataset.ErrName) {
		t.Error(err)
	}
}

func TestARowIsFoundWithAllItsAnnotations(t *testing.T) {
	b := layered(t)
	b.notes("A", "x", 5, false, note("x", "c", `{"late":1}`))
	rows, err := b.engine(false).Row(t.Context(), "d", "c", "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, r.Batch+" "+string(r.Raw))
		for _, a := range r.Annotations {
			got = append(got, fmt.Sprintf("%s %v %s", a.Annotator, a.Live, a.Raw))
		}
	}
	same(t, got,
		`x {"id":"c","n":3}`, `A true {"id":"c","_batch":"x","data":{"late":1},"metadata":{"cost_usd":0.5}}`,
		`y {"id":"c","n":30}`, `A false {"id":"c","_batch":"y","data":{"ok":false},"metadata":{"cost_usd":0.5}}`)
	if rows, err = b.engine(false).Row(t.Context(), "d", "b", "y"); err != nil || len(rows) != 1 || len(rows[0].Annotations) != 1 || rows[0].Annotations[0].Annotator != "B" {
		t.Errorf("%+v, %v", rows, err)
	}
	var none *query.NotFoundError
	if _, err := b.engine(false).Row(t.Context(), "d", "aa", ""); !errors.As(err, &none) {
		t.Errorf("an annotation without a row is shown: %v", err)
	}
}

func TestTheSchemaTellsTheFieldsOfLayers(t *testing.T) {
	b := layered(t)
	cols, err := b.engine(false).Schema(t.Context(), "d")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range cols {
		got = append(got, fmt.Sprintf("%s %s %v nulls %d of %d lean %v", c.Source, c.Name, c.Types, c.Nulls, c.Rows, c.Lean))
	}
	same(t, got,
		"base id [string] nulls 0 of 7 lean true", "base _created_at [] nulls 7 of 7 lean false", "base n [number] nulls 2 of 7 lean true",
		"A A.ok [boolean] nulls 1 of 4 lean true", "A A.n [number] nulls 3 of 4 lean true", "A A._metadata [object] nulls 0 of 4 lean false",
		`B B.é."x [array] nulls 0 of 1 lean false`, "B B._metadata [object] nulls 0 of 1 lean false")
}

func TestADatasetTellsOfItsLayers(t *testing.T) {
	b := layered(t)
	d, _, err := b.engine(false).Dataset(t.Context(), "d")
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.Layers {
		if d.Layers[i].UpdatedAt.IsZero() {
			t.Errorf("%+v", d.Layers[i])
		}
		d.Layers[i].Bytes, d.Layers[i].UpdatedAt = 0, time.Time{}
		for n := range d.Layers[i].Parts {
			p := &d.Layers[i].Parts[n]
			p.Bytes, p.Generation, p.UpdatedAt = 0, 0, time.Time{}
		}
	}
	part := func(name string, rows, live, chunks int64, share float64) query.LayerPart {
		return query.LayerPart{BatchInfo: query.BatchInfo{Name: name, Rows: rows, LiveRows: live, LiveChunks: chunks}, Share: share}
	}
	want := []query.LayerInfo{
		{Annotator: "A", Batches: 2, Rows: 3, Share: 3. / 6, LiveRows: 2, LiveChunks: 1, Parts: []query.LayerPart{part("x", 2, 0, 0, 2./3), part("y", 1, 2, 1, 1./3)}},
		{Annotator: "B", Batches: 1, Rows: 1, Share: 1. / 6, Parts: []query.LayerPart{part("y", 1, 0, 0, 1./3)}},
	}
	if diff := cmp.Diff(want, d.Layers); diff != "" {
		t.Error(diff)
	}
	if of, err := b.engine(false).Layers(t.Context(), "none"); len(of) > 0 || err != nil {
		t.Errorf("%+v, %v", of, err)
	}
}

func TestAFilteredPageIsWalkedLikeAnyOther(t *testing.T) {
	b := newBucket(t)
	b.cut = 7
	var want []string
	for _, batch := range []string{"x", "y"} {
		var base, live, notes []string
		for i := range 60 {
			id := fmt.Sprintf("%02d", i)
			l := line(id, fmt.Sprintf(`"n":%d`, i%5))
			if i%9 == 4 {
				live = append(live, l)
			} else {
				base = append(base, l)
			}
			notes = append(notes, note(batch, id, fmt.Sprintf(`{"m":%d}`, i%3)))
		}
		b.merged(batch, base...)
		b.chunk(batch, 90, live...)
		b.notes("A", batch, 0, true, notes[:40]...)
		b.notes("A", batch, 1, false, notes[40:]...)
	}
	for i := range 60 {
		if i%5 >= 3 && i%3 == 1 {
			for _, batch := range []string{"x", "y"} {
				want = append(want, fmt.Sprintf(`{"id":"%02d","n":%d,"_batch":"%s"}`, i, i%5, batch))
			}
		}
	}
	e := b.engine(true)
	q := query.PageRequest{Where: filter(t, `{"all":[{"column":"n","op":"gte","value":3},{"column":"A.m","op":"eq","value":1}]}`)}
	for _, desc := range []bool{false, true} {
		for _, limit := range []int{1, 3, 4, 1000} {
			q := q
			q.Limit, q.Desc = limit, desc
			var got []string
			for {
				p := page(t, e, q)
				got = append(got, lines(p)...)
				if len(p.Rows) < limit && p.Next != "" || len(p.Unknown) > 0 {
					t.Fatalf("%d rows, next %q, unknown %q", len(p.Rows), p.Next, p.Unknown)
				}
				if back := q; p.Prev != "" && q.Cursor != "" {
					back.Cursor = p.Prev
					if pb := page(t, e, back); len(pb.Rows) == 0 || !strings.Contains(strings.Join(got, "\n"), lines(pb)[0]) {
						t.Fatalf("back: %q", pb.Rows)
					}
				}
				if q.Cursor = p.Next; q.Cursor == "" {
					break
				}
			}
			expect := slices.Clone(want)
			if desc {
				slices.Reverse(expect)
			}
			same(t, got, expect...)
		}
	}
	p := page(t, e, query.PageRequest{Where: filter(t, `{"column":"nope","op":"eq","value":3}`)})
	if same(t, p.Unknown, "nope"); len(p.Rows) > 0 || p.Next != "" {
		t.Errorf("%+v", p)
	}
}

func TestAFilteredPageThatTakesTooLongGoesOnFromThere(t *testing.T) {
	b := newBucket(t)
	b.cut = 100
	var rows []string
	for i := range 2000 {
		rows = append(rows, line(fmt.Sprintf("%04d", i), fmt.Sprintf(`"n":%d`, i%1000)))
	}
	b.merged("x", rows...)
	e := b.engine(false)
	query.SetScanTime(e, -time.Second)
	q := query.PageRequest{Where: filter(t, `{"column":"n","op":"eq","value":777}`), Limit: 10}
	var got []string
	pages := 0
	for {
		p := page(t, e, q)
		got = append(got, lines(p)...)
		pages++
		if q.Cursor = p.Next; p.Next == "" {
			break
		}
		if p.Prev == "" {
			t.Error("no way back")
		}
	}
	same(t, got, `{"id":"0777","n":777,"_batch":"x"}`, `{"id":"1777","n":777,"_batch":"x"}`)
	if pages < 4 {
		t.Errorf("it took %d pages", pages)
	}
	// And back, from behind all.
	q.Desc = true
	got = nil
	for q.Cursor = ""; ; {
		p := page(t, e, q)
		got = append(got, lines(p)...)
		if q.Cursor = p.Next; p.Next == "" {
			break
		}
	}
	same(t, got, `{"id":"1777","n":777,"_batch":"x"}`, `{"id":"0777","n":777,"_batch":"x"}`)
}

// A page is given while layers are merged: what goes under its hands is found
// again, once.
func TestAPageFindsAnnotationsAgainThatAreMergedUnderItsHands(t *testing.T) {
	for what, most := range map[string]int{"*A/.temp/x/abc123_chunk_*": 2, "*A/x/merged_*": 3, "*A/x/manifest.yaml": 2} {
		for nth := 1; nth <= most; nth++ {
			b := newBucket(t)
			b.cut = 2
			b.merged("x", line("a"), line("b"), line("c"), line("d"), line("e"))
			b.notes("A", "x", 0, true, note("x", "a", `{"v":1}`), note("x", "c", `{"v":3}`), note("x", "e", `{"v":5}`))
			b.notes("A", "x", 1, false, note("x", "b", `{"v":2}`), note("x", "c", `{"v":"late"}`))
			b.notes("A", "x", 2, false, note("x", "d", `{"v":4}`))
			f := objtest.NewFaulty(t, b.store, objtest.On(objtest.Get).Key(what).Nth(nth).Before(func() {
				if err := merge(context.Background(), b.store, layerID("A", "x"), 3, b.commit()); err != nil {
					t.Error(err)
				}
			}))
			e := engineOver(t, f, query.EngineConfig{Parallel: 1})
			for _, desc := range []bool{false, true} {
				want := []string{`{"id":"a","A.v":1,"_batch":"x"}`, `{"id":"b","A.v":2,"_batch":"x"}`, `{"id":"c","A.v":3,"_batch":"x"}`,
					`{"id":"d","A.v":4,"_batch":"x"}`, `{"id":"e","A.v":5,"_batch":"x"}`}
				if desc {
					slices.Reverse(want)
				}
				same(t, lines(page(t, e, query.PageRequest{Annotators: []string{"A"}, Desc: desc})), want...)
			}
		}
	}
}

// With a catalog that follows events, layers are looked at only where they are,
// and records that are at hand serve.
func TestAFollowedCatalogTellsOfLayersToo(t *testing.T) {
	b := newBucket(t)
	for _, batch := range []string{"x", "y", "z"} {
		b.merged(batch, line("a"), line("b"))
	}
	b.notes("A", "y", 0, true, note("y", "a", `{"v":1}`))
	b.notes("A", "y", 1, false, note("y", "b", `{"v":2}`))
	var asked []string
	c := &counting{Store: b.store, get: func(key string) { asked = append(asked, key) }}
	e, f := followedEngine(t, c)
	for _, batch := range []string{"x", "y", "z"} {
		f.follow(b, batch)
	}
	f.followID(b, layerID("A", "y"))
	q := query.PageRequest{Annotators: []string{"A"}, Batches: []string{"y"}}
	want := []string{`{"id":"a","A.v":1,"_batch":"y"}`, `{"id":"b","A.v":2,"_batch":"y"}`}
	same(t, lines(page(t, e, q)), want...)
	for _, key := range asked {
		if strings.Contains(key, "/A/x/") || strings.Contains(key, "/A/z/") {
			t.Errorf("asked for %s", key)
		}
	}
	asked = nil
	same(t, lines(page(t, e, q)), want...)
	for _, key := range asked {
		if strings.HasSuffix(key, "manifest.yaml") || strings.Contains(key, "chunk") {
			t.Errorf("asked again for %s", key)
		}
	}
	// The catalog is behind: the chunk that it tells of is merged.
	if err := merge(t.Context(), b.store, layerID("A", "y"), 3, b.commit()); err != nil {
		t.Fatal(err)
	}
	e2, err := query.NewEngine(c, f, query.EngineConfig{Parallel: 1}, quiet, nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, lines(page(t, e2, q)), want...)
}

// TestPagesWithLayersAgreeWithReads compares what all pages give with what a read
// gives, over random layouts, up and down.
func TestPagesWithLayersAgreeWithReads(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 15
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 9))
		b := newBucket(t)
		for n := range 3 + r.IntN(12) {
			batch := []string{"x", "y", "ü"}[r.IntN(3)]
			b.cut = 1 + r.IntN(6)
			var rows, notes []string
			for range r.IntN(12) {
				id := fmt.Sprintf("%02d", r.IntN(40))
				rows = append(rows, line(id, fmt.Sprintf(`"n":%d`, r.IntN(9))))
				notes = append(notes, note(batch, fmt.Sprintf("%02d", r.IntN(40)), fmt.Sprintf(`{"v":%d}`, r.IntN(4))))
			}
			if r.IntN(2) == 0 {
				b.merged(batch, rows...)
			} else {
				b.chunk(batch, 100+n, rows...)
			}
			b.notes("A", batch, 200+n, r.IntN(2) == 0, notes...)
		}
		o := query.Options{Live: true, Annotators: []string{"A"}}
		q := query.PageRequest{Annotators: o.Annotators, Limit: 1 + r.IntN(7)}
		if r.IntN(2) == 0 {
			o.Where = filter(t, fmt.Sprintf(`{"any":[{"column":"A.v","op":"eq","value":%d},{"column":"n","op":"eq","value":%d}]}`, r.IntN(4), r.IntN(9)))
			q.Where = o.Where
		}
		want := shown(t, b.read(o))
		for _, desc := range []bool{false, true} {
			e := b.engine(desc)
			q := q
			q.Desc = desc
			var got []string
			for {
				p := page(t, e, q)
				got = append(got, lines(p)...)
				if q.Cursor = p.Next; p.Next == "" {
					break
				}
			}
			if desc {
				slices.Reverse(got)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, desc %v:\n got %q\nwant %q", seed, desc, got, want)
			}
		}
	}
}

// CSV of rows with layers: the header has each layer's columns behind those of
// rows, and those that were asked for first.
func TestCSVHasTheColumnsOfLayersBehindThoseOfRows(t *testing.T) {
	b := layered(t)
	for _, tt := range []struct {
		columns []string
		want    string
	}{
		{nil, "id,_created_at,n,A.ok,A.n,\"B.é.\"\"x\"\na,,1,true,10,\nb,,2,,,\"[1.0, 1e400]\"\nc,,3,,,\nc,,30,false,,\nd,,,,,\ne,,,,,\n"},
		{[]string{"A.ok", "zz"}, "id,_created_at,A.ok,zz,\"B.é.\"\"x\"\na,,true,,\nb,,,,\"[1.0, 1e400]\"\nc,,,,\nc,,false,,\nd,,,,\ne,,,,\n"},
		{[]string{"A.ok", "B.n"}, "id,_created_at,A.ok,B.n\na,,true,\nb,,,\nc,,,\nc,,false,\nd,,,\ne,,,\n"},
	} {
		var out bytes.Buffer
		w, err := query.NewCSV(&out, tt.columns, t.TempDir(), "A", "B")
		if err != nil {
			t.Fatal(err)
		}
		for row, err := range query.Rows(t.Context(), b.store, query.Options{Dataset: "d", Annotators: []string{"A", "B"}, Columns: nil}) {
			if err == nil {
				err = w.Write(row)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, out.String()); diff != "" {
			t.Error(diff)
		}
	}
}

func TestTenThousandFieldsOfALayer(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("a"), line("b"))
	data := map[string]int{}
	for i := range 10_000 {
		data[fmt.Sprintf("f%d", i)] = i
	}
	raw, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	b.notes("A", "x", 0, true, note("x", "a", string(raw)), note("x", "b", string(raw)))
	e := b.engine(false)
	p := page(t, e, query.PageRequest{Annotators: []string{"A"}})
	if len(p.Rows) != 2 || len(p.Columns) < 10_000 {
		t.Errorf("%d rows, %d columns", len(p.Rows), len(p.Columns))
	}
	cols, err := e.Schema(t.Context(), "d")
	if err != nil || len(cols) != 10_002 {
		t.Errorf("%d columns, %v", len(cols), err)
	}
	p = page(t, e, query.PageRequest{Annotators: []string{"A"}, Columns: []string{"A.f9999"}})
	same(t, lines(p), `{"id":"a","A.f9999":9999,"_batch":"x"}`, `{"id":"b","A.f9999":9999,"_batch":"x"}`)
}
