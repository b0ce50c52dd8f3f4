package producers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query"
)

// MergeSource tells of merges.
type MergeSource interface {
	// HandleDataset gives the events of a dataset to fn, one after the other, until
	// ctx ends. The durable remembers what was handled, also over restarts; a new
	// one begins with the last event of each batch. nil from fn means done, an
	// error brings the event again.
	HandleDataset(ctx context.Context, durable, dataset string, fn func(context.Context, dataset.Event) error, types ...dataset.EventType) error
}

// FollowDurable is the name of the durable that an annotator follows merges by.
func FollowDurable(ds, annotator string) string {
	name := "annotate_" + dataset.Token(ds) + "_" + dataset.Token(annotator)
	if len(name) > 120 { // a server refuses names past 255, and folders are named after them
		sum := sha256.Sum256([]byte(name))
		name = "annotate_" + hex.EncodeToString(sum[:16])
	}
	return name
}

// follow annotates what there is, and then what merges bring. An event only
// says when to look: what is new is told by the commit record, and what is to be
// done by the layer, so that lost, doubled and late events change nothing else.
func (a *annotating) follow() error {
	turn := make(chan struct{}, 1) // one pass at a time: the next must see what this one has stored
	turn <- struct{}{}
	var handled error
	var wg sync.WaitGroup
	wg.Go(func() {
		handled = a.o.merges.HandleDataset(a.work, FollowDurable(a.ds, a.annotator), a.ds, func(ctx context.Context, e dataset.Event) error {
			if e.Annotator != nil || a.o.batches != nil && !slices.Contains(a.o.batches, e.Batch) {
				return nil
			}
			select {
			case turn <- struct{}{}:
			case <-a.work.Done():
				return context.Cause(a.work)
			}
			defer func() { <-turn }()
			return a.catchUp(e)
		}, dataset.BatchMerged)
		if handled != nil {
			a.fail(handled)
		}
	})
	err := a.first()
	a.scale.following.Store(true)
	if err != nil {
		a.fail(err)
	}
	<-turn
	wg.Wait()
	return errors.Join(err, handled)
}

// first annotates everything that is merged by now.
func (a *annotating) first() error {
	ids, err := a.batches()
	if err != nil {
		return a.quiet(err)
	}
	for _, b := range ids {
		// Before the pass: what a merge adds while it goes on is looked at once more.
		if _, err := a.news(b); err != nil {
			return a.quiet(err)
		}
	}
	err = a.pass(a.options())
	if errors.Is(err, dataset.ErrNotMerged) {
		return nil
	}
	return err
}

// catchUp annotates what is new in a batch.
func (a *annotating) catchUp(e dataset.Event) error {
	b := dataset.BatchID{Dataset: e.Dataset, Batch: e.Batch}
	if e.Generation > 0 && e.Generation <= a.looked[b.Batch].generation {
		return nil
	}
	before := a.looked[b.Batch]
	fresh, err := a.news(b)
	if err != nil || len(fresh) == 0 {
		return err
	}
	first, last := fresh[0].FirstID, fresh[0].LastID
	for _, bl := range fresh {
		first, last = min(first, bl.FirstID), max(last, bl.LastID)
	}
	o := a.options()
	o.Batches, o.After, o.Unknown = []string{b.Batch}, &query.Cursor{ID: first}, nil
	err = a.passUntil(o, last)
	if err != nil {
		at := a.looked[b.Batch]
		at.generation, at.blocks = before.generation, before.blocks // it is all new again
		a.looked[b.Batch] = at
		if errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrRunTaken) {
			a.fail(err)
		}
		a.log.Warn("rows could not be read; trying again", "batch", b.String(), "err", err)
	}
	return err
}

// news gives the blocks with rows that were not there at the last look.
func (a *annotating) news(b dataset.BatchID) ([]catalog.Block, error) {
	h, err := catalog.ReadHead(a.work, a.store, b)
	if err != nil || !h.Exists() || h.Record.Deleted {
		return nil, err
	}
	at := a.looked[b.Batch]
	blocks := make(map[string]struct{}, len(h.Record.Blocks))
	var fresh []catalog.Block
	for _, bl := range h.Record.Blocks {
		if bl.Rows == 0 {
			continue
		}
		blocks[bl.SHA256] = struct{}{}
		if _, seen := at.blocks[bl.SHA256]; !seen {
			fresh = append(fresh, bl)
		}
	}
	at.generation, at.blocks = h.Record.Generation, blocks
	a.looked[b.Batch] = at
	if h.Record.Rows == 0 {
		var mu sync.Mutex
		if err := a.emptyPart(a.work, b.Batch, &mu); err != nil {
			return nil, fmt.Errorf("make an empty layer of %s: %w", b, err)
		}
	}
	return fresh, nil
}
