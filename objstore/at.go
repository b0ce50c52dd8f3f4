package objstore

import (
	"context"
	"fmt"
	"io"
)

// At reads an object of a known size at any place, all of one version. It is
// the scope of one reading, and not for several goroutines: io.ReaderAt has no
// place for a context. What it cannot read is an error of the store; an object
// of another size ends with io.EOF at once.
type At struct {
	ctx    context.Context
	store  Store
	key    string
	size   int64
	stream bool

	etag string
	body io.ReadCloser // of a stream
	next int64         // where it stands
	err  error
}

// NewAt reads the object with one request for each piece. With stream, what is
// read from one end to the other comes from one long response; a store cuts one
// that nobody reads, so that is not for readers that stand still.
func NewAt(ctx context.Context, s Store, key string, size int64, stream bool) *At {
	return &At{ctx: ctx, store: s, key: key, size: size, stream: stream}
}

// ReadAt reads at an offset.
func (a *At) ReadAt(p []byte, at int64) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	if at < 0 || at >= a.size {
		return 0, io.EOF
	}
	n := min(int64(len(p)), a.size-at)
	if n == 0 {
		return 0, nil
	}
	if err := a.fill(p[:n], at); err != nil {
		a.Close()
		a.err = err
		return 0, err
	}
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

func (a *At) fill(p []byte, at int64) error {
	n := int64(len(p))
	if a.body == nil || a.next != at {
		a.Close()
		span := Span{Offset: at, Length: n, ETag: a.etag}
		if a.stream && at+n < a.size {
			span.Length = 0
		}
		body, info, err := a.store.Get(a.ctx, a.key, span)
		if err != nil {
			return fmt.Errorf("read at %d: %w", at, err)
		}
		a.body, a.next, a.etag = body, at, info.ETag
		if info.Size != a.size {
			return fmt.Errorf("it has %d bytes, not %d: %w", info.Size, a.size, io.EOF)
		}
	}
	if _, err := io.ReadFull(a.body, p); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("read %d bytes at %d: %w", n, at, err)
	}
	a.next += n
	if !a.stream || a.next == a.size {
		a.Close()
	}
	return nil
}

// Close lets go of a stream.
func (a *At) Close() error {
	if a.body == nil {
		return nil
	}
	body := a.body
	a.body = nil
	return body.Close()
}
