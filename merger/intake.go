package merger

import (
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

	rows    *block.Sorter // by row key and suffix: the line
	rejects *rejects
	news    []Load // by slot
	hands   []*hand
}

// hand takes the lines of one source after the other. Each is for one
// goroutine; what comes out does not depend on which of them took a line.
type hand struct {
	in      *intake
	scanner *dataset.Scanner
	lane    *block.Lane
	news    []Load
	key     []byte
}

// open makes the hands of an intake.
func (in *intake) open(n int) {
	in.news = make([]Load, 2*len(in.blocks)+1)
	for _, lane := range in.rows.Lanes(n) {
		in.hands = append(in.hands, &hand{
			in: in, scanner: dataset.NewScanner(in.columns), lane: lane, news: make([]Load, len(in.news)),
		})
	}
}

// done sums up what the hands have taken.
func (in *intake) done() {
	for _, h := range in.hands {
		for slot, load := range h.news {
			in.news[slot] = in.news[slot].plus(load)
		}
	}
}

// The key of a row has a suffix, so that what is decided about rows is decided
// without a look at the lines: the digest, where rows are deduplicated, and
// the offset of the line in its source.
const offsetLen = 8

func suffixLen(columns []string) int {
	if len(columns) == 0 {
		return offsetLen
	}
	return int(digestLen) + offsetLen
}

// take takes all lines of a source.
func (h *hand) take(src source, index uint32, b body) error {
	if src.class != classNew {
		return adoptLines(src, b.reader(), h.addAnew(src, index))
	}
	return allLines(src, b.lines().ScanWith(h.scanner), func(l block.Line) error { return h.add(src, index, l) })
}

// addAnew takes lines that the scanner has not read yet.
func (h *hand) addAnew(src source, index uint32) func(block.Line) error {
	return func(l block.Line) error {
		if l = src.ownRow(l, h.in.layer); l.Reject == "" {
			if _, err := h.scanner.Scan(l.Row.Raw); err != nil { // for what else it says
				l.Reject = err.Error()
			}
		}
		return h.add(src, index, l)
	}
}

// add takes a line of a source that the scanner has read.
func (h *hand) add(src source, index uint32, l block.Line) error {
	row, reason := h.check(src, l)
	if reason != "" {
		return h.in.rejects.add(index, uint64(l.Number), l.Offset, reason, l.Raw)
	}
	p := place{class: src.class, created: row.CreatedAt, source: index, line: uint64(l.Number)}
	h.key = appendRowKey(h.key[:0], row.ID, p)
	if len(h.in.columns) > 0 {
		d, err := h.scanner.Digest()
		if err != nil {
			return h.in.rejects.add(index, uint64(l.Number), l.Offset, err.Error(), l.Raw)
		}
		h.key = append(h.key, d[:]...)
	}
	h.key = binary.BigEndian.AppendUint64(h.key, uint64(l.Offset))
	if err := h.lane.Add(h.key, row.Raw); err != nil {
		return fmt.Errorf("sort rows: %w", err)
	}
	slot := slotOf(h.in.blocks, row.ID)
	h.news[slot] = h.news[slot].plus(Load{1, int64(len(row.Raw)) + 1})
	return nil
}

// check gives the row of a line that the scanner has read, with an id, or the
// reason why it is none.
func (h *hand) check(src source, l block.Line) (dataset.Row, string) {
	if l.Reject != "" {
		return dataset.Row{}, l.Reject
	}
	return checkRow(src, l, h.scanner.Reserved(h.in.layer), h.scanner.WithID)
}

// check is the check of a line that no scanner of ours has read.
func (in *intake) check(src source, l block.Line) (dataset.Row, string) {
	if l.Reject != "" {
		return dataset.Row{}, l.Reject
	}
	l = src.ownRow(l, in.layer)
	return checkRow(src, l, reservedName(l.Row, in.layer), dataset.Row.WithID)
}

func checkRow(src source, l block.Line, reserved string, withID func(dataset.Row, string) dataset.Row) (dataset.Row, string) {
	if reserved != "" {
		return dataset.Row{}, fmt.Sprintf("the name %q is reserved; rename that column (for example %q)", reserved, strings.TrimLeft(reserved, "_"))
	}
	row := l.Row
	if row.ID == "" {
		row = withID(row, dataset.DerivedID(src.key, l.Number))
		if len(row.Raw) > dataset.MaxLineBytes {
			return dataset.Row{}, fmt.Sprintf("longer than %d MiB with the id that it needs", dataset.MaxLineBytes>>20)
		}
	}
	return row, ""
}

var errPayload = errors.New("sorted rows are damaged")

// cutSuffix takes the key of a sorted row apart.
func cutSuffix(key []byte, columns []string) (row []byte, d dataset.Digest, offset int64, err error) {
	n := len(key) - suffixLen(columns)
	if n < headLen+tailLen {
		return nil, d, 0, errPayload
	}
	copy(d[:], key[n:len(key)-offsetLen])
	return key[:n:n], d, int64(binary.BigEndian.Uint64(key[len(key)-offsetLen:])), nil
}

func (in *intake) close() {
	_ = in.rows.Close()
	_ = in.rejects.sorter.Close()
}
