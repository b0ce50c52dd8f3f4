package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"

	"github.com/siltstone-data/siltstone/objstore"
)

// Put stores body under key. Info.Modified is the time of the store's answer.
//
// A write whose answer was lost may have had its effect. The next attempt then
// fails its own condition, and only the object tells: if it holds body, this
// write has stored it; if it holds something else, this write may have been
// overwritten or may never have come to pass, and the outcome is ErrUnknown.
func (s *Store) Put(ctx context.Context, key string, body []byte, c objstore.Condition) (objstore.Info, error) {
	info, err := s.put(ctx, key, bytes.NewReader(body), int64(len(body)), c)
	if err != nil {
		return objstore.Info{}, fmt.Errorf("put %q: %w", key, err)
	}
	return info, nil
}

// put sends one PUT of all that r holds.
func (s *Store) put(ctx context.Context, key string, r io.ReadSeeker, size int64, c objstore.Condition) (objstore.Info, error) {
	info := objstore.Info{Key: key, Size: size}
	var local error // our own reader failed: nothing to retry
	unsure, err := s.retry(ctx, objstore.VerbPut, func(a *attempt) error {
		if err := objstore.SizeIs(r, size); err != nil {
			local = err
			return err
		}
		src := &source{ReadSeeker: r, failed: &local}
		out, err := s.client.PutObject(a.ctx, &awss3.PutObjectInput{
			Bucket: &s.cfg.Bucket, Key: &key, Body: a.body(src), ContentLength: &size,
			IfNoneMatch: ifNoneMatch(c), IfMatch: ifMatch(c),
		})
		switch {
		case local != nil:
			return local
		case err != nil:
			return err
		case unquote(out.ETag) == "":
			return fmt.Errorf("%w: no ETag", errAnswer)
		}
		info.ETag = unquote(out.ETag)
		info.Modified, info.Date = answeredAt(out.ResultMetadata), dateOf(out.ResultMetadata)
		return nil
	})
	switch {
	case err == nil:
		return info, nil
	case local != nil && !unsure:
		return objstore.Info{}, local
	case !unsure:
		return objstore.Info{}, translate(err)
	}
	return s.settle(ctx, info, r, err)
}

// settle finds out what became of a write whose attempts may have had an effect,
// by comparing what is stored with what was to be stored.
func (s *Store) settle(ctx context.Context, want objstore.Info, r io.ReadSeeker, err error) (objstore.Info, error) {
	if ctx.Err() != nil {
		return objstore.Info{}, fmt.Errorf("%w: %w", objstore.ErrUnknown, err)
	}
	found, same, cerr := s.compare(ctx, want, r)
	switch {
	case cerr != nil:
		return objstore.Info{}, fmt.Errorf("%w: %s; reading back: %w", objstore.ErrUnknown, brief(err), stripped(cerr))
	case same:
		return found, nil
	}
	return objstore.Info{}, fmt.Errorf("%w: an earlier attempt got no answer, and the object is another: %s", objstore.ErrUnknown, brief(err))
}

// compare reads the object and tells whether it holds just what r does.
func (s *Store) compare(ctx context.Context, want objstore.Info, r io.ReadSeeker) (objstore.Info, bool, error) {
	body, found, err := s.Get(ctx, want.Key, objstore.Span{})
	if err != nil {
		return objstore.Info{}, false, err
	}
	defer body.Close()
	if found.Size != want.Size {
		return found, false, nil
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return found, false, err
	}
	same, err := sameBytes(body, r)
	return found, same, err
}

func sameBytes(a, b io.Reader) (bool, error) {
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, aerr := io.ReadFull(a, x)
		m, berr := io.ReadFull(b, y)
		if !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		aend, bend := ended(aerr), ended(berr)
		switch {
		case aerr != nil && !aend:
			return false, aerr
		case berr != nil && !bend:
			return false, berr
		case aend || bend:
			return aend == bend, nil
		}
	}
}

// ended takes io.ReadFull's word for the end. A body that was cut fails with an
// error of its own before that.
func ended(err error) bool { return err == io.EOF || err == io.ErrUnexpectedEOF } //nolint:errorlint // ReadFull's own, unwrapped

// stripped keeps an error's text and drops the outcomes in its chain: that the
// object read back is missing does not make the write's outcome ErrNotFound.
func stripped(err error) error { return errors.New(err.Error()) }

// source remembers that reading what is to be sent failed. To the SDK that looks
// like a broken connection, which would be worth another attempt.
type source struct {
	io.ReadSeeker
	failed *error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.ReadSeeker.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		*s.failed = err
	}
	return n, err
}

func ifNoneMatch(c objstore.Condition) *string {
	if c.Absent() {
		return aws.String("*")
	}
	return nil
}

func ifMatch(c objstore.Condition) *string { return quote(c.Match()) }

func quote(etag string) *string {
	if etag == "" {
		return nil
	}
	return aws.String(`"` + etag + `"`)
}

func unquote(etag *string) string { return strings.Trim(aws.ToString(etag), `"`) }

// answeredAt is the store's clock, as its answer tells it, or else our own.
func answeredAt(m middleware.Metadata) time.Time {
	if t := dateOf(m); !t.IsZero() {
		return t
	}
	return time.Now()
}

// dateOf is the Date of an answer, or zero: nobody's clock stands in for it.
func dateOf(m middleware.Metadata) time.Time {
	t, _ := awsmiddleware.GetServerTime(m)
	return t
}
