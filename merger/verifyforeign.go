package merger

import (
	"errors"
	"fmt"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// checkForeign reads the merged files of another tool, which the first merge
// adopts: it stops at one that cannot be read, and leaves out lines that are no
// rows.
func (c *checker) checkForeign() error {
	files, err := listNumbered(c.ctx, c.store, c.batch)
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.Kind == dataset.KindDigest {
			continue
		}
		if err := c.checkMerged(mergedSource(f)); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) checkMerged(s source) error {
	if s.size == 0 {
		c.report.problem(s.key, "it is empty")
		return nil
	}
	in := intake{layer: c.batch.Annotator != ""}
	rows, bad, first := int64(0), int64(0), ""
	line := func(l block.Line) error {
		if _, reason := in.check(s, l); reason == "" {
			rows++
		} else if bad++; first == "" {
			first = fmt.Sprintf("line %d: %s", l.Number, reason)
		}
		return c.ctx.Err()
	}
	err := c.readMerged(s, line)
	var damaged *unadoptable
	switch {
	case errors.Is(err, objstore.ErrNotFound), errors.Is(err, objstore.ErrChanged):
		return nil // adopted or written again meanwhile
	case errors.As(err, &damaged):
		c.report.problem(s.key, "no merge can adopt it: %v", damaged.err)
		return nil
	case err != nil:
		return err
	case bad > 0:
		c.report.problem(s.key, "lines that are no rows: %d; %s", bad, first)
	}
	c.report.Rows += rows
	c.report.Bytes += s.size
	c.report.Blocks++
	return nil
}

func (c *checker) readMerged(s source, line func(block.Line) error) error {
	if s.isParquet() {
		return adoptParquet(c.ctx, c.store, c.dir, s, line, func(int64, int64) {})
	}
	body, _, err := c.store.Get(c.ctx, s.key, s.span())
	if err != nil {
		return fmt.Errorf("read %s: %w", s.key, err)
	}
	defer body.Close()
	return adoptLines(s, body, line)
}
