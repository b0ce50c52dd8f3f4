package merger

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// checkBlocks reads every block: that ranges do not overlap, and ids ascend
// within each, leaves no id that could occur twice.
func (c *checker) checkBlocks() error {
	for _, b := range c.head.Record.Blocks {
		if err := c.checkBlock(b); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) checkBlock(b catalog.Block) error {
	key := c.batch.BlockKey(b.File)
	if k := dataset.ParseKey(key); k.Kind != dataset.KindBlock {
		c.report.problem(key, "the commit record names it as a block, which its name is not")
		return nil
	}
	rows, body, err := openBlock(c.ctx, c.store, key, b)
	if errors.Is(err, objstore.ErrNotFound) {
		c.report.problem(key, "the commit record names it, and it is not there")
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	defer body.Close()
	var first, last string
	var n, raw int64
	for {
		row, err := rows.Next()
		if err == io.EOF {
			break
		}
		if errors.Is(err, block.ErrDamaged) {
			c.report.problem(key, "%v", err)
			return nil
		}
		if errors.Is(err, objstore.ErrNotFound) {
			c.report.problem(key, "the commit record names it, and it is not there")
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", key, err)
		}
		if n == 0 {
			first = row.ID
		}
		last = row.ID
		n++
		raw += int64(len(row.Raw)) + 1
		if err := c.checkRow(key, row); err != nil {
			return err
		}
	}
	if first != b.FirstID || last != b.LastID {
		c.report.problem(key, "its ids are %q to %q, the commit record says %q to %q", first, last, b.FirstID, b.LastID)
	}
	if raw != b.RawBytes {
		c.report.problem(key, "its rows have %d bytes, the commit record says %d", raw, b.RawBytes)
	}
	c.report.Rows += n
	c.report.Bytes += b.Bytes
	c.report.Blocks++
	return nil
}

func (c *checker) checkRow(key string, row dataset.Row) error {
	if name := reservedName(row, c.batch.Annotator != ""); name != "" {
		c.report.problem(key, "row %q has the reserved name %q", row.ID, name)
	}
	if c.digests == nil {
		return nil
	}
	d, err := dataset.DigestOf(row, c.head.Record.DeduplicateOn)
	if err != nil {
		c.report.problem(key, "%v", err)
		return nil
	}
	return c.digests.Add(d[:], []byte(row.ID))
}

// checkDigests compares the digest files with the digests of all rows.
func (c *checker) checkDigests() error {
	r := c.head.Record
	var rows int64
	for _, d := range r.Digests {
		rows += d.Rows
		if !slices.Equal(d.Columns, r.DeduplicateOn) {
			c.report.digests = true
			c.report.problem(c.batch.DigestKey(d.File), "it is on the columns %q, the batch is deduplicated on %q", d.Columns, r.DeduplicateOn)
			return nil
		}
	}
	if c.digests == nil {
		return nil
	}
	if rows != r.Rows {
		c.report.digests = true
		c.report.problem(c.batch.CommitKey(), "there are %d digests for %d rows", rows, r.Rows)
	}
	of, err := c.digests.Sort()
	if err != nil {
		return err
	}
	files, err := openAllDigests(c.ctx, c.store, r)
	if err == nil {
		defer files.close()
		err = c.compareDigests(of, files)
	}
	if fault, is := errors.AsType[*faultyFile](err); is {
		c.report.digests = true
		if errors.Is(fault.err, objstore.ErrNotFound) {
			c.report.problem(fault.key, "the commit record names it, and it is not there")
		} else {
			c.report.problem(fault.key, "%v", fault.err)
		}
		return nil
	}
	return err
}

func (c *checker) compareDigests(rows block.Stream[block.Record], files block.Stream[dataset.Digest]) error {
	want, err := newCursor(rows)
	if err != nil {
		return err
	}
	var last dataset.Digest
	var lastID string
	missing, extra := int64(0), int64(0)
	for n := 0; ; n++ {
		has, err := files.Next()
		if err != nil && err != io.EOF {
			return err
		}
		for want.ok && (err == io.EOF || compareDigests(dataset.Digest(want.rec.Key), has) <= 0) {
			d, id := dataset.Digest(want.rec.Key), string(want.rec.Payload)
			if d == last && lastID != "" {
				c.report.problem(c.batch.CommitKey(), "the rows %q and %q are duplicates of each other", lastID, id)
			}
			if err == io.EOF || d != has {
				missing++
			}
			last, lastID = d, id
			if err := want.advance(); err != nil {
				return err
			}
		}
		if err == io.EOF {
			break
		}
		if lastID == "" || last != has {
			extra++
		}
	}
	if missing > 0 || extra > 0 {
		c.report.digests = true
		c.report.problem(c.batch.DigestDir(), "the digests of %d rows are missing, and %d belong to no row", missing, extra)
	}
	return nil
}
