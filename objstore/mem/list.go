package mem

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/siltstone-data/siltstone/objstore"
)

// List gives objects in byte order. As in S3, each page is one moment: what
// changes while a list runs is seen by the pages that come later.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		after := after // a sequence may be ranged over again
		for {
			if err := ctx.Err(); err != nil {
				yield(objstore.Info{}, fmt.Errorf("list %q: %w", prefix, err))
				return
			}
			page, more := s.pageAfter(prefix, after)
			for _, info := range page {
				if !yield(info, nil) {
					return
				}
				after = info.Key
			}
			if !more {
				return
			}
		}
	}
}

// Dirs gives the distinct next path elements below prefix.
func (s *Store) Dirs(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		dir := ""
		for {
			if err := ctx.Err(); err != nil {
				yield("", fmt.Errorf("list directories of %q: %w", prefix, err))
				return
			}
			var ok bool
			if dir, ok = s.dirAfter(prefix, dir); !ok || !yield(dir, nil) {
				return
			}
		}
	}
}

// pageAfter is one page of objects after a key, and whether there may be more.
func (s *Store) pageAfter(prefix, after string) ([]objstore.Info, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var page []objstore.Info
	for _, key := range s.keys[s.first(prefix, after):] {
		if !strings.HasPrefix(key, prefix) {
			break
		}
		if len(page) == s.page {
			return page, true
		}
		page = append(page, s.objects[key].info)
	}
	return page, false
}

// dirAfter is the first directory below prefix that comes after dir ("" for the
// first of all). It skips over the keys of dir instead of walking them.
func (s *Store) dirAfter(prefix, dir string) (string, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	from := prefix
	if dir != "" {
		from = prefix + dir[:len(dir)-1] + string(rune('/'+1)) // the first key that "dir/" is no prefix of
	}
	i, _ := slices.BinarySearch(s.keys, from)
	for ; i < len(s.keys) && strings.HasPrefix(s.keys[i], prefix); i++ {
		if name, _, found := strings.Cut(s.keys[i][len(prefix):], "/"); found {
			return name + "/", true
		}
	}
	return "", false
}

// first is the index of the first key that has the prefix and comes after after.
func (s *Store) first(prefix, after string) int {
	if after < prefix {
		i, _ := slices.BinarySearch(s.keys, prefix)
		return i
	}
	i, found := slices.BinarySearch(s.keys, after)
	if found {
		i++
	}
	return i
}
