package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/s3"
)

const (
	s3Scheme = "s3://"
	// exportsDir is where exports may lie in the store that they are read from:
	// names with an underscore are none of datasets.
	exportsDir = "_exports/"
)

// parseS3 reads s3://BUCKET/KEY.
func parseS3(text string) (bucket, key string, err error) {
	bucket, key, _ = strings.Cut(strings.TrimPrefix(text, s3Scheme), "/")
	switch {
	case bucket == "" || key == "":
		return "", "", errors.New("want s3://BUCKET/KEY")
	case strings.HasSuffix(key, "/"):
		return "", "", errors.New("the key ends with a slash; name a file")
	}
	return bucket, key, nil
}

// bucket opens another bucket of the store, or the same one without its prefix.
func (a *app) bucket(ctx context.Context, name string) (*s3.Store, error) {
	if a.client != nil && name == a.Bucket {
		return a.client, nil
	}
	return s3.Open(ctx, s3.Config{
		Bucket: name, Endpoint: a.Endpoint, Region: a.Region,
		AccessKey: a.AccessKey, SecretKey: a.SecretKey, SessionToken: a.SessionToken,
	}, a.log, a.registry)
}

// amongDatasets reports whether an object would lie where datasets do, and where
// exports may lie instead.
func (a *app) amongDatasets(bucket, key string) (instead string, among bool) {
	root := ""
	if a.Prefix != "" {
		root = a.Prefix + "/"
	}
	rest, below := strings.CutPrefix(key, root)
	return s3Scheme + bucket + "/" + root + exportsDir, bucket == a.Bucket && below && !strings.HasPrefix(rest, exportsDir)
}

// s3Output is an object that appears whole or not at all. It grows in a file
// without a name, and goes to the store when it is whole: an upload then takes
// minutes in place of the hours that an export may take, and can be tried again.
type s3Output struct {
	*os.File
	ctx       context.Context // the output lives within the command that has it
	store     *s3.Store
	url, key  string
	overwrite bool
	stays     bool // the file has a name still
}

// errExists reports a key that is taken.
var errExists = errors.New("it exists already; --overwrite replaces it")

func createObject(ctx context.Context, a *app, url string, overwrite bool) (*s3Output, error) {
	bucket, key, err := parseS3(url)
	if err != nil {
		return nil, exit(exitUsage, fmt.Errorf("-o %s: %w", url, err))
	}
	if instead, among := a.amongDatasets(bucket, key); among {
		return nil, exit(exitUsage, fmt.Errorf("-o %s: datasets lie there; write below %s, or to another bucket", url, instead))
	}
	store, err := a.bucket(ctx, bucket)
	if err != nil {
		return nil, err
	}
	o := &s3Output{ctx: ctx, store: store, url: url, key: key, overwrite: overwrite}
	if err := o.free(); err != nil { // before the work; the upload asks again
		o.close()
		return nil, err
	}
	if o.File, err = os.CreateTemp(a.workDir, "export-*"); err != nil {
		o.close()
		return nil, fmt.Errorf("keep what goes to %s: %w", url, err)
	}
	// Where a file can go while it is open, a killed process leaves nothing.
	o.stays = os.Remove(o.Name()) != nil
	return o, nil
}

// free refuses a key that is taken.
func (o *s3Output) free() error {
	if o.overwrite {
		return nil
	}
	for info, err := range o.store.List(objstore.ExpectFew(o.ctx), o.key, "") {
		if err != nil {
			return fmt.Errorf("look at %s: %w", o.url, err)
		}
		if info.Key == o.key {
			return exit(exitRefused, fmt.Errorf("-o %s: %w", o.url, errExists))
		}
		break
	}
	return nil
}

func (o *s3Output) commit() error {
	size, err := o.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	var c objstore.Condition
	if !o.overwrite {
		c = objstore.IfAbsent()
	}
	_, err = o.store.Upload(o.ctx, o.key, o.File, size, c)
	if errors.Is(err, objstore.ErrLost) {
		return exit(exitRefused, fmt.Errorf("-o %s: %w", o.url, errExists))
	}
	return err
}

// beside stores a small object under the key with a suffix.
func (o *s3Output) beside(suffix string, body []byte) error {
	_, err := o.store.Put(o.ctx, o.key+suffix, body, objstore.Condition{})
	return err
}

// without removes what an earlier export has left under the key with a suffix.
func (o *s3Output) without(suffix string) error {
	if !o.overwrite {
		return nil
	}
	return o.store.Delete(o.ctx, o.key+suffix)
}

func (o *s3Output) discard() { o.close() }

func (o *s3Output) close() {
	if o.File != nil {
		o.File.Close()
		if o.stays {
			_ = os.Remove(o.Name())
		}
	}
	o.store.Close()
}
