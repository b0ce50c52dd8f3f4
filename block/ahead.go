package block

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"

	"github.com/siltstone-data/siltstone/dataset"
)

// plainMember is how the members begin that a Writer makes. Compressed bytes that
// happen to look like it only end a piece early, which shows when the piece is
// decompressed.
var plainMember = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0}

const (
	aheadRead = 128 << 10
	// maxPiece is the longest member that is held to be decompressed beside
	// others; a file of other tools may be one member.
	maxPiece = 4 << 20
)

// ahead cuts a block into its members and decompresses and parses several at
// once, ahead of whoever reads the rows. It knows the plain case alone: whole
// rows, one behind the other. A member that is anything else is not judged here:
// it comes back as it was, and so does all that follows it.
type ahead struct {
	src    *source
	order  chan *piece // as they lie in the file
	jobs   chan *piece
	free   chan *piece
	stop   chan struct{}
	serial atomic.Bool // nobody wants rows any more: bytes will do
	wg     sync.WaitGroup
}

// piece is a part of a file: compressed, and as rows once it is done.
type piece struct {
	zip  []byte
	raw  bytes.Buffer
	rows []dataset.Row
	done chan struct{} // nil: nobody decompresses it
	odd  bool          // it is not plain
}

// newAhead starts to read; n goroutines decompress. It reads nothing after close,
// but close does not end a read that is under way.
func newAhead(src *source, n int) *ahead {
	most := 2*n + 1
	a := &ahead{
		src: src, order: make(chan *piece, most), jobs: make(chan *piece, most), free: make(chan *piece, most+2), stop: make(chan struct{}),
	}
	a.wg.Go(a.cut)
	for range n {
		a.wg.Go(func() {
			var w pieceReader
			for p := range a.jobs {
				p.odd = !w.read(p)
				close(p.done)
			}
		})
	}
	return a
}

// close ends the goroutines and waits for them.
func (a *ahead) close() {
	close(a.stop)
	a.wg.Wait()
}

// next gives the next piece, done, and nil after the last.
func (a *ahead) next() *piece {
	p := <-a.order
	if p != nil && p.done != nil {
		<-p.done
	}
	return p
}

// give takes a piece back.
func (a *ahead) give(p *piece) {
	if cap(p.zip) > hugeFrame || p.raw.Cap() > hugeFrame {
		return
	}
	select {
	case a.free <- p:
	default:
	}
}

// cut reads the file and hands out its pieces.
func (a *ahead) cut() {
	defer close(a.jobs)
	defer close(a.order)
	var held []byte // from the start of a piece on
	seen := 1       // no piece begins before
	for {
		from := len(held)
		held = append(held, make([]byte, aheadRead)...)
		n, err := io.ReadFull(a.src, held[from:])
		held = held[:from+n]
		for {
			at := bytes.Index(held[min(seen, len(held)):], plainMember)
			if at < 0 {
				break
			}
			at += seen
			if !a.send(held[:at], false) {
				return
			}
			held = append(held[:0], held[at:]...)
			seen = 1
		}
		seen = max(1, len(held)-len(plainMember)+1)
		if err != nil { // the end, or src knows why
			if len(held) > 0 {
				a.send(held, !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF))
			}
			return
		}
		if len(held) > maxPiece || a.serial.Load() {
			if !a.send(held, true) {
				return
			}
			a.serial.Store(true) // the rest of that member is no piece
			held, seen = held[:0], 1
		}
	}
}

// send hands out a piece, of which bytes will do if it is odd; false: it is not
// wanted.
func (a *ahead) send(zip []byte, odd bool) bool {
	var p *piece
	select {
	case p = <-a.free:
	default:
		p = &piece{}
	}
	p.zip, p.odd, p.done = append(p.zip[:0], zip...), odd || a.serial.Load(), nil
	if !p.odd {
		p.done = make(chan struct{})
		select {
		case a.jobs <- p:
		case <-a.stop:
			return false
		}
	}
	select {
	case a.order <- p:
		return true
	case <-a.stop:
		return false
	}
}

// rest reads the bytes of a piece and of all that follow it, as the file has them.
func (a *ahead) rest(p *piece) io.Reader {
	a.serial.Store(true)
	return &restOf{a: a, bytes: p.zip}
}

type restOf struct {
	a     *ahead
	bytes []byte
}

// Read gives the next bytes.
func (r *restOf) Read(b []byte) (int, error) {
	for len(r.bytes) == 0 {
		p := r.a.next()
		if p == nil {
			if err := r.a.src.err; err != nil {
				return 0, err
			}
			return 0, io.EOF
		}
		r.bytes = p.zip
	}
	n := copy(b, r.bytes)
	r.bytes = r.bytes[n:]
	return n, nil
}

// pieceReader makes rows of pieces.
type pieceReader struct {
	zip gzip.Reader
	in  bytes.Reader
}

// read decompresses a piece and parses its rows; false: it is not one member of
// whole rows.
func (w *pieceReader) read(p *piece) bool {
	p.raw.Reset()
	p.rows = p.rows[:0]
	w.in.Reset(p.zip)
	if err := w.zip.Reset(&w.in); err != nil {
		return false
	}
	w.zip.Multistream(false)
	if _, err := p.raw.ReadFrom(&w.zip); err != nil || w.in.Len() > 0 {
		return false
	}
	rest := p.raw.Bytes()
	for len(rest) > 0 {
		end := bytes.IndexByte(rest, '\n')
		if end <= 0 || rest[end-1] == '\r' {
			return false
		}
		row, err := dataset.ParseRow(rest[:end:end])
		if err != nil {
			return false
		}
		p.rows = append(p.rows, row)
		rest = rest[end+1:]
	}
	return true
}
