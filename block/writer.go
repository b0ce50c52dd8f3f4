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
	zip  *gzip.Writer
	raw  []byte // of the open frame
	rows int64  // of the open frame
	from string // its first id
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
	if w.rows == 0 {
		w.from = r.ID
	}
	w.info.LastID = r.ID
	w.info.Rows++
	w.rows++
	w.raw = append(append(w.raw, r.Raw...), '\n')
	if len(w.raw) >= frameBytes {
		w.err = w.flush()
	}
	return w.err
}

// flush writes the open frame as one member without name, comment or time.
func (w *Writer) flush() error {
	at := w.out.n
	w.zip.Reset(w.out)
	if _, err := w.zip.Write(w.raw); err != nil {
		return fmt.Errorf("write block: %w", err)
	}
	if err := w.zip.Close(); err != nil {
		return fmt.Errorf("write block: %w", err)
	}
	if w.rows > 0 {
		w.info.Frames = append(w.info.Frames, Frame{Offset: at, Length: w.out.n - at, Rows: w.rows, FirstID: w.from})
	}
	w.info.RawBytes += int64(len(w.raw))
	if w.raw = w.raw[:0]; cap(w.raw) > 4<<20 {
		w.raw = nil // a huge row does not cost memory for ever
	}
	w.rows = 0
	return nil
}

var errClosed = errors.New("write block: it is closed")

// Close ends the block and says what it holds. A block without rows is one
// empty member, never an empty file. It does not close the underlying writer.
func (w *Writer) Close() (Info, error) {
	if w.err == nil && (w.rows > 0 || w.out.n == 0) {
		w.err = w.flush()
	}
	if w.err != nil {
		return Info{}, w.err
	}
	w.err = errClosed
	w.info.Bytes = w.out.n
	w.info.SHA256 = hex.EncodeToString(w.out.sum.Sum(nil))
	return w.info, nil
}
