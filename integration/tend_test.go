package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/index"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

// collects is gc as the command does it: without grace, until nothing is left to
// be raised, and then the indexes. Now and then it only looks, and then no call
// of it may change anything.
func (s *simulation) collects(ctx context.Context, name string, store objstore.Store) error {
	rnd := rand.New(s.random(name))
	by := committer(name, s.sched.Now)
	for range 4 {
		err := s.collect(ctx, store, by, rnd.IntN(3) == 0)
		if crashed(ctx, err) {
			return objtest.ErrCrashed
		}
		if errors.Is(err, errBroken) {
			return err
		}
		if err := s.sched.Sleep(ctx, name, 2*time.Second); err != nil {
			return err
		}
	}
	return nil
}

func (s *simulation) collect(ctx context.Context, store objstore.Store, by catalog.Committer, dryRun bool) error {
	if dryRun {
		s.guard.happened("dry run")
		store = readOnly{store}
	}
	for again := true; again; {
		plan, err := catalog.PlanSweep(ctx, store, simBatch, s.policy, s.sched.Now())
		if err != nil {
			return err
		}
		var swept catalog.Swept
		if !dryRun {
			if swept, err = plan.Carry(ctx, store, by); err != nil {
				return err
			}
		}
		if again = swept.Raised; again || !plan.Head().Exists() {
			continue
		}
		have, err := index.Numbers(ctx, store, simBatch)
		if err != nil {
			return err
		}
		if r := plan.Head().Record; !dryRun {
			_, err = index.Prune(ctx, store, r, have, s.sched.Now())
		} else {
			index.Stale(r, have, s.sched.Now())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readOnly is a store to whoever has promised to change nothing.
type readOnly struct{ objstore.Store }

func (readOnly) Put(_ context.Context, key string, _ []byte, _ objstore.Condition) (objstore.Info, error) {
	return objstore.Info{}, fmt.Errorf("%w: %s is written by a dry run", errBroken, key)
}

func (r readOnly) Upload(ctx context.Context, key string, _ io.ReadSeeker, _ int64, c objstore.Condition) (objstore.Info, error) {
	return r.Put(ctx, key, nil, c)
}

func (readOnly) Delete(_ context.Context, key string) error {
	return fmt.Errorf("%w: %s is deleted by a dry run", errBroken, key)
}

// converts converts the batch again and again, while others merge it to parquet
// blocks.
func (s *simulation) converts(ctx context.Context, name string, store objstore.Store) error {
	limit := int64(1 << 30)
	if s.seed%3 == 0 {
		limit = 1 // too large: what another tool has merged is adopted all the same
	}
	c := merger.NewConverter(s.engine(name, store, s.sched.Now), limit)
	for range 3 {
		if _, err := c.Batch(ctx, simBatch, nil); crashed(ctx, err) {
			return objtest.ErrCrashed
		}
		if err := s.sched.Sleep(ctx, name, 2*time.Second); err != nil {
			return err
		}
	}
	return nil
}

// indexes makes the indexes of the blocks, as the indexer does.
func (s *simulation) indexes(ctx context.Context, name string, store objstore.Store) error {
	for range 3 {
		if err := reindex(ctx, store); crashed(ctx, err) {
			return objtest.ErrCrashed
		}
		if err := s.sched.Sleep(ctx, name, 3*time.Second); err != nil {
			return err
		}
	}
	return nil
}

func reindex(ctx context.Context, store objstore.Store) error {
	h, err := catalog.ReadHead(ctx, store, simBatch)
	if err != nil || !h.Exists() {
		return err
	}
	for _, b := range h.Record.Blocks {
		if err := index.Build(ctx, store, simBatch, b); err != nil && !errors.Is(err, objstore.ErrNotFound) && !errors.Is(err, index.ErrNoIndex) {
			return err
		}
	}
	have, err := index.Numbers(ctx, store, simBatch)
	if err != nil {
		return err
	}
	return index.PutMeta(ctx, store, simBatch, index.Summarize(h.Record, have))
}

// verifies is verify --repair as the command does it. It may find only what a
// saboteur has done.
func (s *simulation) verifies(ctx context.Context, name string, store objstore.Store) error {
	e := s.engine(name, store, s.sched.Now)
	for range 3 {
		err := s.repair(ctx, e, store)
		if crashed(ctx, err) {
			return objtest.ErrCrashed
		}
		if errors.Is(err, errBroken) {
			return err
		}
		if err := s.sched.Sleep(ctx, name, 3*time.Second); err != nil {
			return err
		}
	}
	return nil
}

func (s *simulation) repair(ctx context.Context, e *merger.Engine, store objstore.Store) error {
	found, err := e.Verify(ctx, simBatch)
	if err != nil {
		return err
	}
	if found.Generation > 0 && !found.OK() && !s.guard.sabotaged() {
		return fmt.Errorf("%w: verify finds what nobody has done: %+v", errBroken, found.Problems)
	}
	done, err := e.Repair(ctx, simBatch, found)
	for _, d := range done {
		if d.Key == simBatch.DigestDir() {
			s.guard.happened("digests made anew")
		}
	}
	if err != nil {
		return err
	}
	h, err := catalog.ReadHead(ctx, store, simBatch)
	if err != nil || !h.Exists() || !s.index {
		return err
	}
	faults, err := index.Check(ctx, store, h.Record)
	if err != nil || len(faults) == 0 {
		return err
	}
	s.guard.happened("index made anew")
	return index.Repair(ctx, store, h.Record, faults)
}

// mend repairs, without faults, what is broken in the end.
func (s *simulation) mend() error {
	if !s.guard.sabotaged() {
		return nil
	}
	if err := s.repair(s.t.Context(), s.engine("mender", s.store(), s.sched.Now), s.store()); err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	return nil
}

// indexed checks the indexes of a batch that is at rest.
func (s *simulation) indexed(r catalog.Record) error {
	if !s.index {
		return nil
	}
	ctx := s.t.Context()
	if err := reindex(ctx, s.store()); err != nil {
		return err
	}
	faults, err := index.Check(ctx, s.store(), r)
	if err == nil && len(faults) > 0 {
		err = fmt.Errorf("indexes: %+v", faults)
	}
	return err
}

// saboteur does harm once, from outside of all rules.
func (s *simulation) saboteur() {
	how := []func(context.Context) bool{s.guard.tearRecord, s.guard.harmDigest, s.guard.harmIndex}[s.rnd.IntN(3)]
	pause := time.Duration(1+s.rnd.IntN(12)) * time.Second
	s.sched.Go("saboteur", func(ctx context.Context, _ objstore.Store) error {
		for range 10 {
			if err := s.sched.Sleep(ctx, "saboteur", pause); err != nil {
				return err
			}
			if how(ctx) {
				return nil
			}
		}
		return nil
	})
}

// tearRecord leaves half of the commit record in its place.
func (g *guard) tearRecord(ctx context.Context) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.record.Generation == 0 {
		return false
	}
	whole := g.records[g.record.Generation]
	g.torn = whole[:len(whole)/2]
	g.losses++
	_, err := g.Store.Put(ctx, g.batch.CommitKey(), g.torn, objstore.Condition{})
	return err == nil
}

// harmDigest changes or deletes a digest file that the record names.
func (g *guard) harmDigest(ctx context.Context) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.record.Digests) == 0 {
		return false
	}
	d := g.record.Digests[g.record.Generation%int64(len(g.record.Digests))]
	key := g.batch.DigestKey(d.File)
	g.harmed[key[len(g.batch.Dir()):]] = true
	body, err := g.look(ctx, key)
	if err != nil || len(body) == 0 || g.record.Generation%2 == 0 {
		return g.Store.Delete(ctx, key) == nil
	}
	body = append([]byte(nil), body...)
	body[len(body)/2] ^= 1
	_, err = g.Store.Put(ctx, key, body, objstore.Condition{})
	return err == nil
}

// harmIndex deletes an index.
func (g *guard) harmIndex(ctx context.Context) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, b := range g.record.Blocks {
		key := g.batch.IndexKey(dataset.ParseKey(g.batch.BlockKey(b.File)).Number)
		if body, err := g.look(ctx, key); err == nil && body != nil {
			return g.Store.Delete(ctx, key) == nil
		}
	}
	return false
}

// lost counts the records that were lost.
func (g *guard) lost() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.losses
}

// sabotaged reports whether anything was done that verify has to find.
func (g *guard) sabotaged() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.losses > 0 || len(g.harmed) > 0
}
