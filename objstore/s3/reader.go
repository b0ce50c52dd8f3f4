package s3

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/siltstone-data/siltstone/objstore"
)

// reader reads the body of a GET and survives its cuts. It exists because
//   - a connection that ends cleanly in the middle looks like the end of the
//     object, so bytes are counted against what was promised;
//   - servers close connections that a slow consumer leaves idle, so reading goes
//     on with a new request from the next byte, for the same version only.
type reader struct {
	s    *Store
	ctx  context.Context //nolint:containedctx // a reader is the scope of its request
	key  string
	etag string

	part  *part // nil between a cut and the next request
	at    int64 // next byte of the object
	end   int64 // first byte that is not wanted
	fails int   // cuts since a byte last came
	err   error
}

// Read fills p from one version of the object.
func (r *reader) Read(p []byte) (int, error) {
	switch {
	case r.err != nil:
		return 0, r.err
	case r.at == r.end:
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	}
	for {
		if r.part == nil {
			if r.err = r.resume(); r.err != nil {
				return 0, r.err
			}
		}
		n, err := r.readPart(p[:min(int64(len(p)), r.end-r.at)])
		r.at += int64(n)
		if n > 0 {
			r.fails = 0
		}
		if err != nil {
			r.part.close()
			r.part = nil
			if r.at < r.end && n == 0 {
				if r.err = r.cut(err); r.err != nil {
					return 0, r.err
				}
			}
		}
		if n > 0 {
			return n, nil
		}
		if r.at == r.end {
			return 0, io.EOF
		}
	}
}

func (r *reader) readPart(p []byte) (int, error) {
	r.part.a.touch()
	n, err := r.part.body.Read(p)
	r.part.a.rest()
	return n, err
}

// cut takes notice of a body that ended before its time.
func (r *reader) cut(err error) error {
	if r.ctx.Err() != nil {
		return fmt.Errorf("read %q at byte %d: %w", r.key, r.at, context.Cause(r.ctx))
	}
	if r.fails++; r.fails >= r.s.cfg.Retry.Attempts {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("read %q: cut at byte %d of %d, %d times: %w", r.key, r.at, r.end, r.fails, errors.Join(io.ErrUnexpectedEOF, err))
	}
	return sleep(r.ctx, r.s.cfg.Retry.Base<<min(r.fails, 5))
}

// resume asks for the rest of the same version.
func (r *reader) resume() error {
	p, err := r.s.open(r.ctx, r.key, objstore.Span{Offset: r.at, Length: r.end - r.at, ETag: r.etag})
	if err != nil {
		err = readOutcome(err)
		if errors.Is(err, objstore.ErrNotFound) { // it was there when the reader was opened
			err = fmt.Errorf("%w: it was deleted", objstore.ErrChanged)
		}
		return fmt.Errorf("read %q from byte %d: %w", r.key, r.at, err)
	}
	if p.info.ETag != r.etag { // a store that ignores If-Match
		p.close()
		return fmt.Errorf("read %q from byte %d: %w", r.key, r.at, objstore.ErrChanged)
	}
	r.part = p
	return nil
}

// Close gives the connection back, or ends it when the body was not read out.
func (r *reader) Close() error {
	if r.part != nil {
		r.part.close()
		r.part = nil
	}
	if r.err == nil {
		r.err = errors.New("read of a closed object")
	}
	return nil
}
