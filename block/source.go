package block

import (
	"hash"
	"io"
)

// source counts and sums up what is read, and remembers whether reading
// failed: an error of the network is not damage, and may be tried again.
type source struct {
	r   io.Reader
	sum hash.Hash // may be nil
	n   int64
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n += int64(n)
	if s.sum != nil {
		s.sum.Write(p[:n])
	}
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// sink is a source's counterpart for writing.
type sink struct {
	w   io.Writer
	sum hash.Hash
	n   int64
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.n += int64(n)
	s.sum.Write(p[:n])
	return n, err
}
