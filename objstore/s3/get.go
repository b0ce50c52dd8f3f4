package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/siltstone-data/siltstone/objstore"
)

// Get opens an object. See objstore.Store for what its reader guarantees.
func (s *Store) Get(ctx context.Context, key string, span objstore.Span) (io.ReadCloser, objstore.Info, error) {
	r, info, err := s.get(ctx, key, span)
	if err != nil {
		return nil, objstore.Info{}, fmt.Errorf("get %q: %w", key, err)
	}
	return r, info, nil
}

func (s *Store) get(ctx context.Context, key string, span objstore.Span) (io.ReadCloser, objstore.Info, error) {
	if err := span.Check(); err != nil {
		return nil, objstore.Info{}, err
	}
	p, err := s.open(ctx, key, span)
	if statusOf(err) == http.StatusRequestedRangeNotSatisfiable && span.Offset == 0 {
		p, err = s.open(ctx, key, objstore.Span{ETag: span.ETag}) // no range of an empty object can be satisfied
	}
	if err != nil {
		return nil, objstore.Info{}, readOutcome(err)
	}
	info := p.info
	r := &reader{
		s: s, ctx: ctx, key: key, etag: info.ETag,
		part: p, at: span.Offset, end: span.Offset + p.size,
	}
	return r, info, nil
}

// part is an open answer to a GET.
type part struct {
	info objstore.Info // of the whole object
	size int64         // of this answer
	body io.ReadCloser
	a    *attempt
}

func (p *part) close() {
	p.body.Close()
	p.a.end()
}

// open sends a GET until it is answered; the body is still to be read.
func (s *Store) open(ctx context.Context, key string, span objstore.Span) (*part, error) {
	var p *part
	_, err := s.retry(ctx, objstore.VerbGet, func(a *attempt) error {
		out, err := s.client.GetObject(a.ctx, &awss3.GetObjectInput{
			Bucket: &s.cfg.Bucket, Key: &key, Range: rangeHeader(span), IfMatch: quote(span.ETag),
		})
		if err != nil {
			return err
		}
		p, err = newPart(key, span, out)
		if err != nil {
			out.Body.Close()
			return err
		}
		p.a = a
		a.kept = true
		a.rest()
		return nil
	})
	return p, err
}

func newPart(key string, span objstore.Span, out *awss3.GetObjectOutput) (*part, error) {
	p := &part{body: out.Body, info: objstore.Info{Key: key, ETag: unquote(out.ETag), Modified: aws.ToTime(out.LastModified), Date: dateOf(out.ResultMetadata)}}
	switch {
	case p.info.ETag == "":
		return nil, fmt.Errorf("%w: no ETag", errAnswer)
	case out.ContentLength == nil || *out.ContentLength < 0:
		return nil, fmt.Errorf("%w: no Content-Length, so that a cut could not be told from the end", errAnswer)
	}
	p.size, p.info.Size = *out.ContentLength, *out.ContentLength
	if rangeHeader(span) == nil {
		return p, nil
	}
	from, to, total, err := contentRange(aws.ToString(out.ContentRange))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errAnswer, err)
	}
	if wantFrom, wantTo, err := span.Of(total); err != nil || from != wantFrom || to != wantTo || p.size != to-from {
		return nil, fmt.Errorf("%w: %d bytes as %q for bytes %d to %d", errAnswer, p.size, aws.ToString(out.ContentRange), wantFrom, wantTo)
	}
	p.info.Size = total
	return p, nil
}

func rangeHeader(s objstore.Span) *string {
	switch {
	case s.Length > 0 && s.Offset <= 1<<62 && s.Length <= 1<<62:
		return aws.String(fmt.Sprintf("bytes=%d-%d", s.Offset, s.Offset+s.Length-1))
	case s.Offset > 0:
		return aws.String(fmt.Sprintf("bytes=%d-", s.Offset))
	}
	return nil
}

// contentRange reads "bytes 3-6/10" as the half-open range 3 to 7 of 10.
func contentRange(h string) (from, to, total int64, err error) {
	bad := func() (int64, int64, int64, error) {
		return 0, 0, 0, fmt.Errorf("a range was asked for, and Content-Range is %q", h)
	}
	rest, ok := strings.CutPrefix(h, "bytes ")
	span, size, ok2 := strings.Cut(rest, "/")
	first, last, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 {
		return bad()
	}
	from, err1 := strconv.ParseInt(first, 10, 64)
	to, err2 := strconv.ParseInt(last, 10, 64)
	total, err3 := strconv.ParseInt(size, 10, 64)
	if errors.Join(err1, err2, err3) != nil || from < 0 || to < from || total <= to {
		return bad()
	}
	return from, to + 1, total, nil
}

// readOutcome is translate for reads, whose only condition is a version.
func readOutcome(err error) error {
	err = translate(err)
	if errors.Is(err, objstore.ErrLost) {
		return fmt.Errorf("%w: it has another ETag now", objstore.ErrChanged)
	}
	return err
}
