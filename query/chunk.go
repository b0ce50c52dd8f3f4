package query

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
)

// chunkRows gives the rows of a live chunk as a merge would take them: lines
// that are no rows, or use names of siltstone's own, are left out and told to
// rejected, and a line without an id gets the one that every reader gives it.
// A row is valid until the next one.
func chunkRows(in io.Reader, c catalog.Chunk, rejected func(Rejected)) iter.Seq2[dataset.Row, error] {
	return func(yield func(dataset.Row, error) bool) {
		key := c.Key()
		lines := block.NewLines(in)
		for {
			line, err := lines.Next()
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(dataset.Row{}, err)
				return
			}
			row, reason := rowOf(key, line, c.Batch.Annotator != "")
			if reason != "" {
				if rejected != nil {
					rejected(Rejected{Key: key, Line: line.Number, Reason: reason})
				}
				continue
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// rowOf gives the row of a line, with an id, or the reason why it is none. The
// rows of layers have a _batch.
func rowOf(key string, line block.Line, layer bool) (dataset.Row, string) {
	if line.Reject != "" {
		return dataset.Row{}, line.Reject
	}
	if name := reserved(line.Row, layer); name != "" {
		return dataset.Row{}, fmt.Sprintf("the name %q is reserved", name)
	}
	row := line.Row
	if row.ID == "" {
		row = row.WithID(dataset.DerivedID(key, line.Number))
		if len(row.Raw) > dataset.MaxLineBytes {
			return dataset.Row{}, fmt.Sprintf("longer than %d MiB with the id that it needs", dataset.MaxLineBytes>>20)
		}
	}
	return row, ""
}

// reserved is the first name of a row that only siltstone may write, or "".
func reserved(r dataset.Row, layer bool) string {
	// A name with an underscore first is written with one or with an escape;
	// without such bytes there is nothing to look for.
	if !bytes.Contains(r.Raw, []byte(`"_b`)) && !bytes.Contains(r.Raw, []byte(`"_s`)) &&
		!bytes.Contains(r.Raw, []byte(`"_\`)) && !bytes.Contains(r.Raw, []byte(`"\u005`)) {
		return ""
	}
	for name := range r.Fields() {
		if name == dataset.BatchColumn && !layer || strings.HasPrefix(name, dataset.ReservedPrefix) {
			return name
		}
	}
	return ""
}
