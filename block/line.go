package block

import (
	"bytes"
	"fmt"
	"io"

	"github.com/siltstone-data/siltstone/dataset"
)

// Line is one non-blank line of an NDJSON file. Row and Raw are valid until the
// next call to Next.
type Line struct {
	Number int         // from 1
	Offset int64       // of its first byte in the file
	Row    dataset.Row // its ID is empty where the line has none
	Raw    []byte      // the line without its line end; nil when it is too long to hold
	Reject string      // not empty: this is no row, and why
}

// Lines reads a file of rows. A line that is no row is handed out with the
// reason, and the rest of the file goes on.
type Lines struct {
	s     lineScanner
	parse func(line []byte) (dataset.Row, error)
}

// NewLines reads r, which is not compressed (see Open).
func NewLines(r io.Reader) *Lines {
	return &Lines{s: lineScanner{r: r}, parse: dataset.ParseRow}
}

// NewLinesOf reads a file that is in memory. It copies nothing: rows stay valid
// as long as the file does.
func NewLinesOf(file []byte) *Lines {
	return &Lines{s: lineScanner{buf: file, end: len(file), eof: true}, parse: dataset.ParseRow}
}

// ScanWith lets a scanner of the caller read the lines, which then can say more
// about the one given last.
func (l *Lines) ScanWith(s *dataset.Scanner) *Lines {
	l.parse = s.Scan
	return l
}

// Next gives the next line that is not blank, and io.EOF at the end. A byte
// order mark at the start, \r before \n and a missing last \n are tolerated. On
// an error of the underlying reader the line it broke is not handed out.
func (l *Lines) Next() (Line, error) {
	for {
		raw, long, err := l.s.next()
		if err != nil {
			return Line{}, err
		}
		line := Line{Number: l.s.number, Offset: l.s.at, Raw: raw}
		if long {
			line.Raw = nil
			line.Reject = fmt.Sprintf("longer than %d MiB", dataset.MaxLineBytes>>20)
			return line, nil
		}
		if isBlank(raw) {
			continue
		}
		if line.Row, err = l.parse(raw); err != nil {
			line.Reject = err.Error()
		}
		return line, nil
	}
}

func isBlank(line []byte) bool {
	for _, c := range line {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}

var byteOrderMark = []byte("\xEF\xBB\xBF")

// lineScanner cuts a stream into lines of at most dataset.MaxLineBytes. A
// bufio.Scanner would stop for good at the first line that is too long.
type lineScanner struct {
	r io.Reader

	buf        []byte
	start, end int   // unread bytes are buf[start:end]
	offset     int64 // of buf[start] in the stream
	eof        bool
	err        error

	number int   // of the line given last
	at     int64 // its offset
	hadCR  bool  // whether it ended in \r\n
}

const firstBuffer = 64 << 10

// next gives a line without its line end, or long where there is no room for
// it. It returns io.EOF, or the reader's error, when there is no more.
func (s *lineScanner) next() (line []byte, long bool, err error) {
	seen := 0
	for {
		if i := bytes.IndexByte(s.buf[s.start+seen:s.end], '\n'); i >= 0 {
			line, long = s.take(seen+i, 1)
			return line, long, nil
		}
		seen = s.end - s.start
		if s.eof && seen > 0 {
			line, long = s.take(seen, 0)
			return line, long, nil
		}
		if s.eof || s.err != nil {
			if s.err == nil {
				s.err = io.EOF
			}
			return nil, false, s.err
		}
		if seen > dataset.MaxLineBytes+len(byteOrderMark)+1 {
			return nil, true, s.skip()
		}
		s.fill()
	}
}

// take gives the next n bytes as a line and passes its line end as well.
func (s *lineScanner) take(n, end int) (line []byte, long bool) {
	line = s.buf[s.start : s.start+n : s.start+n]
	s.begin()
	if s.number == 1 {
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	s.hadCR = end > 0 && bytes.HasSuffix(line, []byte{'\r'})
	if s.hadCR {
		line = line[:len(line)-1]
	}
	s.start += n + end
	s.offset += int64(n + end)
	return line, len(line) > dataset.MaxLineBytes
}

func (s *lineScanner) begin() {
	s.number++
	s.at = s.offset
}

// skip drops the rest of a line that is too long.
func (s *lineScanner) skip() error {
	s.begin()
	for {
		i := bytes.IndexByte(s.buf[s.start:s.end], '\n')
		if i >= 0 {
			s.start += i + 1
			s.offset += int64(i + 1)
			return nil
		}
		s.offset += int64(s.end - s.start)
		s.start, s.end = 0, 0
		if s.eof {
			return nil
		}
		if s.err != nil {
			return s.err
		}
		s.fill()
	}
}

// fill reads more bytes, making room first.
func (s *lineScanner) fill() {
	if s.start > 0 {
		s.end = copy(s.buf, s.buf[s.start:s.end])
		s.start = 0
	}
	if s.end == len(s.buf) {
		grown := make([]byte, min(max(2*len(s.buf), firstBuffer), dataset.MaxLineBytes+firstBuffer))
		copy(grown, s.buf[:s.end])
		s.buf = grown
	}
	for range 100 {
		n, err := s.r.Read(s.buf[s.end:])
		s.end += n
		switch {
		case err == io.EOF:
			s.eof = true
			return
		case err != nil:
			s.err = err
			return
		case n > 0:
			return
		}
	}
	s.err = io.ErrNoProgress
}
