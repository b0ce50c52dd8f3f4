package s3

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/siltstone-data/siltstone/objstore"
)

// List gives objects page by page. Objects of no bytes whose keys end in a slash
// are left out: consoles put them where they want to show a folder.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		for page, err := range s.pages(ctx, prefix, after, false) {
			if err != nil {
				yield(objstore.Info{}, fmt.Errorf("list %q: %w", prefix, err))
				return
			}
			for _, o := range page.Contents {
				info := objstore.Info{Key: *o.Key, Size: aws.ToInt64(o.Size), ETag: unquote(o.ETag), Modified: aws.ToTime(o.LastModified)}
				if info.Size == 0 && strings.HasSuffix(info.Key, "/") {
					continue
				}
				if !yield(info, nil) {
					return
				}
			}
		}
	}
}

// Dirs gives directories page by page.
func (s *Store) Dirs(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for page, err := range s.pages(ctx, prefix, "", true) {
			if err != nil {
				yield("", fmt.Errorf("list folders below %q: %w", prefix, err))
				return
			}
			for _, p := range page.CommonPrefixes {
				if !yield((*p.Prefix)[len(prefix):], nil) {
					return
				}
			}
		}
	}
}

// pages walks the pages of a list. A page that fails is asked for anew by the
// last name that came, not by the token: tokens expire, names do not.
func (s *Store) pages(ctx context.Context, prefix, after string, dirs bool) iter.Seq2[*awss3.ListObjectsV2Output, error] {
	return func(yield func(*awss3.ListObjectsV2Output, error) bool) {
		var token *string
		last := after // a page brings only names after it
		size := objstore.FirstPage(ctx, s.cfg.Page)
		for {
			var page *awss3.ListObjectsV2Output
			next := last
			_, err := s.retry(ctx, objstore.VerbList, func(a *attempt) error {
				in := &awss3.ListObjectsV2Input{Bucket: &s.cfg.Bucket, Prefix: &prefix, MaxKeys: aws.Int32(int32(size))} //nolint:gosec // at most 1000
				if dirs {
					in.Delimiter = aws.String("/")
				}
				switch {
				case token != nil && a.number == 0:
					in.ContinuationToken = token
				case last != "":
					in.StartAfter = &last
				}
				out, err := s.client.ListObjectsV2(a.ctx, in)
				if err == nil {
					next, err = checkPage(out, prefix, last)
				}
				page = out
				return err
			})
			if err != nil {
				yield(nil, translate(err))
				return
			}
			if !yield(page, nil) || !aws.ToBool(page.IsTruncated) {
				return
			}
			if next == last {
				yield(nil, fmt.Errorf("a page after %q brings nothing and says that there is more", last))
				return
			}
			token, last, size = page.NextContinuationToken, next, s.cfg.Page
		}
	}
}

// checkPage refuses a page that cannot be the whole of what the store meant, and
// gives the name to go on from. Each of these was seen to make a list short, or
// endless, without an error.
func checkPage(out *awss3.ListObjectsV2Output, prefix, last string) (next string, err error) {
	if out.IsTruncated == nil { // an empty body passes for an empty list
		return "", fmt.Errorf("%w: the list does not say whether there is more", errAnswer)
	}
	if n := len(out.Contents) + len(out.CommonPrefixes); out.KeyCount != nil && int(*out.KeyCount) != n {
		return "", fmt.Errorf("%w: the list says %d names and has %d", errAnswer, *out.KeyCount, n)
	}
	next = last
	previous := last
	for _, o := range out.Contents {
		key := aws.ToString(o.Key)
		if !strings.HasPrefix(key, prefix) || key <= previous {
			return "", errOrder(key, previous, prefix)
		}
		previous = key
	}
	next = max(next, previous)
	// Some stores sort directories without the slash, "b" before "b-x".
	slices.SortFunc(out.CommonPrefixes, func(a, b types.CommonPrefix) int {
		return strings.Compare(aws.ToString(a.Prefix), aws.ToString(b.Prefix))
	})
	kept := out.CommonPrefixes[:0]
	for _, p := range out.CommonPrefixes {
		dir := aws.ToString(p.Prefix)
		if !strings.HasPrefix(dir, prefix) || len(dir) < len(prefix)+2 || !strings.HasSuffix(dir, "/") {
			return "", errOrder(dir, last, prefix)
		}
		behind := dir[:len(dir)-1] + "0" // "0" follows "/": this is after all that dir holds
		switch {
		case behind < last:
			return "", errOrder(dir, last, prefix)
		case behind > last:
			next = max(next, behind)
			kept = append(kept, p)
		} // else it ended the page before
	}
	out.CommonPrefixes = kept
	return next, nil
}

var errNames = errors.New("the store's list is out of order or has alien names")

func errOrder(name, previous, prefix string) error {
	return fmt.Errorf("%w: %q after %q below %q", errNames, name, previous, prefix)
}
