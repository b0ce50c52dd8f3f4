package query_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query"
)

func layerID(annotator, batch string) dataset.BatchID {
	return dataset.BatchID{Dataset: "d", Batch: batch, Annotator: annotator}
}

// note is an annotation of a row.
func note(batch, id, data string) string {
	return fmt.Sprintf(`{"id":%q,"_batch":%q,"data":%s,"metadata":{"cost_usd":0.5}}`, id, batch, data)
}

// notes puts annotations as the n-th chunk of the run; with merge, into blocks.
func (b *bucket) notes(annotator, batch string, n int, merged bool, lines ...string) {
	b.t.Helper()
	id := layerID(annotator, batch)
	b.put(id.ChunkKey(run, n), strings.Join(lines, "\n")+"\n")
	if merged {
		if err := merge(context.Background(), b.store, id, b.cut, b.commit()); err != nil {
			b.t.Fatal(err)
		}
	}
}

func filter(t testing.TB, text string) *dataset.Filter {
	t.Helper()
	f, err := dataset.ParseFilter([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func layered(t *testing.T) *bucket {
	b := newBucket(t)
	b.merged("x", line("a", `"n":1`), line("c", `"n":3`), line("e"))
	b.merged("y", line("b", `"n":2`), line("c", `"n":30`), line("d"))
	b.chunk("y", 7, line("f", `"n":6`))
	b.notes("A", "x", 0, true, note("x", "a", `{"ok":true,"n":10}`), note("x", "aa", `{"ok":true}`))
	b.notes("A", "y", 0, true, note("y", "c", `{"ok":false}`))
	b.notes("A", "y", 1, false, note("y", "d", `{}`), note("y", "f", `{"ok":true}`))
	b.notes("B", "y", 0, true, note("y", "b", `{"é.\"x":[1.0, 1e400]}`))
	return b
}

func TestFieldsOfALayerAreColumnsOfTheRowsThatItAnnotates(t *testing.T) {
	b := layered(t)
	same(t, b.read(query.Options{Annotators: []string{"A", "B"}}),
		`x {"id":"a","n":1,"A.ok":true,"A.n":10}`,
		`y {"id":"b","n":2,"B.é.\"x":[1.0, 1e400]}`,
		`x {"id":"c","n":3}`,
		`y {"id":"c","n":30,"A.ok":false}`,
		`y {"id":"d"}`,
		`x {"id":"e"}`)
	same(t, b.read(query.Options{Annotators: []string{"A"}, Live: true, Batches: []string{"y"}}),
		`y {"id":"b","n":2}`, `y {"id":"c","n":30,"A.ok":false}`, `y {"id":"d"}`, `y {"id":"f","n":6,"A.ok":true}`)
	same(t, b.read(query.Options{Annotators: []string{"A"}, Columns: []string{"A.ok", "A._metadata"}, Batches: []string{"x"}}),
		`x {"id":"a","A.ok":true,"A._metadata":{"cost_usd":0.5}}`, `x {"id":"c"}`, `x {"id":"e"}`)
}

func TestRowsThatAnAnnotatorHasNotAnnotatedAreThoseOfNoAnnotationMergedOrLive(t *testing.T) {
	b := layered(t)
	same(t, b.read(query.Options{Missing: "A"}), `y {"id":"b","n":2}`, `x {"id":"c","n":3}`, `x {"id":"e"}`)
	same(t, b.read(query.Options{Missing: "nobody", Limit: 1}), `x {"id":"a","n":1}`)
}

func TestAFilterAsksRowsAndLayersAlike(t *testing.T) {
	b := layered(t)
	for f, want := range map[string][]string{
		`{"column":"n","op":"gt","value":2}`:                                                  {`x {"id":"c","n":3}`, `y {"id":"c","n":30}`},
		`{"column":"A.ok","is":true}`:                                                         {`x {"id":"a","n":1}`},
		`{"layer":"A","column":"ok","is":false}`:                                              {`y {"id":"c","n":30}`},
		`{"column":"A._metadata","op":"is_not_null"}`:                                         {`x {"id":"a","n":1}`, `y {"id":"c","n":30}`},
		`{"column":"_batch","op":"eq","value":"y"}`:                                           {`y {"id":"b","n":2}`, `y {"id":"c","n":30}`, `y {"id":"d"}`},
		`{"column":"id","op":"gte","value":"d"}`:                                              {`y {"id":"d"}`, `x {"id":"e"}`},
		`{"column":"nope","op":"eq","value":1}`:                                               nil,
		`{"not":{"column":"n","op":"eq","value":1}}`:                                          {`y {"id":"b","n":2}`, `x {"id":"c","n":3}`, `y {"id":"c","n":30}`},
		`{"all":[{"column":"A.n","op":"eq","value":10.0},{"column":"n","op":"is_not_null"}]}`: {`x {"id":"a","n":1}`},
	} {
		var unknown []string
		got := b.read(query.Options{Where: filter(t, f), Unknown: func(c []string) { unknown = c }})
		if !slices.Equal(got, want) {
			t.Errorf("%s gives %q, want %q", f, got, want)
		}
		if (len(unknown) > 0) != strings.Contains(f, "nope") {
			t.Errorf("%s: unknown are %q", f, unknown)
		}
	}
	same(t, b.read(query.Options{Where: filter(t, `{"column":"n","op":"gt","value":0}`), Limit: 2}), `x {"id":"a","n":1}`, `y {"id":"b","n":2}`)
}

func TestANameThatMayMeanTwoColumnsIsAnError(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("a", `"A.ok":1`), line("b", `"\u0041.no":1`))
	b.notes("A", "x", 0, true, note("x", "a", `{"ok":true}`), note("x", "b", `{"ok":true}`))
	for _, o := range []query.Options{
		{Annotators: []string{"A"}}, {Where: filter(t, `{"column":"A.ok","is":true}`)},
	} {
		o.Dataset = "d"
		if _, err := read(context.Background(), b.store, o); !errors.Is(err, query.ErrAmbiguous) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	same(t, b.read(query.Options{Where: filter(t, `{"layer":"A","column":"ok","is":true}`)}), `x {"id":"a","A.ok":1}`, `x {"id":"b","\u0041.no":1}`)
	var none *query.NotFoundError
	if _, err := read(context.Background(), b.store, query.Options{Dataset: "d", Annotators: []string{"a"}}); !errors.As(err, &none) || none.Nearest != "A" {
		t.Error(err)
	}
}

// TestLayersAgreeWithAModel reads random datasets in random states and compares
// with what lookups by id give.
func TestLayersAgreeWithAModel(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 5))
	for round := range 60 {
		b := newBucket(t)
		b.cut = 1 + r.IntN(5)
		type known struct{ row, note string }
		rows := map[query.Cursor]*known{}
		for _, batch := range []string{"x", "y", "z"} {
			var base, live, done, fresh []string
			for i := range 30 {
				id := fmt.Sprintf("%02d", i)
				if r.IntN(3) > 0 {
					l := line(id, fmt.Sprintf(`"n":%d`, r.IntN(5)))
					k := &known{row: l}
					if r.IntN(4) > 0 {
						base = append(base, l)
					} else {
						live = append(live, l)
					}
					rows[query.Cursor{ID: id, Batch: batch}] = k
				}
				if r.IntN(2) > 0 {
					data := fmt.Sprintf(`{"s":%d}`, r.IntN(3))
					l := note(batch, id, data)
					if r.IntN(2) > 0 {
						done = append(done, l)
					} else {
						fresh = append(fresh, l)
					}
					if k := rows[query.Cursor{ID: id, Batch: batch}]; k != nil {
						k.note = data
					}
				}
			}
			b.merged(batch, base...)
			b.chunk(batch, 50, live...)
			b.notes("A", batch, 0, true, done...)
			b.notes("A", batch, 1, false, fresh...)
		}
		var keys []query.Cursor
		for k := range rows {
			keys = append(keys, k)
		}
		slices.SortFunc(keys, query.Cursor.Compare)
		s, n := r.IntN(3), r.IntN(5)
		var joined, missing, where []string
		for _, k := range keys {
			x := rows[k]
			var data map[string]int
			if x.note != "" {
				if err := json.Unmarshal([]byte(x.note), &data); err != nil {
					t.Fatal(err)
				}
			}
			shown := k.Batch + " " + x.row
			if x.note == "" {
				missing = append(missing, shown)
				joined = append(joined, shown)
				continue
			}
			joined = append(joined, strings.TrimSuffix(shown, "}")+fmt.Sprintf(`,"A.s":%d}`, data["s"]))
			if data["s"] == s && !strings.HasSuffix(x.row, fmt.Sprintf(`"n":%d}`, n)) {
				where = append(where, shown)
			}
		}
		for what, c := range map[string]struct {
			o    query.Options
			want []string
		}{
			"joined":  {query.Options{Annotators: []string{"A"}}, joined},
			"missing": {query.Options{Missing: "A"}, missing},
			"where":   {query.Options{Where: filter(t, fmt.Sprintf(`{"all":[{"column":"A.s","op":"eq","value":%d},{"column":"n","op":"ne","value":%d}]}`, s, n))}, where},
		} {
			c.o.Live = true
			if got := b.read(c.o); !slices.Equal(got, c.want) {
				t.Fatalf("seed %d, round %d, %s:\n got %q\nwant %q", seed, round, what, got, c.want)
			}
		}
	}
}
