package block

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// recordHead is a record of which only the key is at hand.
type recordHead struct {
	key  []byte
	from int // index of its run; the number of runs and more: of its lane
	size int // of the payload
	sum  uint32
}

// keyReader reads the keys of a run, or of all runs in order.
type keyReader struct {
	of      *spillFile
	win     window
	from    int // index of the run; -1: each record says it
	left    int64
	maxKey  int
	unknown bool // left is not known: the file ends with its last record
}

func newKeyReader(f *spillFile, r run, index int, size int64) *keyReader {
	k := &keyReader{of: f, from: index, left: r.records, maxKey: r.maxKey}
	k.win = window{file: f.file, at: r.keys, end: r.end, size: int(min(max(size, 1<<10), 64<<10))}
	return k
}

func newOrderReader(f *spillFile, size int64) *keyReader {
	k := &keyReader{of: f, from: -1, unknown: true, maxKey: 1 << 30}
	k.win = window{file: f.file, end: f.size, size: int(min(max(size, 1<<10), 256<<10))}
	return k
}

var errLength = errors.New("a length that cannot be")

// Next gives the next key; it is a Stream for Merge.
func (k *keyReader) Next() (recordHead, error) {
	if k.win.empty() {
		if k.left > 0 && !k.unknown {
			return recordHead{}, k.of.broken(io.ErrUnexpectedEOF)
		}
		return recordHead{}, io.EOF
	}
	h, err := k.read()
	if err != nil {
		return recordHead{}, k.of.broken(err)
	}
	k.left--
	return h, nil
}

func (k *keyReader) read() (recordHead, error) {
	b, err := k.win.peek(3 * binary.MaxVarintLen32)
	if err != nil {
		return recordHead{}, err
	}
	h := recordHead{from: k.from}
	at := 0
	length := func() int {
		n, size := binary.Uvarint(b[at:])
		if size <= 0 || n > 1<<31 {
			err = errLength
			return 0
		}
		at += size
		return int(n)
	}
	if k.from < 0 {
		h.from = length()
	}
	keyLen := length()
	h.size = length()
	if err == nil && keyLen > k.maxKey {
		err = errLength
	}
	if err != nil {
		return recordHead{}, err
	}
	n := at + sumBytes + keyLen
	if b, err = k.win.take(n + sumBytes); err != nil {
		return recordHead{}, err
	}
	if crc32.Checksum(b[:n], castagnoli) != binary.LittleEndian.Uint32(b[n:]) {
		return recordHead{}, errors.New("the sum of a key is wrong")
	}
	h.sum = binary.LittleEndian.Uint32(b[at:])
	h.key = b[at+sumBytes : n : n]
	return h, nil
}

// arenaHeads gives the keys of an arena that is sorted.
type arenaHeads struct {
	mem  *arena
	from int
	i    int
}

func (a *arenaHeads) Next() (recordHead, error) {
	if a.i == len(a.mem.entries) {
		return recordHead{}, io.EOF
	}
	e := a.mem.entries[a.i]
	a.i++
	return recordHead{key: a.mem.key(e), from: a.from, size: int(e.payLength)}, nil
}
