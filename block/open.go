package block

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Open decompresses r if its first bytes are those of gzip or zstd, whatever
// the file is called, and otherwise gives it as it is. It reads every gzip
// member, and passes over zeros after the last one. A file that is cut off
// ends with io.ErrUnexpectedEOF. Close does not close r.
func Open(r io.Reader) (io.ReadCloser, error) {
	src := &source{r: r}
	br := bufio.NewReaderSize(src, 64<<10)
	head, _ := br.Peek(4) // a short file, or an error that the next read gives
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		m := newMembers(&source{r: br})
		return io.NopCloser(&located{what: "gzip", r: m, at: m.offset, src: src}), nil
	case isZstd(head):
		zr, err := zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, fmt.Errorf("open zstd: %w", err)
		}
		at := func() int64 { return src.n - int64(br.Buffered()) }
		return &zstdFile{located{what: "zstd", r: zr, at: at, src: src}, zr}, nil
	}
	return io.NopCloser(br), nil
}

func isZstd(head []byte) bool {
	if len(head) < 4 {
		return false
	}
	frame := bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd})
	skippable := head[0]&0xF0 == 0x50 && bytes.Equal(head[1:], []byte{0x2a, 0x4d, 0x18})
	return frame || skippable
}

type zstdFile struct {
	located
	zr *zstd.Decoder
}

func (z *zstdFile) Close() error {
	z.zr.Close()
	return nil
}

// located says at which compressed byte decompressing failed.
type located struct {
	what string
	r    io.Reader
	at   func() int64
	src  *source
}

func (l *located) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if err != nil && err != io.EOF {
		if l.src.err != nil {
			return n, l.src.err
		}
		err = fmt.Errorf("%s: %w (at compressed byte %d)", l.what, err, l.at())
	}
	return n, err
}
