package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/siltstone-data/siltstone/objstore"
)

// folder is a store over plain local files, without a server and without
// waiting for the disk: what is measured over it is the work of the engine.
type folder struct {
	dir string
	mu  sync.Mutex // conditions are checked under it: one process uses a folder
}

var _ objstore.Store = (*folder)(nil)

func (f *folder) path(key string) string { return filepath.Join(f.dir, filepath.FromSlash(key)) }

func describe(key string, i fs.FileInfo) objstore.Info {
	return objstore.Info{Key: key, Size: i.Size(), ETag: fmt.Sprintf("%x-%x", i.Size(), i.ModTime().UnixNano()), Modified: i.ModTime()}
}

// Get opens a file.
func (f *folder) Get(_ context.Context, key string, s objstore.Span) (io.ReadCloser, objstore.Info, error) {
	in, err := os.Open(f.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, objstore.Info{}, fmt.Errorf("get %q: %w", key, objstore.ErrNotFound)
	}
	if err != nil {
		return nil, objstore.Info{}, err
	}
	stat, err := in.Stat()
	if err != nil {
		return nil, objstore.Info{}, errors.Join(err, in.Close())
	}
	info := describe(key, stat)
	if s.ETag != "" && s.ETag != info.ETag {
		return nil, objstore.Info{}, errors.Join(fmt.Errorf("get %q: %w", key, objstore.ErrChanged), in.Close())
	}
	if s.Offset == 0 && s.Length == 0 {
		return in, info, nil
	}
	length := info.Size - s.Offset
	if s.Length > 0 {
		length = min(length, s.Length)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(in, s.Offset, length), in}, info, nil
}

// Put stores a file.
func (f *folder) Put(ctx context.Context, key string, body []byte, c objstore.Condition) (objstore.Info, error) {
	return f.Upload(ctx, key, strings.NewReader(string(body)), int64(len(body)), c)
}

// Upload stores a file under a name that it has only when it is whole.
func (f *folder) Upload(_ context.Context, key string, r io.ReadSeeker, size int64, c objstore.Condition) (objstore.Info, error) {
	path := f.path(key)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return objstore.Info{}, err
	}
	out, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return objstore.Info{}, err
	}
	defer os.Remove(out.Name())
	n, err := io.Copy(out, r)
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return objstore.Info{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	stat, err := os.Stat(path)
	switch {
	case c.Absent() && err == nil:
		return objstore.Info{}, objstore.ErrLost
	case c.Match() != "" && err != nil:
		return objstore.Info{}, objstore.ErrNotFound
	case c.Match() != "" && describe(key, stat).ETag != c.Match():
		return objstore.Info{}, objstore.ErrLost
	}
	if err := os.Rename(out.Name(), path); err != nil {
		return objstore.Info{}, err
	}
	if stat, err = os.Stat(path); err != nil {
		return objstore.Info{}, err
	}
	return describe(key, stat), nil
}

// List gives the files in byte order of their keys.
func (f *folder) List(_ context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		var found []objstore.Info
		dir := f.path(prefix[:strings.LastIndexByte(prefix, '/')+1])
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || d.IsDir() {
				return err
			}
			rel, err := filepath.Rel(f.dir, path)
			if err != nil {
				return err
			}
			key := filepath.ToSlash(rel)
			if !strings.HasPrefix(key, prefix) || key <= after || strings.HasPrefix(d.Name(), ".tmp-") {
				return nil
			}
			stat, err := d.Info()
			if err == nil {
				found = append(found, describe(key, stat))
			}
			return err
		})
		if err != nil {
			yield(objstore.Info{}, err)
			return
		}
		slices.SortFunc(found, func(a, b objstore.Info) int { return strings.Compare(a.Key, b.Key) })
		for _, i := range found {
			if !yield(i, nil) {
				return
			}
		}
	}
}

// Dirs gives the folders below a prefix.
func (f *folder) Dirs(_ context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		entries, err := os.ReadDir(f.path(prefix))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			yield("", err)
			return
		}
		for _, e := range entries {
			if e.IsDir() && !yield(prefix+e.Name()+"/", nil) {
				return
			}
		}
	}
}

// Delete removes a file.
func (f *folder) Delete(_ context.Context, key string) error {
	if err := os.Remove(f.path(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
