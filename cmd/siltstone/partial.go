package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// What an export that can be resumed keeps beside its file until it is done.
const (
	partialSuffix = ".partial" // its bytes so far
	stateSuffix   = ".resume"  // a resumeState
)

// partial is a file that outlives its process until it is whole. Its bytes count
// up to where its state says; what a process wrote after that is cut off by the
// next one.
type partial struct {
	*os.File
	target string // the file's name in the end
	lock   *flock.Flock
	state  resumeState
	begun  bool      // there is a state
	sum    hash.Hash // of the bytes that count
	gone   bool      // the file has its name already, or was given up
}

// openPartial opens what an earlier export has left for a file, or begins.
func openPartial(path string) (*partial, error) {
	target, old, err := outputTarget(path)
	if err == nil && old != nil && !old.Mode().IsRegular() {
		err = exit(exitUsage, errors.New("--resume: it is no regular file"))
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	p := &partial{target: target, lock: flock.New(target+partialSuffix, flock.SetPermissions(0o666)), sum: sha256.New()}
	if err := p.open(); err != nil {
		p.discard()
		return nil, err
	}
	return p, nil
}

func (p *partial) open() error {
	ok, err := p.lock.TryLock()
	if err != nil {
		return fmt.Errorf("write %s: %w", p.target, err)
	}
	if !ok {
		return exit(exitRefused, fmt.Errorf("%s: another export writes it", p.target))
	}
	if p.File, err = os.OpenFile(p.target+partialSuffix, os.O_RDWR, 0); err != nil {
		return err
	}
	if same, err := p.locked(); err != nil || !same {
		return exit(exitRefused, errors.Join(fmt.Errorf("%s: another export has just written it", p.target), err))
	}
	p.sweep()
	raw, err := os.ReadFile(p.target + stateSuffix)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return p.fresh()
	case err != nil:
		return err
	}
	if p.state, err = decodeResume(raw); err != nil {
		return fmt.Errorf("%w: read %s: %w; %s", errResume, p.target+stateSuffix, err, p.anew())
	}
	p.begun = true
	if p.state.Done != nil {
		return p.whole()
	}
	if err := p.check(); err != nil {
		return fmt.Errorf("%w: %w; %s", errResume, err, p.anew())
	}
	return nil
}

// locked reports whether the lock is on the file that has the name: another
// process may have renamed it while this one waited.
func (p *partial) locked() (bool, error) {
	has, err := p.lock.Stat()
	if err != nil {
		return false, err
	}
	is, err := p.Stat()
	return err == nil && os.SameFile(has, is), err
}

// sweep removes states that were never finished.
func (p *partial) sweep() {
	pattern := filepath.Join(filepath.Dir(p.target), "."+escapeGlob(filepath.Base(p.target)+stateSuffix)+".*.tmp")
	names, _ := filepath.Glob(pattern)
	for _, name := range names {
		_ = os.Remove(name)
	}
}

// escapeGlob lets a name stand for itself in a pattern.
func escapeGlob(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// fresh begins; a file that nobody vouches for may be somebody's.
func (p *partial) fresh() error {
	info, err := p.Stat()
	if err != nil {
		return err
	}
	if info.Size() > 0 {
		return fmt.Errorf("%w: %s is there, and no %s says what it holds; remove it to start anew", errResume, p.target+partialSuffix, filepath.Base(p.target+stateSuffix))
	}
	return nil
}

func (p *partial) anew() string {
	return fmt.Sprintf("remove %s and %s to start anew", p.target+stateSuffix, filepath.Base(p.target+partialSuffix))
}

// check compares the bytes that count with the state, and cuts off the others.
func (p *partial) check() error {
	if err := p.digest(p.File); err != nil {
		return err
	}
	if err := p.Truncate(p.state.Bytes); err != nil {
		return err
	}
	_, err := p.Seek(p.state.Bytes, io.SeekStart)
	return err
}

// digest reads the bytes that count.
func (p *partial) digest(f *os.File) error {
	p.sum.Reset()
	n, err := io.Copy(p.sum, io.LimitReader(f, p.state.Bytes))
	switch {
	case err != nil:
		return err
	case n < p.state.Bytes:
		return fmt.Errorf("%s has %d bytes, and %d were written", f.Name(), n, p.state.Bytes)
	case hex.EncodeToString(p.sum.Sum(nil)) != p.state.SHA256:
		return fmt.Errorf("%s has other bytes than were written", f.Name())
	}
	return nil
}

// whole finds the bytes of an export that was done but for its name, or for what
// comes after that.
func (p *partial) whole() error {
	err := p.digest(p.File)
	if err == nil {
		return p.Truncate(p.state.Bytes)
	}
	f, ferr := os.Open(p.target)
	if ferr == nil {
		defer f.Close()
		ferr = p.digest(f)
	}
	if ferr != nil {
		return fmt.Errorf("%w: it was done, and %w; %s", errResume, errors.Join(err, ferr), p.anew())
	}
	p.gone = true
	return os.Remove(p.target + partialSuffix) // empty: the lock has made it
}

// save stores a state, after the bytes that it counts.
func (p *partial) save(s resumeState) error {
	if err := p.Sync(); err != nil {
		return err
	}
	exportStep("synced")
	raw, err := s.encode()
	if err == nil {
		err = writeWhole(p.target+stateSuffix, raw)
	}
	if err != nil {
		return fmt.Errorf("keep how far the export is: %w", err)
	}
	p.state, p.begun = s, true
	exportStep("saved")
	return nil
}

// commit gives the file its name.
func (p *partial) commit() error {
	if p.gone {
		return nil
	}
	if old, err := os.Stat(p.target); err == nil {
		if err := p.Chmod(old.Mode().Perm()); err != nil {
			return err
		}
	}
	if err := os.Rename(p.target+partialSuffix, p.target); err != nil {
		return err
	}
	p.gone = true
	syncFolder(p.target)
	exportStep("renamed")
	return nil
}

// forget removes the state, the last trace of a file that has all it needs.
func (p *partial) forget() error { return removeFile(p.target + stateSuffix) }

func (p *partial) beside(suffix string, body []byte) error { return writeWhole(p.target+suffix, body) }
func (p *partial) without(suffix string) error             { return removeFile(p.target + suffix) }

// discard lets go of the file, which stays for the next process if it is begun.
func (p *partial) discard() {
	if p.File != nil {
		if info, err := p.Stat(); err == nil && info.Size() == 0 && !p.begun && !p.gone {
			_ = os.Remove(p.target + partialSuffix)
		}
		p.Close()
	}
	_ = p.lock.Close()
}

// exportStep is told how far an export that can be resumed is; tests end the
// process there.
var exportStep = func(step string) {}
