package main

import (
	"errors"
	"fmt"

	"github.com/siltstone-data/siltstone/objstore/s3"
)

// explain adds to an error that keeps the store from being used at all which
// setting to look at.
func (a *app) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, s3.ErrUnreachable) && a.Endpoint == "":
		return fmt.Errorf("%w; requests go to Amazon, region %s (AWS_REGION); for another store set AWS_ENDPOINT_URL", err, a.region())
	case errors.Is(err, s3.ErrUnreachable):
		return fmt.Errorf("%w; AWS_ENDPOINT_URL is %s: is it up? `siltstone up` starts one", err, redact(a.Endpoint))
	case errors.Is(err, s3.ErrDenied) && a.AccessKey == "":
		return fmt.Errorf("%w; AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set", err)
	case errors.Is(err, s3.ErrDenied):
		return fmt.Errorf("%w; AWS_ACCESS_KEY_ID is %q: look at it, at AWS_SECRET_ACCESS_KEY, and at what the key may do with bucket %s", err, a.AccessKey, a.Bucket)
	case errors.Is(err, s3.ErrNoBucket):
		return fmt.Errorf("%w; S3_BUCKET is %q, at %s", err, a.Bucket, a.where())
	case errors.Is(err, s3.ErrRegion):
		return fmt.Errorf("%w; AWS_REGION is %q", err, a.region())
	}
	return err
}

// where says whose store it is.
func (a *app) where() string {
	if a.Endpoint == "" {
		return "AWS, region " + a.region()
	}
	return redact(a.Endpoint)
}

// region is that of requests, as far as settings tell.
func (a *app) region() string {
	if a.Region == "" {
		return "us-east-1"
	}
	return a.Region
}

// unusable reports an error of the store itself: the next object would fare no
// better.
func unusable(err error) bool {
	return errors.Is(err, s3.ErrUnreachable) || errors.Is(err, s3.ErrDenied) || errors.Is(err, s3.ErrNoBucket) || errors.Is(err, s3.ErrRegion)
}
