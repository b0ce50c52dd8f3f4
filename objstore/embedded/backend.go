package embedded

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"
)

// files is versitygw's mapping of objects to files, with what is missing there:
// durability, announcements, and the exclusion of readers and writers of a key.
// Strings of a request alias a buffer that the front end uses again, so whatever
// outlives a call is cloned.
type files struct {
	*posix.Posix
	root    string
	region  string
	locks   keyLock
	durable *durable
	seq     sequence
	notify  func(ctx context.Context, payload []byte) error
	base    context.Context //nolint:containedctx // the life of the server; contexts of requests are reused by the front end
	log     *slog.Logger
}

var _ backend.Backend = (*files)(nil)

// notifyTimeout bounds how long a change waits to be told of.
const notifyTimeout = 5 * time.Second

// path is the file of an object; it also names its lock, because keys that
// differ in doubled slashes share a file.
func (f *files) path(bucket, key *string) string {
	return filepath.Join(f.root, strings.Clone(aws.ToString(bucket)), strings.Clone(aws.ToString(key)))
}

// PutObject stores an object. The key is locked when all bytes have come and are
// on the disk, so that a slow client keeps nobody waiting.
func (f *files) PutObject(ctx context.Context, in s3response.PutObjectInput) (s3response.PutObjectOutput, error) {
	path := f.path(in.Bucket, in.Key)
	c := change{event: createdPut, bucket: strings.Clone(aws.ToString(in.Bucket)), key: strings.Clone(aws.ToString(in.Key))}
	unlock := func() {}
	defer func() { unlock() }()
	out, err := f.PutObjectWithPostFunc(ctx, in, func(staged *os.File) error {
		// Bytes first, then the name: else a power cut leaves a torn object that
		// was never answered, in the way of the client's next attempt.
		if err := errors.Join(staged.Sync(), f.durable.removals()); err != nil {
			return err
		}
		unlock = f.locks.lock(path)
		return nil
	})
	if err == nil {
		c.etag, c.size = out.ETag, aws.ToInt64(out.Size)
		err = f.settle(path, c)
	}
	return out, f.refusal(createdPut, c.key, err)
}

// CompleteMultipartUpload makes an object of its parts.
func (f *files) CompleteMultipartUpload(ctx context.Context, in *awss3.CompleteMultipartUploadInput) (s3response.CompleteMultipartUploadResult, string, error) {
	path := f.path(in.Bucket, in.Key)
	c := change{event: createdComplete, bucket: strings.Clone(aws.ToString(in.Bucket)), key: strings.Clone(aws.ToString(in.Key))}
	if err := f.durable.removals(); err != nil {
		return s3response.CompleteMultipartUploadResult{}, "", f.refusal(createdComplete, c.key, err)
	}
	defer f.locks.lock(path)()
	var unsynced error // an error from the copy function would only have the copy repeated
	out, version, err := f.CompleteMultipartUploadWithCopy(ctx, in, func(from, to *os.File) (bool, error) {
		if _, err := io.Copy(to, from); err != nil {
			return true, err
		}
		unsynced = errors.Join(unsynced, to.Sync())
		return true, nil
	})
	if err == nil {
		c.etag = aws.ToString(out.ETag)
		err = errors.Join(unsynced, f.made(c))
	}
	if err == nil {
		err = f.settleFile(path, c)
	}
	return out, version, f.refusal(createdComplete, c.key, err)
}

// UploadPart stores a part. It is made durable with the object.
func (f *files) UploadPart(ctx context.Context, in *awss3.UploadPartInput) (*awss3.UploadPartOutput, error) {
	out, err := f.Posix.UploadPart(ctx, in)
	return out, f.refusal("part", aws.ToString(in.Key), err)
}

// made checks that the object is what a completion says it made. versitygw calls
// a completion whose upload is gone a success as soon as there is any object. The
// caller has the key's lock.
func (f *files) made(c change) error {
	etag, err := meta.XattrMeta{}.RetrieveAttribute(nil, filepath.Join(f.root, c.bucket), c.key, "etag")
	if err != nil && !errors.Is(err, meta.ErrNoSuchKey) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if string(etag) != c.etag {
		return s3err.GetAPIError(s3err.ErrNoSuchUpload)
	}
	return nil
}

// CopyObject copies an object.
func (f *files) CopyObject(ctx context.Context, in s3response.CopyObjectInput) (s3response.CopyObjectOutput, error) {
	path := f.path(in.Bucket, in.Key)
	c := change{event: createdCopy, bucket: strings.Clone(aws.ToString(in.Bucket)), key: strings.Clone(aws.ToString(in.Key))}
	if err := f.durable.removals(); err != nil {
		return s3response.CopyObjectOutput{}, f.refusal(createdCopy, c.key, err)
	}
	defer f.locks.lock(path)()
	out, err := f.Posix.CopyObject(ctx, in)
	if err == nil {
		if out.CopyObjectResult != nil {
			c.etag = aws.ToString(out.CopyObjectResult.ETag)
		}
		err = f.settleFile(path, c)
	}
	return out, f.refusal(createdCopy, c.key, err)
}

// DeleteObject removes an object. Its absence is durable before anything newer
// is (see durable.removals).
func (f *files) DeleteObject(ctx context.Context, in *awss3.DeleteObjectInput) (*awss3.DeleteObjectOutput, error) {
	path := f.path(in.Bucket, in.Key)
	c := change{event: removedDelete, bucket: strings.Clone(aws.ToString(in.Bucket)), key: strings.Clone(aws.ToString(in.Key))}
	defer f.locks.lock(path)()
	f.durable.removing(path)
	out, err := f.Posix.DeleteObject(ctx, in)
	if err == nil {
		f.durable.gone(path)
		err = f.tell(c)
	}
	return out, f.refusal(removedDelete, c.key, err)
}

// DeleteObjects removes objects one by one, each with its condition.
func (f *files) DeleteObjects(ctx context.Context, in *awss3.DeleteObjectsInput) (s3response.DeleteResult, error) {
	res := s3response.DeleteResult{Deleted: []types.DeletedObject{}, Error: []types.Error{}}
	if in.Delete == nil {
		return res, s3err.GetAPIError(s3err.ErrMalformedXML)
	}
	for _, o := range in.Delete.Objects {
		_, err := f.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: in.Bucket, Key: o.Key, VersionId: o.VersionId, IfMatch: o.ETag})
		if err != nil {
			res.Error = append(res.Error, s3err.ObjectDeleteError(o.Key, o.VersionId, err))
			continue
		}
		res.Deleted = append(res.Deleted, types.DeletedObject{Key: o.Key, VersionId: o.VersionId})
	}
	return res, nil
}

// GetObject opens an object. The lock makes its headers and its body those of
// one version; the open file keeps the body after that.
func (f *files) GetObject(ctx context.Context, in *awss3.GetObjectInput) (*awss3.GetObjectOutput, error) {
	defer f.locks.rlock(f.path(in.Bucket, in.Key))()
	out, err := f.Posix.GetObject(ctx, in)
	return out, f.refusal("get", aws.ToString(in.Key), err)
}

// HeadObject describes an object.
func (f *files) HeadObject(ctx context.Context, in *awss3.HeadObjectInput) (*awss3.HeadObjectOutput, error) {
	defer f.locks.rlock(f.path(in.Bucket, in.Key))()
	out, err := f.Posix.HeadObject(ctx, in)
	return out, f.refusal("head", aws.ToString(in.Key), err)
}

// settle makes a new object durable and tells of it. The caller has its lock.
func (f *files) settle(path string, c change) error {
	if err := f.durable.name(path); err != nil {
		return err
	}
	return f.tell(c)
}

// settleFile does the same for an object whose bytes may not be on the disk, and
// whose size is not known.
func (f *files) settleFile(path string, c change) error {
	if err := syncPath(path); err != nil {
		return err
	}
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	c.size = st.Size()
	return f.settle(path, c)
}

// tell announces a change. Its place in the sequence is taken under the key's
// lock, so that the order of announcements is that of the changes.
func (f *files) tell(c change) error {
	if f.notify == nil {
		return nil
	}
	now := time.Now()
	b, err := payload(c, f.region, f.seq.next(now), now)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(f.base, notifyTimeout)
	defer cancel()
	return f.notify(ctx, b)
}

// refusal passes on what S3 has a word for, and turns the rest into an internal
// error here: versitygw would print it to the terminal.
func (f *files) refusal(what, key string, err error) error {
	var known s3err.S3Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known // as it is: versitygw does not look into a chain
	}
	if !errors.Is(err, context.Canceled) && !errors.Is(err, io.ErrUnexpectedEOF) { // the client has gone
		f.log.Error("request failed", "request", what, "key", key, "error", err)
	}
	return s3err.GetAPIError(s3err.ErrInternalError)
}
