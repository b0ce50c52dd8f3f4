package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"

	"github.com/siltstone-data/siltstone/objstore"
)

// Upload stores what r holds: with one PUT when it is small, else in parts of one
// size, several at once. It holds up to five parts in memory, and none of a file,
// which is read again for each attempt.
func (s *Store) Upload(ctx context.Context, key string, r io.ReadSeeker, size int64, c objstore.Condition) (objstore.Info, error) {
	info, err := s.upload(ctx, objstore.Info{Key: key, Size: size}, r, c)
	if err != nil {
		return objstore.Info{}, fmt.Errorf("upload %q: %w", key, err)
	}
	return info, nil
}

func (s *Store) upload(ctx context.Context, want objstore.Info, r io.ReadSeeker, c objstore.Condition) (objstore.Info, error) {
	if err := objstore.SizeIs(r, want.Size); err != nil {
		return objstore.Info{}, err
	}
	if want.Size < s.sizes.single {
		return s.put(ctx, want.Key, r, want.Size, c)
	}
	for try := 0; ; try++ {
		info, err := s.multipart(ctx, want, r, c)
		if !errors.Is(err, errAgain) || try == 2 {
			return info, err
		}
		if err := objstore.SizeIs(r, want.Size); err != nil {
			return objstore.Info{}, err
		}
	}
}

// errAgain: the upload came to nothing, for a reason that another one may not
// meet. Amazon wants it after a conflict: a conditional completion that met
// another write is not to be repeated with the same parts.
var errAgain = errors.New("the upload was in conflict with another write")

// multipart uploads in parts. Whatever fails, the parts are given up, so that
// nobody pays for them.
func (s *Store) multipart(ctx context.Context, want objstore.Info, r io.ReadSeeker, c objstore.Condition) (_ objstore.Info, err error) {
	id, err := s.createUpload(ctx, want.Key)
	if err != nil {
		return objstore.Info{}, translate(err)
	}
	defer func() {
		if err != nil {
			s.abortUpload(ctx, want.Key, id)
		}
	}()
	parts, err := s.uploadParts(ctx, want, id, r)
	if err != nil {
		return objstore.Info{}, err
	}
	return s.complete(ctx, want, id, parts, r, c)
}

func (s *Store) createUpload(ctx context.Context, key string) (string, error) {
	var id string
	_, err := s.retry(ctx, objstore.VerbPart, func(a *attempt) error {
		out, err := s.client.CreateMultipartUpload(a.ctx, &awss3.CreateMultipartUploadInput{Bucket: &s.cfg.Bucket, Key: &key})
		if err != nil {
			return err
		}
		if id = aws.ToString(out.UploadId); id == "" {
			return fmt.Errorf("%w: no upload id", errAnswer)
		}
		return nil
	})
	return id, err
}

// partSize is the one size of all parts but the last: some stores refuse others.
func partSize(size, least int64) int64 {
	const mib = 1 << 20
	n := (size + maxParts - 1) / maxParts
	return max(least, (n+mib-1)/mib*mib)
}

func (s *Store) uploadParts(ctx context.Context, want objstore.Info, id string, r io.Reader) ([]types.CompletedPart, error) {
	file, isFile := r.(*os.File)
	each := partSize(want.Size, s.sizes.part)
	count := int((want.Size + each - 1) / each)
	parts := make([]types.CompletedPart, count)
	buffers := sync.Pool{New: func() any { b := make([]byte, each); return &b }}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(partsAtOnce)
	for i := range count {
		if gctx.Err() != nil {
			break
		}
		size := min(each, want.Size-int64(i)*each)
		if isFile {
			g.Go(func() (err error) {
				parts[i], err = s.uploadPart(gctx, want.Key, id, int32(i+1), io.NewSectionReader(file, int64(i)*each, size)) //nolint:gosec // at most 10,000
				return err
			})
			continue
		}
		buf := buffers.Get().(*[]byte) //nolint:errcheck // nothing else is in the pool
		part := (*buf)[:size]
		if _, err := io.ReadFull(r, part); err != nil {
			g.Go(func() error { return fmt.Errorf("read part %d: %w", i+1, err) })
			break
		}
		g.Go(func() (err error) {
			defer buffers.Put(buf)
			parts[i], err = s.uploadPart(gctx, want.Key, id, int32(i+1), io.NewSectionReader(bytes.NewReader(part), 0, size)) //nolint:gosec // at most 10,000
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return parts, ctx.Err()
}

func (s *Store) uploadPart(ctx context.Context, key, id string, number int32, body *io.SectionReader) (types.CompletedPart, error) {
	part := types.CompletedPart{PartNumber: &number}
	_, err := s.retry(ctx, objstore.VerbPart, func(a *attempt) error {
		out, err := s.client.UploadPart(a.ctx, &awss3.UploadPartInput{
			Bucket: &s.cfg.Bucket, Key: &key, UploadId: &id, PartNumber: &number,
			Body: a.body(io.NewSectionReader(body, 0, body.Size())), ContentLength: aws.Int64(body.Size()),
		})
		if err != nil {
			return err
		}
		if part.ETag = out.ETag; unquote(out.ETag) == "" {
			return fmt.Errorf("%w: no ETag", errAnswer)
		}
		return nil
	})
	if err != nil {
		return part, fmt.Errorf("part %d: %w", number, translate(err))
	}
	return part, nil
}

// complete makes the object of its parts. A completion that got no answer is
// repeated: the store then says that it knows no such upload, or that the
// condition fails, and the object tells whether that was this upload's doing.
func (s *Store) complete(ctx context.Context, want objstore.Info, id string, parts []types.CompletedPart, r io.ReadSeeker, c objstore.Condition) (objstore.Info, error) {
	info := want
	unsure, err := s.retry(ctx, objstore.VerbPart, func(a *attempt) error {
		out, err := s.client.CompleteMultipartUpload(a.ctx, &awss3.CompleteMultipartUploadInput{
			Bucket: &s.cfg.Bucket, Key: &want.Key, UploadId: &id,
			MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
			IfNoneMatch:     ifNoneMatch(c), IfMatch: ifMatch(c),
		})
		switch {
		case err != nil && judge(err, true).kind == conflict:
			return fmt.Errorf("%w: %s", errAgain, brief(err))
		case err != nil:
			return err
		case unquote(out.ETag) == "":
			return fmt.Errorf("%w: no ETag", errAnswer)
		}
		info.ETag, info.Modified, info.Date = unquote(out.ETag), answeredAt(out.ResultMetadata), dateOf(out.ResultMetadata)
		return nil
	})
	switch {
	case err == nil:
		return s.verify(ctx, info, unsure, r)
	case unsure:
		return s.settle(ctx, want, r, err)
	case errors.Is(err, errAgain):
		return objstore.Info{}, err
	}
	return objstore.Info{}, translate(err)
}

// verify looks at what a completed upload has left: stores have said 200 to a
// completion that failed, and to the repetition of one whose object somebody had
// replaced.
func (s *Store) verify(ctx context.Context, info objstore.Info, unsure bool, r io.ReadSeeker) (objstore.Info, error) {
	found, err := s.head(ctx, info.Key)
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return objstore.Info{}, fmt.Errorf("%w: completed, and then there is no object", objstore.ErrUnknown)
	case err != nil:
		return objstore.Info{}, fmt.Errorf("%w: completed; looking at it: %w", objstore.ErrUnknown, stripped(err))
	case found.ETag == info.ETag && found.Size != info.Size:
		return objstore.Info{}, fmt.Errorf("%w: the store made %d bytes of %d", objstore.ErrUnknown, found.Size, info.Size)
	case found.ETag != info.ETag && unsure:
		return s.settle(ctx, info, r, errors.New("completed, and the object has another ETag"))
	}
	return info, nil // another ETag after a clear answer: somebody has written since
}

// abortUpload gives up the parts, also when ctx has ended.
func (s *Store) abortUpload(ctx context.Context, key, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	_, err := s.retry(ctx, objstore.VerbPart, func(a *attempt) error {
		_, err := s.client.AbortMultipartUpload(a.ctx, &awss3.AbortMultipartUploadInput{Bucket: &s.cfg.Bucket, Key: &key, UploadId: &id})
		return err
	})
	if err != nil && codeOf(err) != "NoSuchUpload" {
		s.log.WarnContext(ctx, "parts of an upload are left in the store", "key", key, "upload", id, "error", err)
	}
}
