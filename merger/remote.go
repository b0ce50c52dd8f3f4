package merger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/siltstone-data/siltstone/objstore"
)

// remoteFile gives the bytes of one version of an object at any place, as a
// parquet reader asks for them. Such a reader goes to and fro between the
// columns of a row group in small steps, each of which would be a request; so
// the row group that it is about to read is fetched to disk at once, in one.
type remoteFile struct {
	ctx    context.Context
	store  objstore.Store
	source source
	dir    string

	window   *os.File // of the bytes from from up to to
	from, to int64
	tail     []byte // of the file: its footer
	err      error  // of the store or the disk, not of what the file holds
}

// tailBytes hold the footer of nearly every file.
const tailBytes = 256 << 10

// ReadAt reads from the window, the tail, or the store.
func (f *remoteFile) ReadAt(p []byte, off int64) (int, error) {
	end := off + int64(len(p))
	switch {
	case len(p) == 0:
		return 0, nil
	case off < 0:
		return 0, fmt.Errorf("it is too short: %d bytes", f.source.size)
	case f.window != nil && off >= f.from && end <= f.to:
		n, err := f.window.ReadAt(p, off-f.from)
		return n, f.note(err)
	case off >= f.source.size:
		return 0, io.EOF
	}
	at := max(f.source.size-tailBytes, 0)
	if off < at {
		want := min(end, f.source.size) - off
		n, err := f.fetch(p[:want], off)
		if err == nil && int64(len(p)) > want {
			err = io.EOF
		}
		return n, err
	}
	if f.tail == nil {
		tail := make([]byte, f.source.size-at)
		if _, err := f.fetch(tail, at); err != nil {
			return 0, err
		}
		f.tail = tail
	}
	n := copy(p, f.tail[off-at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *remoteFile) fetch(p []byte, off int64) (int, error) {
	body, err := f.open(off, int64(len(p)))
	if err != nil {
		return 0, err
	}
	defer body.Close()
	n, err := io.ReadFull(body, p)
	return n, f.note(err)
}

func (f *remoteFile) open(off, length int64) (io.ReadCloser, error) {
	body, info, err := f.store.Get(f.ctx, f.source.key, objstore.Span{Offset: off, Length: length, ETag: f.source.etag})
	if err == nil && info.Size != f.source.size {
		_ = body.Close()
		err = fmt.Errorf("%w: it has %d bytes, the listing said %d", objstore.ErrChanged, info.Size, f.source.size)
	}
	return body, f.note(err)
}

// Window fetches the bytes from from up to to, which are read next.
func (f *remoteFile) Window(from, to int64) (err error) {
	if from < 0 || to > f.source.size || from >= to {
		return fmt.Errorf("damaged file: a row group lies at bytes %d to %d of %d", from, to, f.source.size)
	}
	if f.window == nil {
		if f.window, err = os.CreateTemp(f.dir, "rowgroup-*"); err != nil {
			return f.note(err)
		}
	}
	f.from, f.to = 0, 0
	if err := f.window.Truncate(0); err != nil {
		return f.note(err)
	}
	if _, err := f.window.Seek(0, io.SeekStart); err != nil {
		return f.note(err)
	}
	body, err := f.open(from, to-from)
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err := io.Copy(f.window, body); err != nil {
		return f.note(err)
	}
	f.from, f.to = from, to
	return nil
}

// note remembers an error that says nothing about the file.
func (f *remoteFile) note(err error) error {
	if err != nil && f.err == nil {
		f.err = err
	}
	return err
}

// damage tells what an error of the reader means.
func (f *remoteFile) damage(err error) error {
	switch {
	case errors.Is(f.err, objstore.ErrNotFound), errors.Is(f.err, objstore.ErrChanged):
		return again("read %s: %w", f.source.key, f.err)
	case f.err != nil:
		return fmt.Errorf("read %s: %w", f.source.key, f.err)
	}
	return &unadoptable{f.source.key, err}
}

func (f *remoteFile) close() {
	if f.window != nil {
		_ = f.window.Close()
		_ = os.Remove(f.window.Name())
	}
}
