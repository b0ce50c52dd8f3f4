package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// output is where a command writes its data. What is written counts from commit
// on; discard gives it up, and does nothing after commit.
type output interface {
	io.Writer
	commit() error
	discard()
}

// stream is an output that others read while it is written: stdout, a pipe.
type stream struct{ io.Writer }

func (stream) commit() error { return nil }
func (stream) discard()      {}

// createOutput opens a file that appears under its name whole or not at all: it
// grows under another name in the same folder. A device or a pipe is written as
// it stands.
func createOutput(path string) (output, error) {
	target, old, err := outputTarget(path)
	var out output
	switch {
	case err != nil:
	case old == nil || old.Mode().IsRegular():
		out, err = createWhole(target, old)
	default:
		out, err = openDevice(target)
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return out, nil
}

// outputTarget follows links, so that the file a link points to is replaced and
// not the link, and says what is there, nil for nothing.
func outputTarget(path string) (string, fs.FileInfo, error) {
	target := path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		target = real
	}
	info, err := os.Stat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return target, nil, nil
	case err != nil:
		return "", nil, err
	case info.IsDir():
		return "", nil, errors.New("it is a folder")
	}
	return target, info, nil
}

// wholeFile grows beside its target and takes its name at the end.
type wholeFile struct {
	*os.File
	target string
}

// createWhole gives the file the mode of the one that it replaces.
func createWhole(target string, old fs.FileInfo) (*wholeFile, error) {
	name := filepath.Join(filepath.Dir(target), "."+filepath.Base(target)+"."+rand.Text()[:8]+".tmp")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) // as the umask allows
	if err != nil {
		return nil, err
	}
	w := &wholeFile{File: f, target: target}
	if old != nil {
		if err := f.Chmod(old.Mode().Perm()); err != nil {
			w.discard()
			return nil, err
		}
	}
	return w, nil
}

func (w *wholeFile) commit() error {
	err := w.Sync()
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(w.Name(), w.target)
	}
	if err != nil {
		_ = os.Remove(w.Name())
		w.File = nil
		return err
	}
	w.File = nil
	syncFolder(w.target)
	return nil
}

// syncFolder stores the name of a file, which is its folder's. Some file systems
// cannot sync one, and the file is whole either way.
func syncFolder(file string) {
	if dir, err := os.Open(filepath.Dir(file)); err == nil {
		_ = dir.Sync()
		dir.Close()
	}
}

// beside writes a file under the target's name with a suffix.
func (w *wholeFile) beside(suffix string, body []byte) error {
	return writeWhole(w.target+suffix, body)
}

// without removes such a file.
func (w *wholeFile) without(suffix string) error { return removeFile(w.target + suffix) }

// writeWhole writes a small file that appears whole or not at all.
func writeWhole(path string, body []byte) error {
	f, err := createWhole(path, nil)
	if err != nil {
		return err
	}
	defer f.discard()
	if _, err := f.Write(body); err != nil {
		return err
	}
	return f.commit()
}

// removeFile removes a file that may not be there.
func removeFile(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (w *wholeFile) discard() {
	if w.File == nil {
		return
	}
	w.Close()
	_ = os.Remove(w.Name())
	w.File = nil
}

// device is an output that cannot be replaced by another file.
type device struct{ *os.File }

func openDevice(path string) (output, error) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	return device{f}, nil
}

func (d device) commit() error { return d.Close() }
func (d device) discard()      { d.Close() }
