package merger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
)

// intake takes the lines of all sources and brings them into order.
type intake struct {
	layer   bool
	columns []string // in force; none without deduplication
	blocks  []catalog.Block

	rows    *block.Sorter // by row key: the line
	ranks   *block.Sorter // by rank key: the digest; only with deduplication
	rejects *rejects
	news    []Load // by slot

	key, payload []byte
}

// add takes a line of a source.
func (in *intake) add(src source, index uint32, l block.Line) error {
	row, reason := in.check(src, l)
	if reason != "" {
		return in.rejects.add(index, uint64(l.Number), l.Offset, reason, l.Raw)
	}
	p := place{class: src.class, created: row.CreatedAt, source: index, line: uint64(l.Number)}
	if len(in.columns) > 0 {
		d, err := dataset.DigestOf(row, in.columns)
		if err != nil {
			return in.rejects.add(index, uint64(l.Number), l.Offset, err.Error(), l.Raw)
		}
		in.key = appendRankKey(in.key[:0], row.ID, p)
		if err := in.ranks.Add(in.key, d[:]); err != nil {
			return fmt.Errorf("sort rows: %w", err)
		}
	}
	in.key = appendRowKey(in.key[:0], row.ID, p)
	in.payload = appendLine(in.payload[:0], l.Offset, row.Raw)
	if err := in.rows.Add(in.key, in.payload); err != nil {
		return fmt.Errorf("sort rows: %w", err)
	}
	if cap(in.payload) > 4<<20 {
		in.payload = nil // a huge row does not cost memory for ever
	}
	slot := slotOf(in.blocks, row.ID)
	in.news[slot] = in.news[slot].plus(Load{1, int64(len(row.Raw)) + 1})
	return nil
}

// check gives the row of a line, with an id, or the reason why it is none.
func (in *intake) check(src source, l block.Line) (dataset.Row, string) {
	if l.Reject != "" {
		return dataset.Row{}, l.Reject
	}
	if name := reservedName(l.Row, in.layer); name != "" {
		return dataset.Row{}, fmt.Sprintf("the name %q is reserved; rename that column (for example %q)", name, strings.TrimLeft(name, "_"))
	}
	row := l.Row
	if row.ID == "" {
		row = row.WithID(dataset.DerivedID(src.key, l.Number))
		if len(row.Raw) > dataset.MaxLineBytes {
			return dataset.Row{}, fmt.Sprintf("longer than %d MiB with the id that it needs", dataset.MaxLineBytes>>20)
		}
	}
	return row, ""
}

var (
	batchName  = []byte(dataset.BatchColumn)
	siltPrefix = []byte(dataset.ReservedPrefix)
	anEscape   = []byte(`\u`)
)

// reservedName is the first name of a row that only siltstone may write; the
// rows of layers have a _batch.
func reservedName(r dataset.Row, layer bool) string {
	if !bytes.Contains(r.Raw, batchName) && !bytes.Contains(r.Raw, siltPrefix) && !bytes.Contains(r.Raw, anEscape) {
		return "" // as nearly always; an escape may hide a name
	}
	for name := range r.Fields() {
		if name == dataset.BatchColumn && !layer || strings.HasPrefix(name, dataset.ReservedPrefix) {
			return name
		}
	}
	return ""
}

// appendLine makes the payload of a row: its offset in the source, and the row.
func appendLine(dst []byte, offset int64, raw []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(offset)), raw...)
}

var errPayload = errors.New("sorted rows are damaged")

func cutLine(payload []byte) (offset int64, raw []byte, err error) {
	n, size := binary.Uvarint(payload)
	if size <= 0 {
		return 0, nil, errPayload
	}
	return int64(n), payload[size:], nil
}
