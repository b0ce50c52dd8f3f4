package merger

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
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

// rejects collects the lines that are not merged, by source and line.
type rejects struct {
	sorter *block.Sorter
	buf    []byte
}

func (r *rejects) add(source uint32, line uint64, offset int64, reason string, raw []byte) error {
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

// rejectFiles makes the files of all sources that have rejected lines, one
// after the other, and hands each to store, which removes it.
func (r *rejects) files(dir string, store func(source uint32, path string) error) error {
	recs, err := r.sorter.Sort()
	if err != nil {
		return fmt.Errorf("sort rejected lines: %w", err)
	}
	var f *rejectFile
	for {
		rec, err := recs.Next()
		if err != nil && err != io.EOF {
			if f != nil {
				f.discard()
			}
			return fmt.Errorf("sort rejected lines: %w", err)
		}
		if f != nil && (err == io.EOF || f.source != binary.BigEndian.Uint32(rec.Key)) {
			if err := f.close(); err != nil {
				return err
			}
			if err := store(f.source, f.file.Name()); err != nil {
				return err
			}
			f = nil
		}
		if err == io.EOF {
			return nil
		}
		source, reject, err := parseReject(rec)
		if err == nil && f == nil {
			f, err = newRejectFile(dir, source)
		}
		if err == nil {
			err = f.json.Encode(reject)
		}
		if err != nil {
			if f != nil {
				f.discard()
			}
			return fmt.Errorf("write rejected lines: %w", err)
		}
	}
}

// rejectFile is the file of one source while it is written.
type rejectFile struct {
	source uint32
	file   *os.File
	w      *bufio.Writer
	json   *json.Encoder
}

func newRejectFile(dir string, source uint32) (*rejectFile, error) {
	f, err := os.CreateTemp(dir, "rejected-*")
	if err != nil {
		return nil, err
	}
	r := &rejectFile{source: source, file: f, w: bufio.NewWriter(f)}
	r.json = json.NewEncoder(r.w)
	r.json.SetEscapeHTML(false)
	return r, nil
}

func (f *rejectFile) close() error {
	err := f.w.Flush()
	if cerr := f.file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = os.Remove(f.file.Name())
		return fmt.Errorf("write rejected lines: %w", err)
	}
	return nil
}

func (f *rejectFile) discard() {
	_ = f.file.Close()
	_ = os.Remove(f.file.Name())
}
