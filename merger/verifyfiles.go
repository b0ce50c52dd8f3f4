package merger

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// checkFiles looks for merged files that the record does not name.
func (c *checker) checkFiles() error {
	r := c.head.Record
	files, err := listNumbered(c.ctx, c.store, c.batch)
	if err != nil {
		return err
	}
	names := r.Names()
	for _, f := range files {
		switch {
		case names[f.path()]:
		case f.Kind == dataset.KindLegacy:
			c.report.note(f.Info.Key, "a file of another tool that the commit record does not name")
		case f.Number < r.NextFile:
			c.report.note(f.Info.Key, "an orphan: the commit record does not name it; the sweeper deletes it unless history needs it")
		default:
			c.report.note(f.Info.Key, "not named, from a merge that is under way or was cut short; the sweeper sees to it")
		}
	}
	if n := len(r.Garbage); n > 0 {
		c.report.note(c.batch.CommitKey(), "%d replaced files wait for the sweeper", n)
	}
	return nil
}

// checkHistory reads the earlier records.
func (c *checker) checkHistory() error {
	for info, err := range c.store.List(c.ctx, c.batch.HistoryDir(), "") {
		if err != nil {
			return fmt.Errorf("list %s: %w", c.batch.HistoryDir(), err)
		}
		k := dataset.ParseKey(info.Key)
		if k.Kind != dataset.KindHistory || k.Number == 0 {
			continue // a stray, or another tool's manifest.yaml
		}
		raw, _, err := objstore.ReadAll(c.ctx, c.store, info.Key)
		if errors.Is(err, objstore.ErrNotFound) {
			continue // swept meanwhile
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", info.Key, err)
		}
		var r catalog.Record
		switch err := json.Unmarshal(raw, &r); {
		case err != nil:
			c.report.problem(info.Key, "it is no commit record: %v", err)
		case r.Generation != int64(k.Number) || r.ID() != c.batch:
			c.report.problem(info.Key, "it says that it is generation %d of %s", r.Generation, r.ID())
		case r.Generation > c.head.Record.Generation:
			c.report.problem(info.Key, "it is newer than the commit record, which is of generation %d", c.head.Record.Generation)
		}
	}
	return nil
}

// checkStrays looks for objects in the folder that nothing reads: somebody may
// take them for part of the batch. What was rejected is nobody's to name.
func (c *checker) checkStrays() error {
	for info, err := range c.store.List(c.ctx, c.batch.Dir(), "") {
		if err != nil {
			return fmt.Errorf("list %s: %w", c.batch.Dir(), err)
		}
		switch dataset.ParseKey(info.Key).Kind {
		case dataset.KindUnknown:
			if !strings.HasSuffix(info.Key, "/") && !strings.HasPrefix(info.Key, c.batch.RejectedKey("")) {
				c.report.note(info.Key, "not a file of the format: nothing reads it")
			}
		case dataset.KindBlock, dataset.KindLegacy, dataset.KindDigest, dataset.KindHistory:
			if !c.head.Exists() && !c.head.Foreign {
				c.report.note(info.Key, "there is no commit record to name it: nothing reads it")
			}
		}
	}
	return nil
}

// checkLive reads the live folder: chunks that are not merged yet, and those
// that are and still lie there, and looks for those that are not.
func (c *checker) checkLive() error {
	for _, chunk := range c.listing.Chunks {
		if c.head.Record.Absorbed(chunk) {
			c.report.note(chunk.Key(), "absorbed, and still there; the next merge deletes it")
			continue
		}
		if err := c.checkChunk(chunk); err != nil {
			return err
		}
	}
	lost, err := catalog.FindMissing(c.ctx, c.store, c.batch, c.head, c.listing)
	if errors.Is(err, catalog.ErrDamaged) {
		c.report.problem(c.batch.LiveDir(), "%v", err)
		return nil
	}
	if err != nil {
		return err
	}
	for _, m := range lost {
		c.report.problem(c.batch.RunKey(m.Run), "%s", m)
	}
	runs, err := catalog.MergeRuns(c.ctx, c.store, c.head.Record, c.listing.Runs)
	if errors.Is(err, catalog.ErrDamaged) {
		c.report.problem(c.batch.LiveDir(), "%v", err)
		return nil
	}
	if err != nil {
		return err
	}
	if list := catalog.InForce(runs); c.head.Exists() && !catalog.SameList(list, c.head.Record.DeduplicateOn) {
		c.report.note(c.batch.CommitKey(), "deduplicated on %q; the next merge will do so on %q, as the runs say", c.head.Record.DeduplicateOn, list)
	}
	return nil
}

func (c *checker) checkChunk(chunk catalog.Chunk) error {
	s := chunkSource(chunk)
	body, _, err := c.store.Get(c.ctx, s.key, s.span())
	if errors.Is(err, objstore.ErrNotFound) || errors.Is(err, objstore.ErrChanged) {
		return nil // absorbed or written again meanwhile
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", s.key, err)
	}
	defer body.Close()
	c.report.LiveChunks++
	in := intake{layer: c.batch.Annotator != ""}
	bad, first := int64(0), ""
	err = eachLine(s, body, func(l block.Line) error {
		if _, reason := in.check(s, l); reason != "" {
			if bad++; first == "" {
				first = fmt.Sprintf("line %d: %s", l.Number, reason)
			}
			return c.ctx.Err()
		}
		c.report.LiveRows++
		return c.ctx.Err()
	})
	if errors.Is(err, io.ErrUnexpectedEOF) {
		c.report.problem(s.key, "it cannot be read whole: %v", err)
		return nil
	}
	if bad > 0 {
		c.report.Rejected += bad
		c.report.note(s.key, "%d lines will be rejected; %s", bad, first)
	}
	return err
}
