package merger

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// adoption is what lies in a batch whose manifest.yaml is another tool's: the
// merged files there hold its rows, in whatever order and with or without ids.
// The first commit writes them anew.
type adoption struct {
	files []numbered
	next  int // past every number seen
}

func findAdoption(ctx context.Context, s objstore.Store, b dataset.BatchID) (adoption, error) {
	found, err := listNumbered(ctx, s, b)
	if err != nil {
		return adoption{}, err
	}
	var a adoption
	for _, f := range found {
		a.next = max(a.next, f.Number+1)
		if f.Kind != dataset.KindDigest {
			a.files = append(a.files, f)
		}
	}
	return a, nil
}

func (a adoption) sources() []source {
	var out []source
	for _, f := range a.files {
		out = append(out, mergedSource(f))
	}
	return out
}

// garbage is what the adopting commit says of the files.
func (a adoption) garbage(since time.Time) []catalog.Garbage {
	var out []catalog.Garbage
	for _, f := range a.files {
		out = append(out, catalog.Garbage{File: f.path(), Since: since.UTC()})
	}
	return out
}

// adopt gives the lines of a merged file to fn. Damage of such a file is an
// error: nobody else has its rows.
func adopt(dir string, s source, body io.Reader, fn func(block.Line) error) error {
	if !strings.HasSuffix(s.name, ".parquet") {
		in, err := block.Open(body)
		if err != nil {
			return fmt.Errorf("read %s: %w", s.key, err)
		}
		defer in.Close()
		return eachLine(s, in, fn)
	}
	f, err := os.CreateTemp(dir, "adopt-*")
	if err != nil {
		return fmt.Errorf("read %s: %w", s.key, err)
	}
	defer func() { _ = f.Close(); _ = os.Remove(f.Name()) }()
	size, err := io.Copy(f, body)
	if err != nil {
		return fmt.Errorf("read %s: %w", s.key, err)
	}
	number := 0
	for raw, err := range block.ParquetLines(f, size) {
		if err != nil {
			return fmt.Errorf("read %s: %w", s.key, err)
		}
		number++
		line := block.Line{Number: number, Raw: raw}
		if line.Row, err = dataset.ParseRow(raw); err != nil {
			line.Reject = err.Error()
		}
		if err := fn(line); err != nil {
			return err
		}
	}
	return nil
}

// eachLine gives the lines of a source.
func eachLine(s source, in io.Reader, fn func(block.Line) error) error {
	lines := block.NewLines(in)
	for {
		l, err := lines.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", s.key, err)
		}
		if err := fn(l); err != nil {
			return err
		}
	}
}
