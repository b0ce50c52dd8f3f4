package block

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"github.com/siltstone-data/siltstone/dataset"
)

// spoolBytes is what a spool holds in memory before it goes to a file.
const spoolBytes = 16 << 20

// rowSpool holds rows that are written once and then read once.
type rowSpool struct {
	dir  string
	mem  bytes.Buffer
	file *os.File
	out  *bufio.Writer
	head []byte
}

func (s *rowSpool) add(r dataset.Row) error {
	s.head = binary.AppendUvarint(s.head[:0], uint64(len(r.ID)))
	s.head = append(s.head, r.ID...)
	s.head = binary.AppendUvarint(s.head, uint64(len(r.Raw)))
	if s.file == nil && s.mem.Len()+len(s.head)+len(r.Raw) > spoolBytes {
		if err := s.spill(); err != nil {
			return err
		}
	}
	if s.file == nil {
		s.mem.Write(s.head)
		s.mem.Write(r.Raw)
		return nil
	}
	if _, err := s.out.Write(s.head); err != nil {
		return fmt.Errorf("spool rows: %w", err)
	}
	if _, err := s.out.Write(r.Raw); err != nil {
		return fmt.Errorf("spool rows: %w", err)
	}
	return nil
}

func (s *rowSpool) spill() error {
	f, err := createTemp(s.dir, "rows-*")
	if err != nil {
		return fmt.Errorf("spool rows: %w", err)
	}
	s.file, s.out = f, bufio.NewWriterSize(f, 256<<10)
	if _, err := s.out.Write(s.mem.Bytes()); err != nil {
		return fmt.Errorf("spool rows: %w", err)
	}
	s.mem = bytes.Buffer{}
	return nil
}

// each reads the rows back. fn may keep what raw it is given.
func (s *rowSpool) each(fn func(id string, raw []byte) error) error {
	var in *bufio.Reader
	if s.file == nil {
		in = bufio.NewReader(&s.mem)
	} else {
		if err := s.out.Flush(); err != nil {
			return fmt.Errorf("spool rows: %w", err)
		}
		if _, err := s.file.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("spool rows: %w", err)
		}
		in = bufio.NewReaderSize(s.file, 256<<10)
	}
	var arena []byte
	read := func() ([]byte, error) {
		n, err := binary.ReadUvarint(in)
		if err != nil {
			return nil, err
		}
		if n > dataset.MaxLineBytes {
			return nil, fmt.Errorf("a record of %d bytes", n)
		}
		if len(arena)+int(n) > cap(arena) { // what was given before stays where it is
			arena = make([]byte, 0, max(256<<10, int(n)))
		}
		from := len(arena)
		arena = arena[:from+int(n)]
		b := arena[from : from+int(n) : from+int(n)]
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, io.ErrUnexpectedEOF
		}
		return b, nil
	}
	for {
		id, err := read()
		if err == io.EOF {
			return nil
		}
		var raw []byte
		if err == nil {
			raw, err = read()
		}
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("read spooled rows: %w", err)
		}
		if err := fn(string(id), raw); err != nil {
			return err
		}
	}
}

func (s *rowSpool) close() {
	s.mem = bytes.Buffer{}
	if s.file != nil {
		_ = s.file.Close() // only read, or given up
		_ = os.Remove(s.file.Name())
		s.file = nil
	}
}
