package query

import (
	"context"
	"fmt"
	"io"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/objstore"
)

const (
	// maxWhole is how many blocks are read as one long response each. With
	// more open at once, most of them stand still for long, and a store cuts a
	// response that nobody reads; those are read piece by piece.
	maxWhole   = 16
	pieceBytes = 64 << 10
)

// openObject opens a block of the size that its record says.
func openObject(ctx context.Context, s objstore.Store, key string, size int64, whole bool) (io.ReadCloser, error) {
	span := objstore.Span{}
	if !whole {
		span.Length = pieceBytes
	}
	body, info, err := s.Get(ctx, key, span)
	if err != nil {
		return nil, err
	}
	if info.Size != size {
		body.Close()
		return nil, fmt.Errorf("%w: it has %d bytes, the commit record says %d", block.ErrDamaged, info.Size, size)
	}
	if whole {
		return body, nil
	}
	p := &pieces{ctx: ctx, store: s, key: key, etag: info.ETag, size: size}
	if err := p.keep(body); err != nil {
		return nil, err
	}
	return p, nil
}

// pieces reads an object with one ranged get after the other, all of one
// version, and holds no connection between them.
type pieces struct {
	ctx   context.Context
	store objstore.Store
	key   string
	etag  string
	size  int64
	at    int64 // bytes of the object that were fetched
	buf   []byte
	rest  []byte // of buf, not read yet
}

// Read gives the next bytes.
func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		if p.at == p.size {
			return 0, io.EOF
		}
		body, _, err := p.store.Get(p.ctx, p.key, objstore.Span{Offset: p.at, Length: pieceBytes, ETag: p.etag})
		if err != nil {
			return 0, err
		}
		if err := p.keep(body); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// keep reads one response whole.
func (p *pieces) keep(body io.ReadCloser) error {
	defer body.Close()
	want := min(pieceBytes, p.size-p.at)
	if p.buf == nil {
		p.buf = make([]byte, want)
	}
	if _, err := io.ReadFull(body, p.buf[:want]); err != nil {
		return fmt.Errorf("read bytes %d to %d: %w", p.at, p.at+want, err)
	}
	p.rest = p.buf[:want]
	p.at += want
	return nil
}

// Close holds nothing.
func (p *pieces) Close() error { return nil }
