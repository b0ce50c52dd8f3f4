package block

import "io"

// window reads a part of a file through a buffer. What it gives is valid until
// the next call.
type window struct {
	file       io.ReaderAt
	at, end    int64 // of what is not in the buffer yet
	size       int   // of the buffer, where no record is larger
	buf        []byte
	start, has int // unread bytes are buf[start:has]
}

func (w *window) empty() bool { return w.start == w.has && w.at == w.end }

// peek gives the next n bytes, or as many as there are.
func (w *window) peek(n int) ([]byte, error) {
	if w.has-w.start < n && w.at < w.end {
		if err := w.fill(n); err != nil {
			return nil, err
		}
	}
	return w.buf[w.start:min(w.start+n, w.has)], nil
}

// take gives the next n bytes.
func (w *window) take(n int) ([]byte, error) {
	if int64(n) > int64(w.has-w.start)+w.end-w.at {
		return nil, io.ErrUnexpectedEOF
	}
	b, err := w.peek(n)
	if err != nil {
		return nil, err
	}
	w.start += len(b)
	return b[:len(b):len(b)], nil
}

// fill makes at least n bytes ready, if there are so many.
func (w *window) fill(n int) error {
	rest := w.buf[w.start:w.has]
	if need := max(n, w.size); len(w.buf) < need || len(w.buf) > 2*max(need, 1<<20) {
		// The first filling, or a record larger than all before; and a huge one
		// does not cost memory for ever.
		w.buf = make([]byte, need)
	}
	w.has = copy(w.buf, rest)
	w.start = 0
	more := w.buf[w.has:min(int64(len(w.buf)), int64(w.has)+w.end-w.at)]
	got, err := w.file.ReadAt(more, w.at)
	if got < len(more) {
		if err == io.EOF || err == nil {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	w.at += int64(got)
	w.has += got
	return nil
}
