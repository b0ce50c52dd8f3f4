package integration_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/query"
)

// annotatedBucket is a dataset of two batches that share an id, each row with an
// annotation, and a later run that has the first batch deduplicated.
type annotatedBucket struct {
	t     *testing.T
	store *mem.Store
	n     int
}

func (b *annotatedBucket) put(id dataset.BatchID, lines ...string) {
	b.t.Helper()
	b.n++
	if _, err := b.store.Put(b.t.Context(), id.ChunkKey("a1b2c3", b.n), []byte(strings.Join(lines, "\n")+"\n"), objstore.IfAbsent()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *annotatedBucket) merge(ids ...dataset.BatchID) {
	b.t.Helper()
	for _, id := range ids {
		if _, err := engineOf(b.t, b.store).Merge(b.t.Context(), id); err != nil {
			b.t.Fatal(err)
		}
	}
}

// deduplicate has a batch deduplicated on a column.
func (b *annotatedBucket) deduplicate(id dataset.BatchID, column string) {
	b.t.Helper()
	m := catalog.RunManifest{Version: 1, Run: "d0d0d0", Dataset: id.Dataset, Batch: id.Batch, DeduplicateOn: []string{column}, State: catalog.RunCompleted}
	raw, err := json.Marshal(m)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.store.Put(b.t.Context(), id.RunKey(m.Run), raw, objstore.IfAbsent()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *annotatedBucket) same(what string, got []string, want ...string) {
	b.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("%s: %s", what, diff)
	}
}

func (b *annotatedBucket) rows(o query.Options) (out []string) {
	b.t.Helper()
	o.Dataset, o.WorkDir, o.Columns = "d", b.t.TempDir(), []string{"A.v", "A.gone"}
	if o.Missing == "" {
		o.Annotators = []string{"A"}
	}
	for r, err := range query.Rows(b.t.Context(), b.store, o) {
		if err != nil {
			b.t.Fatal(err)
		}
		out = append(out, r.Batch+" "+string(r.Raw))
	}
	return out
}

func (b *annotatedBucket) pages(e *query.Engine, r query.PageRequest) (out []string) {
	b.t.Helper()
	r.Dataset, r.Annotators, r.Columns, r.Limit = "d", []string{"A"}, []string{"A.v", "A.gone"}, 1
	for {
		p, err := e.Page(b.t.Context(), r)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, raw := range p.Rows {
			out = append(out, string(raw))
		}
		if r.Cursor = p.Next; r.Cursor == "" {
			return out
		}
	}
}

// A merge drops a row as a duplicate of another one. Its annotation was merged
// long ago, or is live still: nothing shows it, and that of the row with the same
// id in another batch stays where it is.
func TestTheAnnotationOfADroppedRowIsInNoView(t *testing.T) {
	for _, merged := range []bool{true, false} {
		t.Run(fmt.Sprintf("merged %v", merged), func(t *testing.T) {
			b := &annotatedBucket{t: t, store: mem.New()}
			one, two := dataset.BatchID{Dataset: "d", Batch: "one"}, dataset.BatchID{Dataset: "d", Batch: "two"}
			ofOne, ofTwo := one, two
			ofOne.Annotator, ofTwo.Annotator = "A", "A"
			b.put(one, `{"id":"a","_created_at":"2026-11-24T14:00:00Z","text":"x"}`, `{"id":"b","_created_at":"2026-11-24T15:00:00Z","text":"x"}`)
			b.put(two, `{"id":"b","text":"x"}`)
			b.merge(one, two)
			note := `{"id":%q,"_batch":%q,"_created_at":"2026-11-25T00:00:00Z","data":{%s},"metadata":{}}`
			b.put(ofOne, fmt.Sprintf(note, "a", "one", `"v":1`), fmt.Sprintf(note, "b", "one", `"v":2,"gone":true`))
			b.put(ofTwo, fmt.Sprintf(note, "b", "two", `"v":3`))
			if merged {
				b.merge(ofOne, ofTwo)
			}
			before := []string{`one {"id":"a","_created_at":"2026-11-24T14:00:00Z","A.v":1}`,
				`one {"id":"b","_created_at":"2026-11-24T15:00:00Z","A.v":2,"A.gone":true}`, `two {"id":"b","A.v":3}`}
			b.same("rows before", b.rows(query.Options{Live: true}), before...)
			b.deduplicate(one, "text")
			b.merge(one)
			b.views(before)
		})
	}
}

// views looks at the dataset when the row b of the batch one has been dropped.
func (b *annotatedBucket) views(before []string) {
	t := b.t
	after := slices.Delete(slices.Clone(before), 1, 2)
	b.same("rows", b.rows(query.Options{Live: true}), after...)
	b.same("of no annotation", b.rows(query.Options{Live: true, Missing: "A"}))
	where, err := dataset.ParseFilter([]byte(`{"column":"A.v","op":"gte","value":2}`))
	if err != nil {
		t.Fatal(err)
	}
	b.same("a filter", b.rows(query.Options{Live: true, Where: where}), after[1])

	e, err := query.NewEngine(b.store, query.Listed(b.store), query.EngineConfig{WorkDir: t.TempDir()}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	rows := []string{`{"id":"a","_created_at":"2026-11-24T14:00:00Z","A.v":1,"_batch":"one"}`, `{"id":"b","A.v":3,"_batch":"two"}`}
	b.same("pages", b.pages(e, query.PageRequest{}), rows...)
	b.same("pages of a filter", b.pages(e, query.PageRequest{Where: where}), rows[1])
	slices.Reverse(rows)
	b.same("pages downwards", b.pages(e, query.PageRequest{Desc: true}), rows...)

	var none *query.NotFoundError
	if found, err := e.Row(t.Context(), "d", "b", "one"); !errors.As(err, &none) {
		t.Errorf("%+v, %v", found, err)
	}
	found, err := e.Row(t.Context(), "d", "b", "")
	if err != nil || len(found) != 1 || found[0].Batch != "two" || len(found[0].Annotations) != 1 || !strings.Contains(string(found[0].Annotations[0].Raw), `{"v":3}`) {
		t.Errorf("%+v, %v", found, err)
	}
	cols, err := e.Schema(t.Context(), "d")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range cols {
		names = append(names, fmt.Sprintf("%s of %d", c.Name, c.Rows))
	}
	b.same("schema", names, "id of 2", "_created_at of 2", "text of 2", "A.v of 2", "A._metadata of 2")
}
