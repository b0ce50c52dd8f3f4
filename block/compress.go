package block

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// Compressors are goroutines that compress the frames of writers. A frame is
// compressed by itself, so the bytes of a block do not depend on their number.
type Compressors struct {
	level int
	ahead int // frames that a writer may have under way
	jobs  chan *frame
	free  chan *frame // empty ones, to be used again
	wg    sync.WaitGroup
}

// NewCompressors starts n goroutines that compress with a gzip level, and end
// with Close.
func NewCompressors(n, level int) (*Compressors, error) {
	if _, err := gzip.NewWriterLevel(io.Discard, level); err != nil {
		return nil, fmt.Errorf("write block: %w", err)
	}
	c := &Compressors{level: level, ahead: 2*n + 1}
	c.jobs = make(chan *frame, c.ahead)
	c.free = make(chan *frame, c.ahead+1)
	for range n {
		zip, _ := gzip.NewWriterLevel(io.Discard, level) // the level is valid
		c.wg.Go(func() {
			for f := range c.jobs {
				f.compress(zip)
				close(f.done)
			}
		})
	}
	return c, nil
}

// Close waits for the goroutines. No writer may be in use any more.
func (c *Compressors) Close() {
	close(c.jobs)
	c.wg.Wait()
}

// NewWriter writes a block to w as NewWriter does, with these goroutines; w is
// written to by the caller of the writer alone.
func (c *Compressors) NewWriter(w io.Writer) *Writer {
	bw := NewWriter(w, c.level)
	bw.pool, bw.zip = c, nil
	return bw
}

// frame is a part of a block on its way: raw, and compressed once it is done.
type frame struct {
	raw  []byte
	zip  bytes.Buffer
	rows int64
	from string // its first id
	err  error
	done chan struct{}
}

// compress makes one member without name, comment or time.
func (f *frame) compress(zip *gzip.Writer) {
	f.zip.Reset()
	zip.Reset(&f.zip)
	_, f.err = zip.Write(f.raw)
	if err := zip.Close(); f.err == nil {
		f.err = err
	}
}

// reset empties a frame for another use; a huge one does not cost memory for
// ever.
func (f *frame) reset() {
	if f.raw = f.raw[:0]; cap(f.raw) > hugeFrame {
		f.raw = nil
	}
	if f.zip.Reset(); f.zip.Cap() > hugeFrame {
		f.zip = bytes.Buffer{}
	}
	f.rows, f.from, f.err, f.done = 0, "", nil, nil
}

const hugeFrame = 1 << 20

// take gives an empty frame.
func (c *Compressors) take() *frame {
	select {
	case f := <-c.free:
		return f
	default:
		return &frame{}
	}
}

// give takes a frame back.
func (c *Compressors) give(f *frame) {
	f.reset()
	select {
	case c.free <- f:
	default:
	}
}
