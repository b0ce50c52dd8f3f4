package s3

import (
	"context"
	"errors"
	"fmt"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/siltstone-data/siltstone/objstore"
)

// EnsureBucket makes the bucket where there is none.
func (s *Store) EnsureBucket(ctx context.Context) error {
	_, err := s.retry(ctx, objstore.VerbHead, func(a *attempt) error {
		_, err := s.client.HeadBucket(a.ctx, &awss3.HeadBucketInput{Bucket: &s.cfg.Bucket})
		return err
	})
	if err == nil {
		return nil
	}
	if err = translate(err); !errors.Is(err, objstore.ErrNotFound) && !errors.Is(err, ErrNoBucket) {
		return fmt.Errorf("look for bucket %q: %w", s.cfg.Bucket, err)
	}
	in := &awss3.CreateBucketInput{Bucket: &s.cfg.Bucket}
	if region := s.client.Options().Region; s.cfg.Endpoint == "" && region != "us-east-1" {
		in.CreateBucketConfiguration = &types.CreateBucketConfiguration{LocationConstraint: types.BucketLocationConstraint(region)}
	}
	_, err = s.retry(ctx, objstore.VerbPut, func(a *attempt) error {
		_, err := s.client.CreateBucket(a.ctx, in)
		return err
	})
	if err != nil && codeOf(err) != "BucketAlreadyOwnedByYou" {
		return fmt.Errorf("create bucket %q: %w", s.cfg.Bucket, translate(err))
	}
	return nil
}

// Delete removes an object.
func (s *Store) Delete(ctx context.Context, key string) error {
	_, err := s.retry(ctx, objstore.VerbDelete, func(a *attempt) error {
		_, err := s.client.DeleteObject(a.ctx, &awss3.DeleteObjectInput{Bucket: &s.cfg.Bucket, Key: &key})
		return err
	})
	if err == nil {
		return nil
	}
	if err = translate(err); errors.Is(err, objstore.ErrNotFound) {
		return nil
	}
	return fmt.Errorf("delete %q: %w", key, err)
}

// head describes an object.
func (s *Store) head(ctx context.Context, key string) (objstore.Info, error) {
	info := objstore.Info{Key: key}
	_, err := s.retry(ctx, objstore.VerbHead, func(a *attempt) error {
		out, err := s.client.HeadObject(a.ctx, &awss3.HeadObjectInput{Bucket: &s.cfg.Bucket, Key: &key})
		switch {
		case err != nil:
			return err
		case out.ContentLength == nil || unquote(out.ETag) == "":
			return fmt.Errorf("%w: no Content-Length or ETag", errAnswer)
		}
		info.Size, info.ETag = *out.ContentLength, unquote(out.ETag)
		info.Modified, info.Date = answeredAt(out.ResultMetadata), dateOf(out.ResultMetadata)
		return nil
	})
	if err != nil {
		return objstore.Info{}, translate(err)
	}
	return info, nil
}
