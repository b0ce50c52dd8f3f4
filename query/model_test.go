package query_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/objtest"
	"github.com/siltstone-data/siltstone/query"
)

// randomLine is a row out of few ids, so that many meet, some without an id,
// some no rows at all.
func randomLine(r *rand.Rand, serial int) string {
	ids := []string{"a", "b", "c", "é", "日本", "a\\u0000", "a b", "10", "9", "zz", "Z", "~"}
	id := ids[r.IntN(len(ids))]
	if r.IntN(2) == 0 {
		id += fmt.Sprint(r.IntN(20))
	}
	created := ""
	if r.IntN(3) > 0 {
		created = fmt.Sprintf(`,"_created_at":%d`, 1_700_000_000+r.IntN(5))
	}
	switch r.IntN(20) {
	case 0:
		return "not a row"
	case 1:
		return fmt.Sprintf(`{"n":%d}`, serial)
	case 2:
		return fmt.Sprintf(`{"id":"%s","_batch":"b"}`, id)
	case 3:
		return ""
	}
	return fmt.Sprintf(`{"id":"%s"%s,"n":%d,"t":"%s"}`, id, created, serial, strings.Repeat("x", r.IntN(300)))
}

// model gives what a read must give, from the stored bytes: merged rows first,
// then the new ones in the order of decision.
func model(t *testing.T, s objstore.Store, o query.Options) []string {
	t.Helper()
	ctx := t.Context()
	ids, err := catalog.Batches(ctx, s, "d")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[query.Cursor]string{}
	for _, id := range ids {
		if o.Batches != nil && !slices.Contains(o.Batches, id.Batch) {
			continue
		}
		snap, err := catalog.Open(ctx, s, id)
		if err != nil {
			t.Fatal(err)
		}
		add := func(r dataset.Row) {
			if k := (query.Cursor{ID: r.ID, Batch: id.Batch}); rows[k] == "" {
				rows[k] = id.Batch + " " + string(r.Raw)
			}
		}
		for _, bl := range snap.Head.Record.Blocks {
			raw, _, err := objstore.ReadAll(ctx, s, id.BlockKey(bl.File))
			if err != nil {
				t.Fatal(err)
			}
			rs, err := blockRows(bl.File, raw)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rs {
				add(r)
			}
		}
		var fresh []newRow
		for _, c := range snap.Live {
			raw, _, err := objstore.ReadAll(ctx, s, c.Key())
			if err != nil {
				t.Fatal(err)
			}
			fresh = append(fresh, rowsOf(c, raw)...)
		}
		slices.SortFunc(fresh, before)
		for _, r := range fresh {
			if o.Live {
				add(r.Row)
			}
		}
	}
	var keys []query.Cursor
	for k := range rows {
		if o.After == nil || k.Compare(*o.After) > 0 {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, query.Cursor.Compare)
	var out []string
	for _, k := range keys {
		out = append(out, rows[k])
	}
	if o.Limit > 0 {
		out = out[:min(len(out), int(o.Limit))]
	}
	return out
}

func TestRandomLayoutsReadAsTheModelSays(t *testing.T) {
	seeds := uint64(150)
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 1))
		b := newBucket(t)
		serial := 0
		batches := []string{"b1", "b2", "ü", "b10"}[:1+r.IntN(4)]
		for range 3 + r.IntN(12) {
			batch := batches[r.IntN(len(batches))]
			b.cut = 1 + r.IntN(8)
			var lines []string
			for range r.IntN(12) {
				lines = append(lines, randomLine(r, serial))
				serial++
			}
			if r.IntN(3) == 0 {
				b.merged(batch, lines...)
			} else {
				b.chunk(batch, 100+serial, lines...)
			}
		}
		o := query.Options{Live: r.IntN(4) > 0}
		all := model(t, b.store, query.Options{Live: true})
		if r.IntN(2) == 0 {
			o.Limit = int64(1 + r.IntN(len(all)+2))
		}
		if r.IntN(2) == 0 && len(all) > 0 {
			o.After = &query.Cursor{ID: []string{"a", "b5", "zz", "", "日本3"}[r.IntN(5)], Batch: batches[r.IntN(len(batches))]}
		}
		want := model(t, b.store, o)
		got, err := b.readVia(b.store, o)
		if err != nil && len(want) == 0 {
			continue // nothing is merged, or nothing was put at all
		}
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("seed %d, %+v: %v\n got %q\nwant %q", seed, o, err, got, want)
		}
	}
}

// TestReadersAmongWritersAndMergers lets every store call of readers, writers
// and mergers be a step in an order that a seed decides. Whatever the order, a
// read gives each row that was stored before it began exactly once, in order.
func TestReadersAmongWritersAndMergers(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		s := objtest.NewSchedule(seed, objtest.ScheduleConfig{
			Chances: objtest.Chances{Pause: .08, LostAnswer: .03, LateEffect: .03, CrashBefore: .004, CrashAfter: .004},
			Spare:   func(actor, _, _ string) bool { return strings.HasPrefix(actor, "reader") || actor == "writer" },
		})
		stored := map[string]bool{} // touched by the writer, and read when a reader begins: steps are one at a time
		mu := make(chan struct{}, 1)
		known := func(id string) int {
			mu <- struct{}{}
			defer func() { <-mu }()
			if id != "" {
				stored[id] = true
			}
			return len(stored)
		}
		r := rand.New(rand.NewPCG(seed, 2))
		perm := r.Perm(60)
		b := &bucket{t: t, store: s.Store(), cut: 1 + r.IntN(6)}
		b.merged("x", line("00"))
		b.merged("y", line("00"))
		s.Go("writer", func(ctx context.Context, store objstore.Store) error {
			for n := 0; n < len(perm); n += 3 {
				batch := []string{"x", "y"}[n/3%2]
				var lines []string
				for _, i := range perm[n : n+3] {
					lines = append(lines, line(fmt.Sprintf("%02d", i+10)))
				}
				if _, err := store.Put(ctx, batchID(batch).ChunkKey(run, 50+n), []byte(strings.Join(lines, "\n")), objstore.IfAbsent()); err != nil {
					return err
				}
				for _, i := range perm[n : n+3] {
					known(batch + fmt.Sprint(i+10))
				}
			}
			return nil
		})
		for m := range 2 {
			s.Go(fmt.Sprintf("merger%d", m), func(ctx context.Context, store objstore.Store) error {
				for n := range 12 {
					_ = merge(ctx, store, batchID([]string{"x", "y"}[n%2]), b.cut, fmt.Sprintf("%d-%08d-%06d", m, seed, n))
				}
				return nil
			})
		}
		for rd := range 2 {
			s.Go(fmt.Sprintf("reader%d", rd), func(ctx context.Context, store objstore.Store) error {
				for range 3 {
					known("")
					mu <- struct{}{}
					must := map[string]bool{"x00": true, "y00": true}
					for id := range stored {
						must[id] = true
					}
					<-mu
					last := query.Cursor{}
					for row, err := range query.Rows(ctx, store, query.Options{Dataset: "d", Live: true, WorkDir: t.TempDir(), Parallel: 1}) {
						if err != nil {
							return err
						}
						at := query.Cursor{ID: row.ID, Batch: row.Batch}
						if at.Compare(last) <= 0 {
							return fmt.Errorf("%v after %v", at, last)
						}
						last = at
						delete(must, row.Batch+row.ID)
					}
					if len(must) > 0 {
						return fmt.Errorf("stored before the read and not given: %v", must)
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
