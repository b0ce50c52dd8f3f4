package integration_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/producers"
)

// writer writes rows; after a crash a new run writes those that were not
// acknowledged, again.
func (s *simulation) writer(of string, list []string, rows []simRow) {
	s.actor(of, func(ctx context.Context, name string, store objstore.Store) error {
		return calm(ctx, s.write(ctx, name, store, list, rows))
	})
}

func (s *simulation) write(ctx context.Context, name string, store objstore.Store, list []string, rows []simRow) error {
	byID := map[string]simRow{}
	for _, r := range rows {
		byID[r.ID] = r
	}
	opts := []producers.Option{
		producers.ChunkRows(2), producers.ChunkAge(0), producers.Name(name),
		producers.Clock(s.sched.Now), producers.Random(&fewRuns{s.random(name)}),
		producers.OnStored(func(ids []string) {
			for _, id := range ids {
				s.ledger.acknowledge(byID[id])
			}
		}),
	}
	if list != nil {
		opts = append(opts, producers.DeduplicateOn(list...))
	}
	w, err := producers.OpenBatch(ctx, store, nil, slog.New(slog.DiscardHandler), simBatch, opts...)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if s.ledger.acknowledged(r) {
			continue
		}
		if err := w.Write(ctx, []byte(r.line)); err != nil {
			_, _ = w.Abort(ctx)
			return err
		}
	}
	_, err = w.Close(ctx)
	return err
}

// fewRuns lets writers draw the same run ids again and again.
type fewRuns struct{ *rand.ChaCha8 }

func (r *fewRuns) Read(b []byte) (int, error) {
	n, err := r.ChaCha8.Read(b)
	if len(b) == 3 { // a run id
		b[0], b[1], b[2] = 0xab, 0xcd, b[2]%16
	}
	return n, err
}

// strangerRun is the run of the stranger's chunks.
const strangerRun dataset.Run = "e0e0e0"

// stranger is a tool that knows half of the format: it writes chunks that have
// no manifest, rows without ids and lines that are no rows, it puts a chunk a
// second time, and in some schedules a manifest comes when all of it is merged.
func (s *simulation) stranger() {
	list := [][]string{nil, {"k"}, {}}[s.rnd.IntN(3)]
	late := s.rnd.IntN(2) == 0
	s.ledger.opinion(nil) // until it says something
	if late {
		s.ledger.opinion(list)
	}
	var bodies []string
	var rows [][]simRow
	for n := range 3 {
		body, of := s.foreign(simBatch.ChunkKey(strangerRun, n))
		bodies, rows = append(bodies, body), append(rows, of)
	}
	twice, pause := s.rnd.IntN(2) == 0, time.Duration(s.rnd.IntN(8))*time.Second
	s.sched.Go("stranger", func(ctx context.Context, store objstore.Store) error {
		put := func(n int) error {
			_, err := store.Put(ctx, simBatch.ChunkKey(strangerRun, n), []byte(bodies[n]), objstore.Condition{})
			if err == nil {
				s.ledger.acknowledge(rows[n]...)
				err = s.sched.Sleep(ctx, "stranger", pause)
			}
			return err
		}
		for n := range bodies {
			if err := put(n); err != nil {
				return calm(ctx, err) // whether it is stored, nobody knows
			}
		}
		if twice {
			if err := put(0); err != nil {
				return calm(ctx, err)
			}
		}
		if late {
			m := catalog.RunManifest{Version: 1, Run: strangerRun, Dataset: simBatch.Dataset, Batch: simBatch.Batch, DeduplicateOn: list, State: catalog.RunOpen}
			return calm(ctx, catalog.PutRun(ctx, store, m))
		}
		return nil
	})
}

// foreign makes the lines of a file of another tool.
func (s *simulation) foreign(key string) (string, []simRow) {
	rows := s.ledger.draw(s.rnd, 2)
	var lines []string
	for _, r := range rows {
		lines = append(lines, r.line)
	}
	if s.rnd.IntN(2) == 0 {
		line := fmt.Sprintf(`{"k":%d,"m":0,"v":2.0}`, s.rnd.IntN(4))
		lines = append(lines, line)
		id := dataset.DerivedID(key, len(lines))
		rows = append(rows, s.ledger.add(simRow{id, `{"id":"` + id + `",` + line[1:]}))
	}
	if s.rnd.IntN(2) == 0 {
		line := fmt.Sprintf(`{"k":1,"k":2,"of":%q}`, key)
		lines = append(lines, line)
		rows = append(rows, simRow{"", line}) // no row: it must be among the rejected lines
	}
	return strings.Join(lines, "\n") + "\n", rows
}

// inherit lets the batch begin as one of another tool: with merged lines and a
// manifest, or with merged.parquet alone.
func (s *simulation) inherit() error {
	s.ledger.opinion(nil)
	ctx := s.t.Context()
	if withParquet(s.seed) && s.rnd.IntN(2) == 0 {
		rows := s.ledger.draw(s.rnd, 3)
		slices.SortFunc(rows, func(a, b simRow) int { return strings.Compare(a.ID, b.ID) })
		var body bytes.Buffer
		w := block.NewParquetWriter(&body, s.dir)
		for _, r := range rows {
			row, err := dataset.ParseRow([]byte(r.line))
			if err != nil {
				return err
			}
			if err := w.Add(row); err != nil {
				return err
			}
		}
		if _, err := w.Close(); err != nil {
			return err
		}
		s.ledger.inherited = rows
		_, err := s.guard.Store.Put(ctx, simBatch.BlockKey("merged.parquet"), body.Bytes(), objstore.Condition{})
		return err
	}
	key := simBatch.BlockKey(dataset.BlockFile(0))
	body, rows := s.foreign(key)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(body)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	manifest := []byte("rows: 3\nfiles: [merged_00000.jsonl.gz]\n")
	s.guard.inherit(manifest)
	if _, err := s.store().Put(ctx, key, packed.Bytes(), objstore.Condition{}); err != nil {
		return err
	}
	if _, err := s.guard.Store.Put(ctx, simBatch.CommitKey(), manifest, objstore.Condition{}); err != nil {
		return err
	}
	s.ledger.inherited = rows
	return nil
}
