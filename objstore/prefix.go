package objstore

import (
	"context"
	"io"
	"iter"
	"strings"
)

// WithPrefix is the part of a store below prefix: its keys are relative to it.
// A prefix that does not end in a slash gets one, because "train" must not reach
// into "train2/". The empty prefix is the whole store.
func WithPrefix(s Store, prefix string) Store {
	if prefix == "" {
		return s
	}
	if !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	if p, ok := s.(*prefixed); ok { // one wrapper, however often a store is narrowed
		return &prefixed{store: p.store, prefix: p.prefix + prefix}
	}
	return &prefixed{store: s, prefix: prefix}
}

type prefixed struct {
	store  Store
	prefix string
}

func (p *prefixed) info(i Info) Info {
	i.Key = strings.TrimPrefix(i.Key, p.prefix)
	return i
}

func (p *prefixed) Get(ctx context.Context, key string, s Span) (io.ReadCloser, Info, error) {
	r, info, err := p.store.Get(ctx, p.prefix+key, s)
	return r, p.info(info), err
}

func (p *prefixed) Put(ctx context.Context, key string, body []byte, c Condition) (Info, error) {
	info, err := p.store.Put(ctx, p.prefix+key, body, c)
	return p.info(info), err
}

func (p *prefixed) Upload(ctx context.Context, key string, r io.ReadSeeker, size int64, c Condition) (Info, error) {
	info, err := p.store.Upload(ctx, p.prefix+key, r, size, c)
	return p.info(info), err
}

func (p *prefixed) List(ctx context.Context, prefix, after string) iter.Seq2[Info, error] {
	if after != "" {
		after = p.prefix + after
	}
	return func(yield func(Info, error) bool) {
		for info, err := range p.store.List(ctx, p.prefix+prefix, after) {
			if !yield(p.info(info), err) {
				return
			}
		}
	}
}

func (p *prefixed) Dirs(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return p.store.Dirs(ctx, p.prefix+prefix)
}

func (p *prefixed) Delete(ctx context.Context, key string) error {
	return p.store.Delete(ctx, p.prefix+key)
}
