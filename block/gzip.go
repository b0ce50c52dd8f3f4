package block

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

var errJunk = errors.New("bytes after the last gzip member")

// members reads the members of a gzip file one after the other and knows where
// each starts. Zeros after the last one, which tape-minded tools leave, are
// passed over; anything else there is an error.
type members struct {
	br    *bufio.Reader
	src   *source
	zr    gzip.Reader
	open  bool
	count int
	raw   int64 // uncompressed bytes given so far
	end   int64 // offset after the last member that was read to its end

	note func(raw, offset int64) // called at the start of each member, if not nil
}

func newMembers(src *source) *members {
	return &members{src: src, br: bufio.NewReaderSize(src, 64<<10)}
}

// offset is the number of compressed bytes that members has used.
func (m *members) offset() int64 { return m.src.n - int64(m.br.Buffered()) }

// Read gives the contents of all members.
func (m *members) Read(p []byte) (int, error) {
	for {
		if !m.open {
			if err := m.next(); err != nil {
				return 0, err
			}
		}
		n, err := m.zr.Read(p)
		m.raw += int64(n)
		if err == io.EOF {
			m.open = false
			m.end = m.offset()
			if n == 0 {
				continue
			}
			err = nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// next opens the next member; io.EOF means that there is none.
func (m *members) next() error {
	head, err := m.br.Peek(2)
	switch {
	case len(head) == 0 && err == io.EOF && m.count > 0:
		return io.EOF
	case len(head) == 0 && err == io.EOF:
		return fmt.Errorf("an empty file is no gzip file: %w", io.ErrUnexpectedEOF)
	case len(head) == 0:
		return err
	case head[0] == 0 && m.count > 0:
		return m.zeros()
	case !bytes.HasPrefix([]byte{0x1f, 0x8b}, head) && m.count > 0:
		return errJunk
	}
	at := m.offset()
	if err := m.zr.Reset(m.br); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	m.zr.Multistream(false)
	m.open = true
	m.count++
	if m.note != nil {
		m.note(m.raw, at)
	}
	return nil
}

func (m *members) zeros() error {
	for {
		c, err := m.br.ReadByte()
		if err != nil {
			return err
		}
		if c != 0 {
			return errJunk
		}
	}
}
