package block

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"

	"github.com/siltstone-data/siltstone/dataset"
)

// frameBytes is how many raw bytes close a frame.
const frameBytes = 128 << 10

// Info is what a commit record and an index say about a block.
type Info struct {
	Rows, Bytes, RawBytes int64
	FirstID, LastID       string
	SHA256                string // of the file's bytes, in hex
	Frames                []Frame
}

// Frame is where the rows of a frame lie in a block. A block without rows has
// no frames.
type Frame struct {
	Offset, Length, Rows int64
	FirstID              string
}

// ErrOrder is returned for a row whose id does not come after the one before.
var ErrOrder = errors.New("ids do not ascend")

// Writer writes a block. The same rows and level give the same bytes.
type Writer struct {
	out  *sink
	zip  *gzip.Writer // of frames that this goroutine compresses
	pool *Compressors // nil: it compresses all
	open *frame       // being filled
	sent []*frame     // to the pool, in order
	info Info
	err  error
}

// NewWriter writes a block to w with a gzip level (1 to 9, or -1 for the
// default).
func NewWriter(w io.Writer, level int) *Writer {
	bw := &Writer{out: &sink{w: w, sum: sha256.New()}}
	bw.zip, bw.err = gzip.NewWriterLevel(bw.out, level)
	return bw
}

// Add writes a row. Ids must ascend strictly. It keeps nothing of r.
func (w *Writer) Add(r dataset.Row) error {
	switch {
	case w.err != nil:
		return w.err
	case r.ID == "":
		return errors.New("write block: a row without an id")
	case len(r.Raw) > dataset.MaxLineBytes:
		return fmt.Errorf("write block: row %q is longer than %d MiB", r.ID, dataset.MaxLineBytes>>20)
	case len(r.Raw) == 0 || bytes.IndexByte(r.Raw, '\n') >= 0:
		return fmt.Errorf("write block: row %q is not one line", r.ID)
	case w.info.Rows > 0 && r.ID <= w.info.LastID:
		return fmt.Errorf("write block: %w: %q after %q", ErrOrder, r.ID, w.info.LastID)
	}
	if w.info.Rows == 0 {
		w.info.FirstID = r.ID
	}
	f := w.frame()
	if f.rows == 0 {
		f.from = r.ID
	}
	w.info.LastID = r.ID
	w.info.Rows++
	f.rows++
	if need := len(f.raw) + len(r.Raw) + 1; need > cap(f.raw) {
		// Exactly what a huge row needs, not twice as much.
		f.raw = append(make([]byte, 0, max(need, frameBytes+16<<10)), f.raw...)
	}
	f.raw = append(append(f.raw, r.Raw...), '\n')
	if len(f.raw) >= frameBytes {
		w.err = w.flush()
	}
	return w.err
}

// frame is the open one.
func (w *Writer) frame() *frame {
	switch {
	case w.open != nil:
	case w.pool != nil:
		w.open = w.pool.take()
	default:
		w.open = &frame{}
	}
	return w.open
}

// flush ends the open frame. Frames are written in order, whoever compresses
// them. A huge one goes straight to the file: memory holds it once, not twice.
func (w *Writer) flush() error {
	f := w.frame()
	if w.pool == nil || len(f.raw) > hugeFrame {
		if err := w.drain(); err != nil {
			return err
		}
		return w.direct(f)
	}
	w.open = nil
	f.done = make(chan struct{})
	w.sent = append(w.sent, f)
	w.pool.jobs <- f
	if len(w.sent) < w.pool.ahead {
		return nil
	}
	return w.writeNext()
}

// direct compresses a frame into the file.
func (w *Writer) direct(f *frame) error {
	if w.zip == nil {
		w.zip, _ = gzip.NewWriterLevel(w.out, w.pool.level) // the level is valid
	}
	at := w.out.n
	w.zip.Reset(w.out)
	_, err := w.zip.Write(f.raw)
	if cerr := w.zip.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write block: %w", err)
	}
	w.wrote(f, at)
	f.reset()
	return nil
}

// drain writes the frames that were sent.
func (w *Writer) drain() error {
	for len(w.sent) > 0 {
		if err := w.writeNext(); err != nil {
			return err
		}
	}
	return nil
}

// writeNext writes the frame that was sent first.
func (w *Writer) writeNext() error {
	f := w.sent[0]
	w.sent = append(w.sent[:0], w.sent[1:]...)
	<-f.done
	at := w.out.n
	err := f.err
	if err == nil {
		_, err = w.out.Write(f.zip.Bytes())
	}
	if err != nil {
		return fmt.Errorf("write block: %w", err)
	}
	w.wrote(f, at)
	w.pool.give(f)
	return nil
}

// wrote notes a frame that lies at an offset.
func (w *Writer) wrote(f *frame, at int64) {
	if f.rows > 0 {
		w.info.Frames = append(w.info.Frames, Frame{Offset: at, Length: w.out.n - at, Rows: f.rows, FirstID: f.from})
	}
	w.info.RawBytes += int64(len(f.raw))
}

var errClosed = errors.New("write block: it is closed")

// Close ends the block and says what it holds. A block without rows is one
// empty member, never an empty file. It does not close the underlying writer.
func (w *Writer) Close() (Info, error) {
	if w.err == nil && (w.frame().rows > 0 || w.info.Rows == 0) {
		w.err = w.flush()
	}
	if w.err == nil {
		w.err = w.drain()
	}
	if w.err != nil {
		return Info{}, w.err
	}
	w.err = errClosed
	w.info.Bytes = w.out.n
	w.info.SHA256 = hex.EncodeToString(w.out.sum.Sum(nil))
	return w.info, nil
}
