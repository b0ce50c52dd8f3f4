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

// DecodeRun reads records as they lie in a run, without the framing around them.
func DecodeRun(data []byte, records int64, longest uint64) (out []Record, err error) {
	r := &runReader{
		run: run{records: records, maxKey: longest, maxPayload: longest},
		in:  bytes.NewReader(data), left: records, file: io.NopCloser(nil),
	}
	for {
		h, err := r.Next()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		rec := Record{Key: bytes.Clone(h.key)}
		if len(out)%2 == 0 { // every other payload is passed over, as in a merge that stops
			if rec.Payload, err = r.payload(nil); err != nil {
				return out, err
			}
		}
		out = append(out, rec)
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
