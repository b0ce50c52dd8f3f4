package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// durable makes names in folders survive a power cut. A file's name is in its
// folder, the folder's in the one above: syncing a file alone saves bytes that
// nobody can find.
type durable struct {
	root string // never needs syncing itself: it was there before

	mu    sync.Mutex
	known map[string]bool // folders whose names were synced, and not removed since

	sweep   sync.Mutex
	removed map[string]bool // folders that lost a name since they were last synced
}

// maxKnown bounds the memory for known folders; beyond it they are synced again.
const maxKnown = 100_000

func newDurable(root string) *durable {
	return &durable{root: root, known: map[string]bool{}, removed: map[string]bool{}}
}

// name makes the name of a new file durable: it syncs the file's folder, and each
// folder above up to one whose own name is known to be durable. The caller
// excludes the removal of the file, and so of the folders.
func (d *durable) name(path string) error {
	var fresh []string
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if err := syncPath(dir); err != nil {
			return err
		}
		if dir == d.root || d.knows(dir) {
			break
		}
		fresh = append(fresh, dir)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known)+len(fresh) > maxKnown {
		clear(d.known)
	}
	for _, dir := range fresh {
		d.known[dir] = true
	}
	return nil
}

func (d *durable) knows(dir string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[dir]
}

// removing is called before a file is removed, and with it perhaps the folders
// that are empty then: none of those above it counts as known any longer.
func (d *durable) removing(path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for dir := filepath.Dir(path); dir != d.root && strings.HasPrefix(dir, d.root); dir = filepath.Dir(dir) {
		delete(d.known, dir)
	}
}

// gone is called when a file was removed, before that is answered.
func (d *durable) gone(path string) {
	d.sweep.Lock()
	defer d.sweep.Unlock()
	d.removed[filepath.Dir(path)] = true
}

// removals makes earlier removals durable. It is called before something new
// becomes visible: a removal must not come back when what was written after it
// stays. Many removals from one folder cost one sync.
func (d *durable) removals() error {
	d.sweep.Lock()
	defer d.sweep.Unlock()
	for dir := range d.removed {
		if err := syncNearest(dir, d.root); err != nil {
			return err
		}
		delete(d.removed, dir)
	}
	return nil
}

// syncNearest syncs a folder, or the nearest one above it that is left.
func syncNearest(dir, root string) error {
	for {
		err := syncPath(dir)
		if !errors.Is(err, fs.ErrNotExist) || dir == root {
			return err
		}
		dir = filepath.Dir(dir)
	}
}

// syncPath syncs a file or folder.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}
