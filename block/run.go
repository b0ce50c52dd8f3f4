package block

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
	"os"
)

// A spillFile holds the runs of a sorter one after the other, each in two
// areas: the payloads, then the keys, so that the keys are read without them.
//
//	key area   for each record: length of the key and of the payload as
//	           varints, CRC32C of the payload, the key, CRC32C of all that
//
// Both lie in the order of the keys. The sums are there because a disk that
// gives back other bytes must be noticed. Nothing is compressed: at the speed
// of a merge that costs more than it saves.
type spillFile struct {
	dir  string
	path string
	file *os.File
	size int64
}

var errRun = errors.New("spill file is damaged")

const sumBytes = 4

// createTemp is a variable so that tests can fill the disk.
var createTemp = os.CreateTemp

func (f *spillFile) create() error {
	if f.file != nil {
		return nil
	}
	file, err := createTemp(f.dir, "sort-*.run")
	if err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	f.file, f.path = file, file.Name()
	return nil
}

// reserve makes room for a run.
func (f *spillFile) reserve(size runSize) (run, error) {
	if err := f.create(); err != nil {
		return run{}, err
	}
	r := run{payloads: f.size, keys: f.size + size.payloads, records: size.records, maxKey: size.maxKey}
	r.end = r.keys + size.keys
	f.size = r.end
	return r, nil
}

// whole compares the length of the file with what was written.
func (f *spillFile) whole() error {
	if f.file == nil {
		return nil
	}
	info, err := f.file.Stat()
	if err != nil {
		return fmt.Errorf("read spill: %w", err)
	}
	if info.Size() != f.size {
		return f.broken(fmt.Errorf("it has %d bytes, %d were written", info.Size(), f.size))
	}
	return nil
}

func (f *spillFile) broken(err error) error {
	return fmt.Errorf("%w: %s: %w", errRun, f.path, err)
}

func (f *spillFile) remove() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	if rerr := os.Remove(f.path); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	f.file = nil
	return err
}

// run is where the records of one filling of an arena lie.
type run struct {
	payloads, keys, end int64 // offsets
	records             int64
	maxKey              int
}

// runSize is what a run takes.
type runSize struct {
	payloads, keys, records int64
	maxKey                  int
}

func (s *runSize) add(key, payload int) {
	s.records++
	s.payloads += int64(payload)
	s.keys += int64(uvarintLen(key) + uvarintLen(payload) + key + 2*sumBytes)
	s.maxKey = max(s.maxKey, key)
}

func uvarintLen(n int) int { return (bits.Len64(uint64(n)|1) + 6) / 7 }

// runWriter fills the areas of a run.
type runWriter struct {
	run
	payloadArea, keyArea areaWriter
}

func newRunWriter(file *os.File, r run) *runWriter {
	return &runWriter{run: r, payloadArea: areaOf(file, r.payloads, r.keys), keyArea: areaOf(file, r.keys, r.end)}
}

func (w *runWriter) add(key, payload []byte) {
	w.keyArea.addKey(key, len(payload), crc32.Checksum(payload, castagnoli))
	w.payloadArea.add(payload)
}

func (w *runWriter) close() error {
	if err := errors.Join(w.payloadArea.flush(), w.keyArea.flush()); err != nil {
		return err
	}
	if w.payloadArea.at != w.keys || w.keyArea.at != w.end {
		return fmt.Errorf("%w: a run has another length than its records", errRun)
	}
	return nil
}

// areaWriter writes a part of a file from an offset on. It keeps its first
// error for flush.
type areaWriter struct {
	file *os.File
	at   int64
	buf  []byte
	err  error
}

const areaBuffer = 256 << 10

// areaOf writes what lies from one offset to another.
func areaOf(file *os.File, from, to int64) areaWriter {
	return areaWriter{file: file, at: from, buf: make([]byte, 0, min(to-from, areaBuffer))}
}

func (w *areaWriter) add(b []byte) {
	if len(b) >= areaBuffer {
		w.write()
		w.put(b)
		return
	}
	w.room(len(b))
	w.buf = append(w.buf, b...)
}

// addKey adds a record of a key area.
func (w *areaWriter) addKey(key []byte, payload int, sum uint32) {
	w.room(2*binary.MaxVarintLen64 + len(key) + 2*sumBytes)
	w.sealed(len(w.buf), key, payload, sum)
}

// addHead adds a record of an order file: that of a key area behind the number
// of its run or lane.
func (w *areaWriter) addHead(h recordHead) {
	w.room(3*binary.MaxVarintLen64 + len(h.key) + 2*sumBytes)
	start := len(w.buf)
	w.buf = binary.AppendUvarint(w.buf, uint64(h.from))
	w.sealed(start, h.key, h.size, h.sum)
}

func (w *areaWriter) sealed(start int, key []byte, payload int, sum uint32) {
	w.buf = binary.AppendUvarint(w.buf, uint64(len(key)))
	w.buf = binary.AppendUvarint(w.buf, uint64(payload))
	w.buf = binary.LittleEndian.AppendUint32(w.buf, sum)
	w.buf = append(w.buf, key...)
	w.buf = binary.LittleEndian.AppendUint32(w.buf, crc32.Checksum(w.buf[start:], castagnoli))
}

func (w *areaWriter) room(n int) {
	if len(w.buf)+n > areaBuffer {
		w.write()
	}
}

func (w *areaWriter) write() {
	w.put(w.buf)
	w.buf = w.buf[:0]
}

func (w *areaWriter) put(b []byte) {
	if w.err != nil || len(b) == 0 {
		return
	}
	if _, err := w.file.WriteAt(b, w.at); err != nil {
		w.err = fmt.Errorf("spill: %w", err)
		return
	}
	w.at += int64(len(b))
}

func (w *areaWriter) flush() error {
	w.write()
	return w.err
}
