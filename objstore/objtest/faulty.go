package objtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"sync"
	"testing"

	"github.com/siltstone-data/siltstone/objstore"
)

// Faulty is a store with planned faults. The first rule that befalls a call
// decides it.
type Faulty struct {
	store objstore.Store

	mu    sync.Mutex
	rules []*Rule
	late  []*lateWrite
}

type lateWrite struct {
	calls int // left until it takes effect
	apply func() error
}

var _ objstore.Store = (*Faulty)(nil)

// NewFaulty plans faults in a store. When the test ends, each rule that never
// fired fails it: a fault that did not happen tested nothing.
func NewFaulty(t testing.TB, store objstore.Store, rules ...*Rule) *Faulty {
	f := &Faulty{store: store, rules: rules}
	t.Cleanup(func() {
		for _, r := range f.Unfired() {
			t.Errorf("planned fault never happened: %s", r)
		}
	})
	return f
}

// Add plans another fault.
func (f *Faulty) Add(r *Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, r)
}

// Unfired gives the rules that befell no call so far.
func (f *Faulty) Unfired() []*Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*Rule
	for _, r := range f.rules {
		if r.fired == 0 {
			out = append(out, r)
		}
	}
	return out
}

// Flush lets all late writes take effect, and gives the outcomes.
func (f *Faulty) Flush() []error {
	f.mu.Lock()
	due := f.late
	f.late = nil
	f.mu.Unlock()
	var errs []error
	for _, w := range due {
		errs = append(errs, w.apply())
	}
	return errs
}

// whole is the rule of a call that nothing befalls.
var whole = &Rule{cut: -1}

// meet finds the rule for a call, after the late writes whose time has come.
func (f *Faulty) meet(verb, key string) (*Rule, error) {
	f.mu.Lock()
	var due []*lateWrite
	rest := f.late[:0]
	for _, w := range f.late {
		if w.calls--; w.calls <= 0 {
			due = append(due, w)
		} else {
			rest = append(rest, w)
		}
	}
	f.late = rest
	found := whole
	for _, r := range f.rules {
		if r.meets(verb, key) {
			found = r
			break
		}
	}
	f.mu.Unlock()
	for _, w := range due {
		_ = w.apply() // its caller has gone; what came of it shows in the store
	}
	if found.before != nil {
		if err := found.before(); err != nil {
			return nil, fmt.Errorf("%s %q: %w", verb, key, err)
		}
	}
	return found, nil
}

func (r *Rule) end(err error) error {
	if r.after != nil {
		return r.after(err)
	}
	return err
}

// Get opens an object, with the faults of its rule.
func (f *Faulty) Get(ctx context.Context, key string, s objstore.Span) (io.ReadCloser, objstore.Info, error) {
	rule, err := f.meet(Get, key)
	if err != nil {
		return nil, objstore.Info{}, err
	}
	r, info, err := f.store.Get(ctx, key, s)
	if err = rule.end(err); err != nil {
		if r != nil {
			r.Close()
		}
		return nil, objstore.Info{}, err
	}
	if rule.cut >= 0 {
		return &cutBody{ReadCloser: r, left: rule.cut}, info, nil
	}
	return r, info, nil
}

type cutBody struct {
	io.ReadCloser
	left int64
}

func (c *cutBody) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.ReadCloser.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// Put stores body, with the faults of its rule.
func (f *Faulty) Put(ctx context.Context, key string, body []byte, c objstore.Condition) (objstore.Info, error) {
	return f.write(Put, key, func() (objstore.Info, error) {
		return f.store.Put(ctx, key, body, c)
	}, func() func() error {
		body, ctx := bytes.Clone(body), context.WithoutCancel(ctx)
		return func() error { _, err := f.store.Put(ctx, key, body, c); return err }
	})
}

// Upload stores what r holds, with the faults of its rule.
func (f *Faulty) Upload(ctx context.Context, key string, r io.ReadSeeker, size int64, c objstore.Condition) (objstore.Info, error) {
	return f.write(Upload, key, func() (objstore.Info, error) {
		return f.store.Upload(ctx, key, r, size, c)
	}, func() func() error {
		body, err := objstore.ReadExactly(r, size)
		ctx := context.WithoutCancel(ctx)
		return func() error {
			if err == nil {
				_, err = f.store.Upload(ctx, key, bytes.NewReader(body), size, c)
			}
			return err
		}
	})
}

func (f *Faulty) write(verb, key string, now func() (objstore.Info, error), later func() func() error) (objstore.Info, error) {
	rule, err := f.meet(verb, key)
	if err != nil {
		return objstore.Info{}, err
	}
	if rule.late > 0 {
		w := &lateWrite{calls: rule.late, apply: later()}
		f.mu.Lock()
		f.late = append(f.late, w)
		f.mu.Unlock()
		return objstore.Info{}, fmt.Errorf("%s %q: %w", verb, key, objstore.ErrUnknown)
	}
	info, err := now()
	if err = rule.end(err); err != nil {
		return objstore.Info{}, fmt.Errorf("%s %q: %w", verb, key, err)
	}
	return info, nil
}

// Delete removes an object, with the faults of its rule.
func (f *Faulty) Delete(ctx context.Context, key string) error {
	rule, err := f.meet(Delete, key)
	if err != nil {
		return err
	}
	return rule.end(f.store.Delete(ctx, key))
}

// List lists, with the faults of its rule.
func (f *Faulty) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return faultySeq(f, List, prefix, f.store.List(ctx, prefix, after))
}

// Dirs lists directories, with the faults of its rule.
func (f *Faulty) Dirs(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return faultySeq(f, Dirs, prefix, f.store.Dirs(ctx, prefix))
}

func faultySeq[T any](f *Faulty, verb, prefix string, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		rule, err := f.meet(verb, prefix)
		if err != nil {
			yield(none, err)
			return
		}
		left := rule.cut
		for x, err := range seq {
			if left == 0 {
				break
			}
			left--
			if !yield(x, err) {
				return
			}
		}
		err = rule.end(nil)
		if rule.cut >= 0 {
			err = fmt.Errorf("%s %q: %w", verb, prefix, io.ErrUnexpectedEOF)
		}
		if err != nil {
			yield(none, err)
		}
	}
}
