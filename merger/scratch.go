package merger

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
)

// scratch holds bytes that are written once and then read: in memory while
// they are few, and in a file past that. Most merges are small, and the disk
// would be the slowest part of them.
type scratch struct {
	dir  string
	mem  bytes.Buffer
	file *os.File
	buf  *bufio.Writer
	size int64
}

const scratchBytes = 1 << 20

func newScratch(dir string) *scratch { return &scratch{dir: dir} }

// Write appends.
func (s *scratch) Write(p []byte) (int, error) {
	if s.file == nil && s.mem.Len()+len(p) > scratchBytes {
		if err := s.spill(); err != nil {
			return 0, err
		}
	}
	s.size += int64(len(p))
	if s.file == nil {
		return s.mem.Write(p)
	}
	return s.buf.Write(p)
}

func (s *scratch) spill() error {
	f, err := os.CreateTemp(s.dir, "scratch-*")
	if err != nil {
		return fmt.Errorf("make a scratch file: %w", err)
	}
	s.file, s.buf = f, bufio.NewWriterSize(f, 256<<10)
	if _, err := s.buf.Write(s.mem.Bytes()); err != nil {
		return fmt.Errorf("write a scratch file: %w", err)
	}
	s.mem = bytes.Buffer{}
	return nil
}

// reader ends writing and gives what was written. The scratch owns the reader.
func (s *scratch) reader() (io.ReadSeeker, error) {
	if s.file == nil {
		return bytes.NewReader(s.mem.Bytes()), nil
	}
	if err := s.buf.Flush(); err != nil {
		return nil, fmt.Errorf("write a scratch file: %w", err)
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read a scratch file: %w", err)
	}
	return s.file, nil
}

// close lets go of the bytes.
func (s *scratch) close() {
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name())
	}
}
