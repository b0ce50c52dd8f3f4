package merger

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/siltstone-data/siltstone/block"
)

// Reject is a line of a file under _rejected/: a line of a chunk that was not
// merged, and why.
type Reject struct {
	Line   uint64 `json:"line"`   // from 1
	Offset int64  `json:"offset"` // byte in the chunk
	Reason string `json:"reason"`
	// Raw is the line; RawBase64 instead where it is no UTF-8, and neither
	// where it is too long to keep.
	Raw       *string `json:"raw,omitempty"`
	RawBase64 []byte  `json:"raw_base64,omitempty"`
}

// reasonConflict names no other row: what is kept about a line must not depend
// on what else an attempt has seen.
const reasonConflict = "id conflict: another row of the batch has this id and other content"

// rejects collects the lines that are not merged, by source and line. All hands
// of an intake add to it.
type rejects struct {
	mu     sync.Mutex
	sorter *block.Sorter
	buf    []byte
}

func (r *rejects) add(source uint32, line uint64, offset int64, reason string, raw []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := place{source: source, line: line}.appendTail(make([]byte, 0, tailLen))
	r.buf = binary.AppendUvarint(r.buf[:0], uint64(offset))
	r.buf = binary.AppendUvarint(r.buf, uint64(len(reason)))
	r.buf = append(r.buf, reason...)
	if raw != nil {
		r.buf = append(append(r.buf, 1), raw...)
	}
	err := r.sorter.Add(key, r.buf)
	if cap(r.buf) > 4<<20 {
		r.buf = nil
	}
	if err != nil {
		return fmt.Errorf("sort rejected lines: %w", err)
	}
	return nil
}

func parseReject(rec block.Record) (source uint32, r Reject, err error) {
	source = binary.BigEndian.Uint32(rec.Key)
	r.Line = binary.BigEndian.Uint64(rec.Key[4:])
	offset, n := binary.Uvarint(rec.Payload)
	rest := rec.Payload[max(n, 0):]
	size, m := binary.Uvarint(rest)
	if n <= 0 || m <= 0 || size > uint64(len(rest)-m) {
		return 0, Reject{}, errPayload
	}
	r.Offset = int64(offset)
	r.Reason = string(rest[m : m+int(size)])
	switch rest = rest[m+int(size):]; {
	case len(rest) == 0:
	case utf8.Valid(rest[1:]):
		raw := string(rest[1:])
		r.Raw = &raw
	default:
		r.RawBase64 = rest[1:]
	}
	return source, r, nil
}

// files makes the files of all sources that have rejected lines, one after the
// other, and hands each to store, which closes it.
func (r *rejects) files(dir string, store func(source uint32, file *scratch) error) error {
	recs, err := r.sorter.Sort()
	if err != nil {
		return fmt.Errorf("sort rejected lines: %w", err)
	}
	next, err := newCursor(recs)
	for err == nil && next.ok {
		source := binary.BigEndian.Uint32(next.rec.Key)
		file := newScratch(dir)
		if err = writeRejected(file, source, next); err != nil {
			file.close()
			break
		}
		if err := store(source, file); err != nil {
			return err
		}
	}
	if err != nil {
		return fmt.Errorf("write rejected lines: %w", err)
	}
	return nil
}

// writeRejected writes the lines of one source, and leaves the cursor at the
// next one.
func writeRejected(file *scratch, source uint32, next *cursor) error {
	out := json.NewEncoder(file)
	out.SetEscapeHTML(false)
	for next.ok {
		of, reject, err := parseReject(next.rec)
		if err != nil || of != source {
			return err
		}
		if err := out.Encode(reject); err != nil {
			return err
		}
		if err := next.advance(); err != nil {
			return err
		}
	}
	return nil
}
