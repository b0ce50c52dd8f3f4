package objstore

import (
	"fmt"
	"io"
)

// Of is the half-open byte range that the span selects in an object of the
// given size. A span that reaches past the end stops there; one that starts past
// the last byte is an error, unless it asks for all of an empty object.
func (s Span) Of(size int64) (from, to int64, err error) {
	if err := s.Check(); err != nil {
		return 0, 0, err
	}
	if s.Offset > 0 && s.Offset >= size {
		return 0, 0, fmt.Errorf("range from byte %d of an object of %d bytes", s.Offset, size)
	}
	if s.Length == 0 || s.Length > size-s.Offset {
		return s.Offset, size, nil
	}
	return s.Offset, s.Offset + s.Length, nil
}

// Check refuses a span that selects nothing in any object.
func (s Span) Check() error {
	if s.Offset < 0 || s.Length < 0 {
		return fmt.Errorf("range from byte %d, %d bytes long", s.Offset, s.Length)
	}
	return nil
}

// ReadExactly reads the size bytes that r was said to hold, from its start, and
// fails when it holds any other number.
func ReadExactly(r io.ReadSeeker, size int64) ([]byte, error) {
	if err := SizeIs(r, size); err != nil {
		return nil, err
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, fmt.Errorf("read %d bytes: %w", size, err)
	}
	return body, nil
}

// SizeIs checks that r holds exactly size bytes and leaves it at its start.
func SizeIs(r io.Seeker, size int64) error {
	end, err := r.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("find the end: %w", err)
	}
	if end != size {
		return fmt.Errorf("it holds %d bytes, not %d", end, size)
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("go to the start: %w", err)
	}
	return nil
}
