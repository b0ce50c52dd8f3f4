package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// trickle is a run: where the ids of the rows of merge i and writer w lie.
type trickle struct {
	name   string
	merges int
	ranks  func(i, w int) []int64
}

func runs(b bench) []trickle {
	rng := rand.New(rand.NewPCG(2, 2))
	end := int64(b.base+1) * spacing
	one := int64(b.each) * 1000 // ids of a merge
	// overlap is over how many merges before its own the rows of one reach.
	staggered := func(overlap float64) func(int, int) []int64 {
		return func(i, w int) []int64 {
			ranks := make([]int64, b.each)
			for j := range ranks {
				ranks[j] = end + int64((float64(i)+rng.Float64()*(1+overlap))*float64(one))
			}
			return ranks
		}
	}
	return []trickle{
		{"appended", b.merges, func(i, w int) []int64 {
			ranks := make([]int64, b.each)
			for j := range ranks {
				ranks[j] = end + int64(i)*one + int64(j*b.writers+w)
			}
			return ranks
		}},
		{"staggered over half a merge", b.merges, staggered(0.5)},
		{"staggered over three merges", b.merges, staggered(3)},
		{"spread", max(b.merges/50, 1), func(i, w int) []int64 {
			ranks := make([]int64, b.each)
			for j := range ranks {
				ranks[j] = rng.Int64N(end)
			}
			return ranks
		}},
	}
}

// measure makes a batch and the merges of a run, and prints a row of the table.
func (b *bench) measure(ctx context.Context, r trickle) error {
	id := dataset.BatchID{Dataset: "trickle", Batch: r.name}
	if err := b.prepare(ctx, id); err != nil {
		return err
	}
	rows := newSource(3)
	seen, err := catalog.ReadHead(ctx, b.store, id)
	if err != nil {
		return err
	}
	base := seen.Record
	var m tally
	m.verbs = map[string]float64{}
	for i := range r.merges {
		for w := range b.writers {
			ranks := r.ranks(i, w)
			slices.Sort(ranks)
			var body bytes.Buffer
			for _, rank := range slices.Compact(ranks) {
				rows.add(&body, rank)
			}
			if _, err := b.store.Put(ctx, id.ChunkKey(runOf(w), i), body.Bytes(), objstore.IfAbsent()); err != nil {
				return err
			}
		}
		before, err := b.verbs()
		if err != nil {
			return err
		}
		start, cpu := time.Now(), processorTime()
		if _, err := b.engine.Merge(ctx, id); err != nil {
			return err
		}
		m.took = append(m.took, time.Since(start))
		m.cpu = append(m.cpu, processorTime()-cpu)
		after, err := b.verbs()
		if err != nil {
			return err
		}
		for verb, n := range after {
			m.verbs[verb] += n - before[verb]
		}
		h, err := catalog.ReadHead(ctx, b.store, id)
		if err != nil {
			return err
		}
		m.add(seen.Record, h.Record)
		raw, _, err := objstore.ReadAll(ctx, b.store, id.CommitKey())
		if err != nil {
			return err
		}
		m.records += 2 * int64(len(raw)) // one of them in history
		seen = h
		if err := b.goOn(ctx, id); err != nil {
			return err
		}
	}
	m.print(r.name, base, seen.Record)
	return nil
}

// goOn moves the clock, and sweeps when a minute is over.
func (b *bench) goOn(ctx context.Context, id dataset.BatchID) error {
	if b.now = b.now.Add(b.pace); b.now.Sub(b.swept) < time.Minute {
		return nil
	}
	b.swept = b.now
	_, err := catalog.Sweep(ctx, b.store, id, catalog.SweepPolicy{Grace: 10 * time.Minute}, catalog.Committer{
		By: "trickle", Now: func() time.Time { return b.now }, Commit: func() string { return fmt.Sprintf("%016x", b.now.UnixNano()) },
	})
	return err
}

// prepare makes the batch before.
func (b *bench) prepare(ctx context.Context, id dataset.BatchID) error {
	const before = dataset.Run("00000f")
	for _, run := range append([]dataset.Run{before}, b.runs()...) {
		m := catalog.RunManifest{Version: catalog.RunVersion, Run: run, Dataset: id.Dataset, Batch: id.Batch, DeduplicateOn: []string{"text"}, State: catalog.RunOpen}
		if run == before {
			m.State = catalog.RunCompleted
		}
		if err := catalog.PutRun(ctx, b.store, m); err != nil {
			return err
		}
	}
	const chunk = 2000
	var g errgroup.Group
	g.SetLimit(2)
	for n := range (b.base + chunk - 1) / chunk {
		g.Go(func() error {
			rows := newSource(uint64(1000 + n))
			var body bytes.Buffer
			for i := n * chunk; i < min((n+1)*chunk, b.base); i++ {
				rows.add(&body, int64(i+1)*spacing)
			}
			_, err := b.store.Put(ctx, id.ChunkKey(before, n), body.Bytes(), objstore.IfAbsent())
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	_, err := b.engine.Merge(ctx, id)
	return err
}

func runOf(w int) dataset.Run { return dataset.Run(fmt.Sprintf("%06x", 0xa0+w)) }

func (b *bench) runs() []dataset.Run {
	var out []dataset.Run
	for w := range b.writers {
		out = append(out, runOf(w))
	}
	return out
}

// verbs gives the requests so far.
func (b *bench) verbs() (map[string]float64, error) {
	families, err := b.registry.Gather()
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "verb" {
					out[l.GetValue()] += m.GetCounter().GetValue()
				}
			}
		}
	}
	return out, nil
}
