package objtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/siltstone-data/siltstone/objstore"
)

// view is one actor's store: every call waits for its turn in the schedule.
type view struct {
	s     *Schedule
	a     *actor
	store objstore.Store
}

var _ objstore.Store = (*view)(nil)

// Get takes one step, in which the whole body is read too.
func (v *view) Get(ctx context.Context, key string, span objstore.Span) (io.ReadCloser, objstore.Info, error) {
	var body []byte
	var info objstore.Info
	err := v.s.do(ctx, &call{actor: v.a, verb: "get", key: key, title: "get " + key + spanTitle(span),
		effect: func(ctx context.Context) (string, error) {
			r, i, err := v.store.Get(ctx, key, span)
			if err != nil {
				return "", err
			}
			defer r.Close()
			b, err := io.ReadAll(r)
			body, info = b, i
			return fmt.Sprintf("%d bytes of %s", len(b), short(i.ETag)), err
		}})
	if err != nil {
		return nil, objstore.Info{}, err
	}
	return io.NopCloser(bytes.NewReader(body)), info, nil
}

// Put takes one step.
func (v *view) Put(ctx context.Context, key string, body []byte, c objstore.Condition) (objstore.Info, error) {
	body = bytes.Clone(body) // a late effect must store what was given now
	return v.write(ctx, "put", key, c, func(ctx context.Context) (objstore.Info, error) {
		return v.store.Put(ctx, key, body, c)
	})
}

// Upload reads all of r and then takes one step.
func (v *view) Upload(ctx context.Context, key string, r io.ReadSeeker, size int64, c objstore.Condition) (objstore.Info, error) {
	body, err := objstore.ReadExactly(r, size)
	if err != nil {
		return objstore.Info{}, fmt.Errorf("upload %q: %w", key, err)
	}
	return v.write(ctx, "upload", key, c, func(ctx context.Context) (objstore.Info, error) {
		return v.store.Upload(ctx, key, bytes.NewReader(body), size, c)
	})
}

func (v *view) write(ctx context.Context, verb, key string, c objstore.Condition, put func(context.Context) (objstore.Info, error)) (objstore.Info, error) {
	var info objstore.Info
	err := v.s.do(ctx, &call{actor: v.a, verb: verb, key: key, title: verb + " " + key + conditionTitle(c), write: true,
		effect: func(ctx context.Context) (string, error) {
			i, err := put(ctx)
			info = i
			return short(i.ETag), err
		}})
	if err != nil {
		return objstore.Info{}, err // info may be written later, by a late effect
	}
	return info, nil
}

// Delete takes one step.
func (v *view) Delete(ctx context.Context, key string) error {
	return v.s.do(ctx, &call{actor: v.a, verb: "delete", key: key, title: "delete " + key, write: true,
		effect: func(ctx context.Context) (string, error) { return "", v.store.Delete(ctx, key) }})
}

// List takes one step for each page.
func (v *view) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return pages(ctx, v, "list", prefix, func(ctx context.Context, last string) iter.Seq2[objstore.Info, error] {
		return v.store.List(ctx, prefix, max(last, after))
	}, func(i objstore.Info) string { return i.Key })
}

// Dirs takes one step for each page.
func (v *view) Dirs(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return pages(ctx, v, "dirs", prefix, func(ctx context.Context, last string) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for dir, err := range v.store.Dirs(ctx, prefix) {
				if err == nil && dir <= last {
					continue
				}
				if !yield(dir, err) {
					return
				}
			}
		}
	}, func(dir string) string { return dir })
}

// pages walks a list in steps: each step starts the list of the store anew after
// the last name and takes a page of it.
func pages[T any](ctx context.Context, v *view, verb, prefix string,
	list func(ctx context.Context, last string) iter.Seq2[T, error], name func(T) string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		last := ""
		for {
			var page []T
			err := v.s.do(ctx, &call{actor: v.a, verb: verb, key: prefix, title: fmt.Sprintf("%s %s after %q", verb, prefix, last),
				effect: func(ctx context.Context) (string, error) {
					for x, err := range list(ctx, last) {
						if err != nil {
							return "", err
						}
						if page = append(page, x); len(page) == v.s.cfg.Page {
							break
						}
					}
					return fmt.Sprintf("%d names", len(page)), nil
				}})
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, x := range page {
				if !yield(x, nil) {
					return
				}
			}
			if len(page) < v.s.cfg.Page {
				return
			}
			last = name(page[len(page)-1])
		}
	}
}

func spanTitle(s objstore.Span) string {
	var t string
	if s.Offset != 0 || s.Length != 0 {
		t += fmt.Sprintf(" [%d+%d]", s.Offset, s.Length)
	}
	if s.ETag != "" {
		t += " of " + short(s.ETag)
	}
	return t
}

func conditionTitle(c objstore.Condition) string {
	switch {
	case c.Absent():
		return " if absent"
	case c.Match() != "":
		return " if " + short(c.Match())
	}
	return ""
}

func short(etag string) string { return etag[:min(8, len(etag))] }
