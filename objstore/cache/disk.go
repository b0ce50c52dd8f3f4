package cache

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// ErrInUse reports a cache folder that another process has.
var ErrInUse = errors.New("the cache folder is used by another process")

// DiskConfig holds the settings of a Disk.
type DiskConfig struct {
	Dir      string // made where it is missing; it belongs to the cache alone
	MaxBytes int64  // at most so much is kept
}

// Validate names the field that makes a configuration unusable.
func (c DiskConfig) Validate() error {
	switch {
	case c.Dir == "":
		return errors.New("cache: Dir is empty")
	case c.MaxBytes <= 0:
		return fmt.Errorf("cache: MaxBytes is %d, it must be positive", c.MaxBytes)
	}
	return nil
}

const (
	// blockBytes is what a file system gives a file at a time: small entries
	// count as what they take.
	blockBytes = 4096
	// touchAge is how long ago an entry was last noted as used before that is
	// noted again. Notes are for the next process alone.
	touchAge = 10 * time.Minute
)

// Disk keeps bytes of immutable objects in a folder, one file for each entry. An
// entry of 64 KiB is a file of 64 KiB, so that it appears whole by a rename,
// goes by a remove and needs no book-keeping that a crash could break; a folder
// of 10 GB has some 150,000, in 256 subfolders. What lies there is checked when
// it is read, never trusted. One process at a time may use a folder.
type Disk struct {
	dir    string
	lock   *flock.Flock
	log    *slog.Logger
	counts counts
	flight flight[keySum, []byte]

	mu     sync.Mutex
	lru    *lru[keySum, *used]
	warned bool
}

// used is when an entry was last noted as used.
type used struct{ at time.Time }

// OpenDisk takes a folder, with what an earlier process left there. m may be nil.
func OpenDisk(cfg DiskConfig, log *slog.Logger, m *Metrics) (*Disk, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(cfg.Dir) // a server in the process may change its working directory
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return nil, fmt.Errorf("make cache folder: %w", err)
	}
	d := &Disk{dir: dir, lock: flock.New(filepath.Join(dir, "lock")), log: log,
		counts: m.of("disk"), lru: newLRU[keySum, *used](cfg.MaxBytes)}
	ok, err := d.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock cache folder %s: %w", cfg.Dir, err)
	}
	if !ok {
		return nil, fmt.Errorf("%w: %s; give each process a folder of its own", ErrInUse, cfg.Dir)
	}
	if err := d.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open cache folder %s: %w", cfg.Dir, err), d.lock.Unlock())
	}
	return d, nil
}

// Close gives the folder back; what is in it stays for the next process.
func (d *Disk) Close() error { return d.lock.Unlock() }

// load finds out what lies in the folder. Half-written files of a process that
// died go.
func (d *Disk) load() error {
	if err := os.RemoveAll(d.temp()); err != nil {
		return err
	}
	if err := os.Mkdir(d.temp(), 0o755); err != nil {
		return err
	}
	type found struct {
		key  keySum
		size int64
		at   time.Time
	}
	var all []found
	subs, err := os.ReadDir(d.dir)
	if err != nil {
		return err
	}
	for _, sub := range subs {
		if len(sub.Name()) != 2 || !sub.IsDir() {
			continue // the lock, or not ours
		}
		files, err := os.ReadDir(filepath.Join(d.dir, sub.Name()))
		if err != nil {
			return err
		}
		for _, f := range files {
			var key keySum
			raw, err := hex.DecodeString(sub.Name() + f.Name())
			if err != nil || copy(key[:], raw) != len(key) || len(raw) != len(key) {
				continue // not ours
			}
			info, err := f.Info()
			if err != nil {
				continue
			}
			all = append(all, found{key, info.Size(), info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b found) int { return a.at.Compare(b.at) })
	for _, f := range all {
		d.keep(f.key, f.size, f.at)
	}
	return nil
}

func (d *Disk) temp() string { return filepath.Join(d.dir, "tmp") }

func (d *Disk) file(k keySum) string { return filepath.Join(d.dir, filepath.FromSlash(k.path())) }

// Get gives the bytes of a key, from load where the folder does not have them.
// The caller may keep them and must not change them.
func (d *Disk) Get(ctx context.Context, key Key, load func() ([]byte, error)) ([]byte, error) {
	k := key.sum()
	return d.flight.do(ctx, k, func() ([]byte, error) {
		if content, ok := d.read(k); ok {
			d.counts.hits.Inc()
			return content, nil
		}
		d.counts.misses.Inc()
		content, err := load()
		if err == nil {
			d.write(k, content)
		}
		return content, err
	})
}

// Drop forgets what is kept under a key: it proved to be wrong.
func (d *Disk) Drop(key Key) { d.remove(key.sum()) }

func (d *Disk) read(k keySum) ([]byte, bool) {
	d.mu.Lock()
	u, ok := d.lru.get(k)
	touch := ok && time.Since(u.at) > touchAge
	if touch {
		u.at = time.Now()
	}
	d.mu.Unlock()
	if !ok {
		return nil, false
	}
	b, err := os.ReadFile(d.file(k))
	if err != nil {
		d.remove(k)
		return nil, false
	}
	content, ok := decodeEntry(k, b)
	if !ok {
		d.counts.failures.Inc()
		d.remove(k)
		return nil, false
	}
	if touch {
		now := time.Now()
		_ = os.Chtimes(d.file(k), now, now) // only the order of eviction after a restart
	}
	return content, true
}

// write keeps content. A cache that cannot, because the disk is full for
// example, is slow and nothing worse.
func (d *Disk) write(k keySum, content []byte) {
	if int64(len(content)) > d.lru.max/8 {
		return // it would push out too much for one thing
	}
	entry := encodeEntry(k, content)
	err := d.place(k, entry)
	if err == nil {
		d.keep(k, int64(len(entry)), time.Now())
		return
	}
	d.counts.failures.Inc()
	d.mu.Lock()
	first := !d.warned
	d.warned = true
	d.mu.Unlock()
	if first {
		d.log.Warn("cannot write to the cache; reading goes on without", "dir", d.dir, "error", err)
	}
}

// place writes a whole file under a name of its own and renames it: a process
// killed in between leaves no part of an entry under its final name.
func (d *Disk) place(k keySum, entry []byte) error {
	f, err := os.CreateTemp(d.temp(), "")
	if err != nil {
		return err
	}
	_, err = f.Write(entry)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), d.file(k))
		if errors.Is(err, fs.ErrNotExist) { // the first entry of its subfolder
			if err = os.MkdirAll(filepath.Dir(d.file(k)), 0o755); err == nil {
				err = os.Rename(f.Name(), d.file(k))
			}
		}
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// keep notes an entry, and removes those that have to make room for it.
func (d *Disk) keep(k keySum, size int64, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	size = (size + blockBytes - 1) / blockBytes * blockBytes
	for _, gone := range d.lru.put(k, &used{at}, size) {
		d.counts.evictions.Inc()
		d.unlink(gone.key)
	}
	d.counts.bytes.Set(float64(d.lru.size))
}

func (d *Disk) remove(k keySum) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lru.drop(k)
	d.unlink(k)
	d.counts.bytes.Set(float64(d.lru.size))
}

// unlink removes a file under d.mu, so that none which was noted again
// meanwhile goes.
func (d *Disk) unlink(k keySum) {
	if err := os.Remove(d.file(k)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.counts.failures.Inc()
	}
}
