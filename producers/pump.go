package producers

import (
	"context"
	"io"
)

// pump reads a stream that may stand still for ever, such as a terminal or a
// pipe, so that waiting for it ends with ctx. Its goroutine ends with ctx too,
// or where it stands in a read, when that returns.
type pump struct {
	ctx    context.Context
	pieces chan piece
	rest   []byte
	err    error
}

type piece struct {
	b   []byte
	err error
}

func newPump(ctx context.Context, r io.Reader) *pump {
	p := &pump{ctx: ctx, pieces: make(chan piece)}
	go func() {
		// Two buffers are enough: whoever asks for the next piece is done with
		// the one before.
		bufs := [2][]byte{make([]byte, 64<<10), make([]byte, 64<<10)}
		for i := 0; ; i++ {
			b := bufs[i%2]
			n, err := r.Read(b)
			select {
			case p.pieces <- piece{b[:n], err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return p
}

func (p *pump) Read(b []byte) (int, error) {
	if len(p.rest) == 0 && p.err == nil {
		select {
		case got := <-p.pieces:
			p.rest, p.err = got.b, got.err
		case <-p.ctx.Done():
			p.err = context.Cause(p.ctx)
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	if len(p.rest) == 0 {
		return n, p.err
	}
	return n, nil
}

// meter counts what is read of a file and ends with ctx.
type meter struct {
	ctx  context.Context
	r    io.Reader
	at   io.ReaderAt
	read func(n int64)
}

func (m *meter) Read(b []byte) (int, error) {
	if m.ctx.Err() != nil {
		return 0, context.Cause(m.ctx)
	}
	n, err := m.r.Read(b)
	m.read(int64(n))
	return n, err
}

func (m *meter) ReadAt(b []byte, off int64) (int, error) {
	if m.ctx.Err() != nil {
		return 0, context.Cause(m.ctx)
	}
	n, err := m.at.ReadAt(b, off)
	m.read(int64(n))
	return n, err
}
