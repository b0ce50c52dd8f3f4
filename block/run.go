package block

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/s2"
)

// run is a file of sorted records: for each the lengths of key and payload as
// varints, then both. The s2 framing around it carries checksums, so a disk
// that gives back other bytes is noticed.
type run struct {
	path               string
	records, bytes     int64
	maxKey, maxPayload uint64
}

const runBlock = 64 << 10 // memory per open run is about twice that

var errRun = errors.New("spill file is damaged")

// createTemp is a variable so that tests can fill the disk.
var createTemp = os.CreateTemp

// runWriter writes a run.
type runWriter struct {
	run
	file *os.File
	zip  *s2.Writer
	head []byte
}

func createRun(dir string) (*runWriter, error) {
	f, err := createTemp(dir, "sort-*.run")
	if err != nil {
		return nil, fmt.Errorf("spill: %w", err)
	}
	w := &runWriter{run: run{path: f.Name()}, file: f}
	w.zip = s2.NewWriter(f, s2.WriterBlockSize(runBlock), s2.WriterConcurrency(1))
	return w, nil
}

func (w *runWriter) add(key, payload []byte) error {
	w.head = binary.AppendUvarint(w.head[:0], uint64(len(key)))
	w.head = binary.AppendUvarint(w.head, uint64(len(payload)))
	for _, b := range [][]byte{w.head, key, payload} {
		if _, err := w.zip.Write(b); err != nil {
			return fmt.Errorf("spill: %w", err)
		}
	}
	w.records++
	w.bytes += int64(len(key) + len(payload))
	w.maxKey = max(w.maxKey, uint64(len(key)))
	w.maxPayload = max(w.maxPayload, uint64(len(payload)))
	return nil
}

// close ends the run; after an error of add or of its own the file is removed.
func (w *runWriter) close(err error) (run, error) {
	if cerr := w.zip.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("spill: %w", cerr)
	}
	if cerr := w.file.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("spill: %w", cerr)
	}
	if err != nil {
		_ = os.Remove(w.path)
	}
	return w.run, err
}

// runReader reads a run. It reads a payload only when asked for, so that many
// open runs of large records hold one payload, not one each.
type runReader struct {
	run
	file    io.Closer
	in      byteReader
	left    int64  // records
	pending uint64 // payload bytes not read yet
	keyBuf  []byte
}

type byteReader interface {
	io.Reader
	io.ByteReader
}

func openRun(r run) (*runReader, error) {
	f, err := os.Open(r.path)
	if err != nil {
		return nil, fmt.Errorf("read spill: %w", err)
	}
	zr := s2.NewReader(f, s2.ReaderMaxBlockSize(runBlock), s2.ReaderAllocBlock(runBlock))
	return &runReader{run: r, file: f, in: zr, left: r.records}, nil
}

// runHead is a record of which only the key is read.
type runHead struct {
	key []byte
	run *runReader
}

// Next gives the next key; it is a Stream for Merge.
func (r *runReader) Next() (runHead, error) {
	if r.pending > 0 {
		if _, err := io.CopyN(io.Discard, r.in, int64(r.pending)); err != nil {
			return runHead{}, r.broken(err)
		}
		r.pending = 0
	}
	if r.left == 0 {
		if _, err := r.in.ReadByte(); err != io.EOF {
			return runHead{}, r.broken(errors.New("it goes on after its last record"))
		}
		return runHead{}, io.EOF
	}
	keyLen, err := r.length(r.maxKey)
	if err != nil {
		return runHead{}, err
	}
	if r.pending, err = r.length(r.maxPayload); err != nil {
		return runHead{}, err
	}
	if uint64(cap(r.keyBuf)) < keyLen {
		r.keyBuf = make([]byte, keyLen)
	}
	r.keyBuf = r.keyBuf[:keyLen]
	if _, err := io.ReadFull(r.in, r.keyBuf); err != nil {
		return runHead{}, r.broken(err)
	}
	r.left--
	return runHead{r.keyBuf, r}, nil
}

func (r *runReader) length(most uint64) (uint64, error) {
	n, err := binary.ReadUvarint(r.in)
	if err != nil {
		return 0, r.broken(err)
	}
	if n > most {
		return 0, r.broken(fmt.Errorf("a length of %d", n))
	}
	return n, nil
}

// payload reads the payload of the record given last into buf.
func (r *runReader) payload(buf []byte) ([]byte, error) {
	if uint64(cap(buf)) < r.pending {
		buf = make([]byte, r.pending)
	}
	buf = buf[:r.pending]
	if _, err := io.ReadFull(r.in, buf); err != nil {
		return nil, r.broken(err)
	}
	r.pending = 0
	return buf, nil
}

func (r *runReader) broken(err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %s: %w", errRun, r.path, err)
}

func compareHeads(a, b runHead) int { return bytes.Compare(a.key, b.key) }
