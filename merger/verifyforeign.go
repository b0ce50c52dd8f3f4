package merger

import (
	"errors"
	"fmt"
	"io"
	"syscall"

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
	body, _, err := c.store.Get(c.ctx, s.key, s.span())
	if errors.Is(err, objstore.ErrNotFound) || errors.Is(err, objstore.ErrChanged) {
		return nil // adopted or written again meanwhile
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", s.key, err)
	}
	defer body.Close()
	if s.size == 0 {
		c.report.problem(s.key, "it is empty")
		return nil
	}
	in := intake{layer: c.batch.Annotator != ""}
	rows, bad, first := int64(0), int64(0), ""
	from := &remembering{r: body}
	err = adopt(c.dir, s, from, func(l block.Line) error {
		if _, reason := in.check(s, l); reason == "" {
			rows++
		} else if bad++; first == "" {
			first = fmt.Sprintf("line %d: %s", l.Number, reason)
		}
		return c.ctx.Err()
	})
	switch {
	case err != nil && (from.err != nil || c.ctx.Err() != nil || errors.As(err, new(syscall.Errno))):
		return err // the store's or this machine's fault
	case err != nil:
		c.report.problem(s.key, "no merge can adopt it: %v", err)
		return nil
	case bad > 0:
		c.report.problem(s.key, "lines that are no rows: %d; %s", bad, first)
	}
	c.report.Rows += rows
	c.report.Bytes += s.size
	c.report.Blocks++
	return nil
}

// remembering keeps the error of a reader, to tell a body that cannot be had
// from one that is damaged. One that ends too soon is damaged.
type remembering struct {
	r   io.Reader
	err error
}

func (m *remembering) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		m.err = err
	}
	return n, err
}
