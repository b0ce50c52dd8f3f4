package merger

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/siltstone-data/siltstone/block"
)

// spool holds records that are written once and read once, in order: lengths
// of key and payload as varints, then both.
type spool struct {
	bytes *scratch
	r     *bufio.Reader
	rec   block.Record
	head  []byte
}

func newSpool(dir string) *spool { return &spool{bytes: newScratch(dir)} }

func (s *spool) add(key, payload []byte) error {
	s.head = binary.AppendUvarint(s.head[:0], uint64(len(key)))
	s.head = binary.AppendUvarint(s.head, uint64(len(payload)))
	for _, part := range [][]byte{s.head, key, payload} {
		if _, err := s.bytes.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// rewind ends writing: Next gives the records.
func (s *spool) rewind() error {
	r, err := s.bytes.reader()
	if err != nil {
		return err
	}
	s.r = bufio.NewReaderSize(r, 64<<10)
	return nil
}

// Next gives the next record, valid until the next call.
func (s *spool) Next() (block.Record, error) {
	keyLen, err := binary.ReadUvarint(s.r)
	if err == io.EOF {
		return block.Record{}, io.EOF
	}
	var payLen uint64
	if err == nil {
		payLen, err = binary.ReadUvarint(s.r)
	}
	if err == nil {
		s.rec.Key, err = s.read(s.rec.Key, keyLen)
	}
	if err == nil {
		s.rec.Payload, err = s.read(s.rec.Payload, payLen)
	}
	if err != nil {
		return block.Record{}, fmt.Errorf("read spooled rows: %w", err)
	}
	return s.rec, nil
}

func (s *spool) read(buf []byte, n uint64) ([]byte, error) {
	if n > 1<<20 {
		return buf, fmt.Errorf("a record of %d bytes", n) // keys and digests are small
	}
	if uint64(cap(buf)) < n {
		buf = make([]byte, n)
	}
	if _, err := io.ReadFull(s.r, buf[:n]); err != nil {
		return buf, fmt.Errorf("cut short: %w", err)
	}
	return buf[:n], nil
}

func (s *spool) close() { s.bytes.close() }
