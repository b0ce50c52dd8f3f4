package consumers

import (
	"context"
	"errors"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/index"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore"
)

// difference is what a page shows of one batch that the catalog does not say.
type difference struct {
	unseen []listed        // chunks without an entry, or with that of another version
	gone   []known         // entries without an object
	commit *objstore.Info  // a commit record that may be newer than its entry
	runs   []objstore.Info // manifests that may say something new
	stale  bool            // a chunk lies there longer than any merge may wait
	index  bool            // the record has no summary of its generation yet
	older  *objstore.Info  // a merged file that no record may name
	adopt  *bus.Job        // that brings in what an older tool has merged
	fresh  bool            // something was written a moment ago
}

// atOnce is how many batches of a page are repaired at once: they wait for the
// store most of the time.
const atOnce = 8

// compare puts right what a page shows to differ. What was written after young
// is left to its event, which is on its way; the batch has a turn soon.
func (r *Reconciler) compare(ctx context.Context, v view, now, young time.Time) error {
	diffs := r.differences(v, now, young)
	for _, b := range v.recent {
		r.heat(now, batchRegions(b)...)
	}
	late := oldChunkJobs(v, young)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, b := range sortedBatches(diffs) {
		d := diffs[b]
		if d.fresh {
			r.heat(now, batchRegions(b)...)
		}
		g.Go(func() error {
			err := r.repair(gctx, b, d, now)
			if damaged(err) {
				// It stays as it is until somebody heals it; others go on.
				r.log.Error("a batch cannot be compared with the catalog", keyDataset, b.Dataset, keyBatch, b.Batch, keyAnnotator, b.Annotator, keyErr, err)
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for b, d := range diffs {
		if d.stale {
			late[bus.Job{Kind: bus.KindMerge, Batch: b}] = true
		}
		if d.index {
			late[bus.Job{Kind: bus.KindIndex, Batch: b}] = true
		}
		if d.adopt != nil {
			late[*d.adopt] = true
		}
	}
	return r.nudge(ctx, late)
}

// differences sorts a page by batches.
func (r *Reconciler) differences(v view, now, young time.Time) map[dataset.BatchID]*difference {
	diffs := map[dataset.BatchID]*difference{}
	of := func(b dataset.BatchID) *difference {
		if diffs[b] == nil {
			diffs[b] = &difference{}
		}
		return diffs[b]
	}
	missing := maps.Clone(v.known)
	manifests := map[dataset.BatchID]bool{}
	for _, info := range v.objects {
		k := dataset.ParseKey(info.Key)
		e, ok := v.known[info.Key]
		delete(missing, info.Key)
		isYoung := info.Modified.After(young) && !info.Modified.After(now)
		switch k.Kind {
		case dataset.KindChunk:
			c := catalog.Chunk{Batch: k.Batch, Run: k.Run, Number: k.Number, Size: info.Size, ETag: info.ETag, Modified: info.Modified}
			if c.Key() != info.Key { // a number is written one way only
				continue
			}
			d := of(k.Batch)
			d.stale = d.stale || now.Sub(info.Modified) > 2*r.cfg.MaxAge
			l := listed{chunk: c}
			if ok {
				l.have, _ = decode[bus.ChunkEntry](e.entry.Value)
				l.revision = e.entry.Revision
			}
			if l.have.ETag != c.ETag && !isYoung {
				d.unseen = append(d.unseen, l)
			}
		case dataset.KindRun:
			if !isYoung && !r.isSettled(r.version("run", info.Key, info.ETag)) {
				of(k.Batch).runs = append(of(k.Batch).runs, info)
			}
		case dataset.KindCommit:
			if !isYoung && !(ok && r.isSettled(r.version("commit", info.Key, info.ETag))) {
				of(k.Batch).commit = &info
			}
			manifests[k.Batch] = true
		case dataset.KindLegacy, dataset.KindBlock:
			// A batch's manifest.yaml comes before its blocks, mostly on the same page.
			if isYoung || k.Kind == dataset.KindBlock && manifests[k.Batch] || r.isSettled(r.olderVersion(k, info)) {
				continue
			}
			of(k.Batch).older = &info
		default:
			continue
		}
		if now.Sub(info.Modified) < r.cfg.HotFor {
			of(k.Batch).fresh = true
		}
	}
	for _, e := range missing {
		of(e.key.Batch).gone = append(of(e.key.Batch).gone, e)
	}
	return diffs
}

// repair brings catalog and schedules in line with what a page shows of a
// batch, and then announces it.
func (r *Reconciler) repair(ctx context.Context, b dataset.BatchID, d *difference, now time.Time) error {
	if err := r.lookForOlder(ctx, d); err != nil {
		return err
	}
	if d.commit == nil && len(d.gone)+len(d.unseen)+len(d.runs) == 0 {
		return nil
	}
	h, events, err := r.commit(ctx, b, d, now)
	if err != nil {
		return err
	}
	due := false
	if len(d.unseen) > 0 {
		lives, err := r.ledger.add(ctx, h, d.unseen)
		if err != nil {
			return err
		}
		for _, c := range lives {
			due = true
			r.bytes.Add(float64(c.Size))
			events = append(events, putEvent(b, c.Key(), c.ETag, c.Size, c.Modified))
		}
		r.tell(b, foundChunk, len(lives))
	}
	if len(d.runs) > 0 {
		e, news, err := r.runs(ctx, h, d.runs)
		if err != nil {
			return err
		}
		events = append(events, e...)
		due = due || news
	}
	if due {
		if err := r.schedule(ctx, b); err != nil {
			return err
		}
	}
	for _, e := range events {
		if err := r.bus.Publish(ctx, e); err != nil {
			return err
		}
	}
	for _, m := range d.runs {
		r.settle(r.version("run", m.Key, m.ETag))
	}
	if d.commit == nil || h.Foreign {
		return nil
	}
	if indexed, err := r.indexed(ctx, h); err != nil || !indexed {
		// An announcement may get lost after the catalog was written; what is
		// missing in the end is the index.
		d.index = err == nil && now.Sub(h.Record.CommittedAt) > 2*r.cfg.MaxAge
		return err
	}
	r.settle(r.version("commit", d.commit.Key, d.commit.ETag))
	return nil
}

// indexed reports whether an indexer has been at work since the record was
// committed, or need not.
func (r *Reconciler) indexed(ctx context.Context, h catalog.Head) (bool, error) {
	if !h.Exists() {
		return true, nil
	}
	m, err := index.ReadMeta(ctx, r.store, h.Record.ID())
	if errors.Is(err, objstore.ErrNotFound) || errors.Is(err, index.ErrDamaged) {
		return false, nil
	}
	return m.Generation >= h.Record.Generation, err
}

func (r *Reconciler) tell(b dataset.BatchID, what string, n int) {
	if n > 0 {
		r.found.WithLabelValues(what).Add(float64(n))
		r.log.Info("found by listing", keyDataset, b.Dataset, keyBatch, b.Batch, keyAnnotator, b.Annotator, keyFound, what, "n", n)
	}
}

// commit writes the generation of the record, and then removes entries whose
// object is gone, by the revision that was read before the listing.
func (r *Reconciler) commit(ctx context.Context, b dataset.BatchID, d *difference, now time.Time) (h catalog.Head, events []dataset.Event, err error) {
	h, changed, err := r.ledger.sync(ctx, b)
	if err == nil && changed {
		h, _, err = r.ledger.batch(ctx, b)
	}
	if err != nil {
		return h, nil, err
	}
	switch {
	case changed && h.Exists():
		if now.Sub(h.Record.CommittedAt) > r.cfg.Quiet { // else its event is on its way
			r.tell(b, foundCommit, 1)
		}
		events = append(events, mergeEvent(h))
	case h.Foreign && d.commit != nil:
		job, due, err := olderJob(ctx, r.store, dataset.ParseKey(d.commit.Key))
		if err != nil {
			return h, nil, err
		}
		if due {
			d.adopt = &job
		}
	}
	n := 0
	for _, e := range d.gone {
		if e.key.Run == "" {
			continue // a record that is gone: sync has settled it
		}
		ok, err := remove(ctx, r.ledger.kv, e.entry.Key, e.entry.Revision)
		if err != nil {
			return h, nil, err
		}
		if ok {
			n++
		}
	}
	// Mostly these are absorbed chunks whose event is a moment late; there is
	// nothing to be done about it but to count.
	r.found.WithLabelValues(foundGone).Add(float64(n))
	return h, events, nil
}

// runs reads the manifests that the record does not know as closed. news says
// that the list in force for deduplication is another than the record's.
func (r *Reconciler) runs(ctx context.Context, h catalog.Head, manifests []objstore.Info) (events []dataset.Event, news bool, err error) {
	b := h.Record.ID()
	runs := make(map[dataset.Run]catalog.RunState, len(h.Record.Runs))
	maps.Copy(runs, h.Record.Runs)
	for _, info := range manifests {
		id := dataset.ParseKey(info.Key).Run
		st, ok := runs[id]
		if ok && closed(st.State) {
			continue
		}
		m, err := catalog.ReadRun(ctx, r.store, b, id)
		switch {
		case errors.Is(err, objstore.ErrNotFound):
			continue
		case damaged(err):
			r.log.Error("a run manifest is damaged", keyKey, info.Key, keyErr, err)
			continue
		case err != nil:
			return nil, false, err
		}
		st.DeduplicateOn, st.State = m.DeduplicateOn, m.State
		runs[id] = st
		if closed(m.State) {
			m.Run = id
			r.tell(b, foundRun, 1)
			events = append(events, runEvent(b, m))
		}
	}
	return events, h.Exists() && !catalog.SameList(catalog.InForce(runs), h.Record.DeduplicateOn), nil
}

func (r *Reconciler) schedule(ctx context.Context, b dataset.BatchID) error {
	return r.ledger.debounce(ctx, r.bus, b, r.cfg.Policy)
}

// nudge makes jobs due for what lies there longer than any job may wait, unless
// one is on its way or was given up: that one is for a person to look at, and a
// trigger would start it again and again.
func (r *Reconciler) nudge(ctx context.Context, late map[bus.Job]bool) error {
	if len(late) == 0 {
		return nil
	}
	for s, err := range r.bus.Jobs(ctx) {
		if err != nil {
			return err
		}
		delete(late, s.Job)
	}
	for j := range late {
		var err error
		if j.Kind == bus.KindMerge {
			err = r.schedule(ctx, j.Batch)
		} else {
			err = r.bus.Debounce(ctx, j, r.cfg.Quiet, r.cfg.MaxAge)
		}
		if err != nil {
			return err
		}
		r.tell(j.Batch, foundJob, 1)
	}
	return nil
}
