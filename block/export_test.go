package block

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
)

// CreateRunsWith lets a test choose where runs are written.
func CreateRunsWith(create func(dir, pattern string) (*os.File, error)) (restore func()) {
	before := createTemp
	createTemp = create
	return func() { createTemp = before }
}

// EncodeKeys writes keys as they lie in a run.
func EncodeKeys(keys ...string) []byte {
	w := areaWriter{buf: []byte{}}
	for i, k := range keys {
		w.sealed(len(w.buf), []byte(k), i, 0)
	}
	return w.buf
}

// DecodeKeys reads keys as they lie in a run.
func DecodeKeys(data []byte, records int64, longest int) (keys []string, err error) {
	in := bytes.NewReader(data)
	r := newKeyReader(&spillFile{}, run{end: int64(len(data)), records: records, maxKey: longest}, 0, 1)
	r.win.file = in
	for {
		h, err := r.Next()
		if err == io.EOF {
			return keys, nil
		}
		if err != nil {
			return keys, err
		}
		keys = append(keys, string(h.key))
	}
}

// FixParquetFooter makes the checksum of a file's footer right, where there is
// room for one.
func FixParquetFooter(file []byte) {
	want, err := footerBytes(file, int64(len(file)))
	if err != nil {
		return
	}
	footer := file[int64(len(file))-want:]
	copy(footer, footerMark)
	binary.LittleEndian.PutUint32(footer[len(footerMark):], crc32.Checksum(footer[markBytes:len(footer)-tailBytes], castagnoli))
}
