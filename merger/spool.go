package merger

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/siltstone-data/siltstone/block"
)

// spool is a file of records that is written once and read once, in order:
// lengths of key and payload as varints, then both.
type spool struct {
	file *os.File
	w    *bufio.Writer
	r    *bufio.Reader
	rec  block.Record
}

const spoolBuffer = 256 << 10

func newSpool(dir string) (*spool, error) {
	f, err := os.CreateTemp(dir, "spool-*")
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	return &spool{file: f, w: bufio.NewWriterSize(f, spoolBuffer)}, nil
}

func (s *spool) add(key, payload []byte) error {
	var head [2 * binary.MaxVarintLen64]byte
	b := binary.AppendUvarint(head[:0], uint64(len(key)))
	b = binary.AppendUvarint(b, uint64(len(payload)))
	for _, part := range [][]byte{b, key, payload} {
		if _, err := s.w.Write(part); err != nil {
			return fmt.Errorf("spool: %w", err)
		}
	}
	return nil
}

// rewind ends writing: Next gives the records.
func (s *spool) rewind() error {
	if err := s.w.Flush(); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	s.r = bufio.NewReaderSize(s.file, spoolBuffer)
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
		return block.Record{}, fmt.Errorf("read spool: %w", errors.Join(io.ErrUnexpectedEOF, err))
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
	_, err := io.ReadFull(s.r, buf[:n])
	return buf[:n], err
}

func (s *spool) close() {
	_ = s.file.Close()
	_ = os.Remove(s.file.Name())
}
