package query_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query"
)

func TestASortNamesAColumnAndADirection(t *testing.T) {
	for text, want := range map[string]query.SortBy{
		"a": {Column: "a"}, "a:asc": {Column: "a"}, "a:desc": {Column: "a", Desc: true},
		"a:b": {Column: "a:b"}, "a:desc:desc": {Column: "a:desc", Desc: true}, "A.f:desc": {Column: "A.f", Desc: true},
	} {
		if got, err := query.ParseSort(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", ":desc", ":asc"} {
		if _, err := query.ParseSort(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// TestRowsComeSorted compares with a sort in memory: by values of all types, in
// both directions, with and without a limit, also one that is larger than what
// is held in memory.
func TestRowsComeSorted(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 9))
	b := newBucket(t)
	values := []string{`1`, `1.0`, `-3`, `10`, `9007199254740993`, `9007199254740992`, `1e400`, `"a"`, `"A"`, `"\u0061"`, `"é"`, `""`, `true`, `false`, `null`, `[1]`, `{"a":1}`}
	type known struct {
		batch, id string
		v, w      []byte
		line      string
	}
	var all []known
	for _, batch := range []string{"x", "y"} {
		var lines []string
		for i := range 60 {
			k := known{batch: batch, id: fmt.Sprintf("%02d", i), w: []byte(fmt.Sprint(r.IntN(3)))}
			parts := []string{fmt.Sprintf(`"w":%s`, k.w)}
			if n := r.IntN(len(values) + 1); n < len(values) {
				k.v = []byte(values[n])
				parts = append(parts, `"v":`+values[n])
			}
			k.line = line(k.id, parts...)
			all = append(all, k)
			lines = append(lines, k.line)
		}
		b.merged(batch, lines...)
	}
	for _, desc := range []bool{false, true} {
		for _, limit := range []int64{0, 1, 7, 1000} {
			want := slices.Clone(all)
			slices.SortFunc(want, func(x, y known) int {
				d := dataset.CompareValues(x.v, y.v)
				null := func(v []byte) bool { return v == nil || v[0] == 'n' }
				if desc && !null(x.v) && !null(y.v) {
					d = -d
				}
				if d == 0 {
					d = dataset.CompareValues(y.w, x.w)
				}
				if d == 0 {
					d = strings.Compare(x.id, y.id)
				}
				if d == 0 {
					d = strings.Compare(x.batch, y.batch)
				}
				return d
			})
			var lines []string
			for _, k := range want {
				if limit == 0 || int64(len(lines)) < limit {
					lines = append(lines, k.batch+" "+k.line)
				}
			}
			got := b.read(query.Options{Sort: []query.SortBy{{Column: "v", Desc: desc}, {Column: "w", Desc: true}}, Limit: limit})
			if !slices.Equal(got, lines) {
				t.Fatalf("seed %d, desc %v, limit %d:\n got %q\nwant %q", seed, desc, limit, got, lines)
			}
		}
	}
}

func TestASortByAFieldOfALayerAndByBatch(t *testing.T) {
	b := layered(t)
	same(t, b.read(query.Options{Annotators: []string{"A"}, Columns: []string{"A.ok"}, Sort: []query.SortBy{{Column: "A.ok"}, {Column: "_batch", Desc: true}}}),
		`y {"id":"c","A.ok":false}`, `x {"id":"a","A.ok":true}`, `y {"id":"b"}`, `y {"id":"d"}`, `x {"id":"c"}`, `x {"id":"e"}`)
	if _, err := read(context.Background(), b.store, query.Options{Sort: []query.SortBy{{Column: "n"}}, After: &query.Cursor{ID: "a"}}); err == nil {
		t.Error("a sort after a cursor is taken")
	}
}

func TestRowsThatAreManyOrLargeAreSortedOnDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("sorts 160 MB")
	}
	b := newBucket(t)
	b.cut = 1000
	pad := strings.Repeat("x", 1<<20)
	var lines []string
	for i := range 80 {
		lines = append(lines, line(fmt.Sprintf("%03d", i), fmt.Sprintf(`"n":%d`, (i*37)%80), fmt.Sprintf(`"pad":%q`, pad)))
	}
	b.merged("x", lines...)
	for _, limit := range []int64{0, 75} { // 75 rows do not fit either
		n := int64(0)
		for row, err := range query.Rows(t.Context(), b.store, query.Options{Dataset: "d", Sort: []query.SortBy{{Column: "n"}}, Limit: limit, WorkDir: t.TempDir()}) {
			if err != nil {
				t.Fatal(err)
			}
			var got struct{ N int64 }
			if err := json.Unmarshal(row.Raw, &got); err != nil || got.N != n {
				t.Fatalf("row %d has n %d, %v", n, got.N, err)
			}
			n++
		}
		if want := max(limit, 75); n != want && n != 80 {
			t.Errorf("limit %d gives %d rows", limit, n)
		}
	}
}
