package cache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/objstore/cache"
)

var quiet = slog.New(slog.DiscardHandler)

func open(t testing.TB, dir string, maxBytes int64, m *cache.Metrics) *cache.Disk {
	t.Helper()
	d, err := cache.OpenDisk(cache.DiskConfig{Dir: dir, MaxBytes: maxBytes}, quiet, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func part(n int) cache.Key {
	return cache.Key{Object: "d/b/merged_00000.jsonl.gz", Version: "abc", Part: cache.Range(int64(n), 10)}
}

func content(n, size int) []byte { return bytes.Repeat([]byte{byte(n), byte(n >> 8)}, size/2) }

// get gives what the cache gives, and whether it had to be loaded.
func get(t testing.TB, d *cache.Disk, n, size int) (loaded bool) {
	t.Helper()
	got, err := d.Get(t.Context(), part(n), func() ([]byte, error) { loaded = true; return content(n, size), nil })
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, content(n, size)) {
		t.Fatalf("part %d has other bytes", n)
	}
	return loaded
}

// value gives a metric that has one label value.
func value(t testing.TB, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if m := f.GetMetric(); f.GetName() == "siltstone_cache_"+name && len(m) == 1 {
			return m[0].GetCounter().GetValue() + m[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// files gives the entries of a folder.
func files(t testing.TB, dir string) (paths []string, size int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Base(path) == "lock" {
			return err
		}
		info, err := e.Info()
		paths = append(paths, path)
		size += info.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths, size
}

func TestWhatWasLoadedOnceIsKeptAlsoForTheNextProcess(t *testing.T) {
	dir := t.TempDir()
	reg := prometheus.NewRegistry()
	m := cache.NewMetrics(reg)
	d := open(t, dir, 1<<20, m)
	if !get(t, d, 1, 1000) || get(t, d, 1, 1000) {
		t.Error("not loaded exactly once")
	}
	if h, miss := value(t, reg, "hits_total"), value(t, reg, "misses_total"); h != 1 || miss != 1 {
		t.Errorf("%v hits, %v misses", h, miss)
	}
	if b := value(t, reg, "bytes"); b != 4096 {
		t.Errorf("%v bytes", b)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if get(t, open(t, dir, 1<<20, m), 1, 1000) {
		t.Error("it was loaded again")
	}
	cache.NewMetrics(reg) // again on one registry
}

func TestAnotherVersionIsAnotherThing(t *testing.T) {
	d := open(t, t.TempDir(), 1<<20, nil)
	for _, key := range []cache.Key{{Object: "a", Version: "b", Part: "c"}, {Object: "ab", Part: "c"}, {Object: "a", Version: "bc"},
		{Object: "日本/../x\x00", Version: "50%"}, {}} {
		want := fmt.Sprint(key)
		got, err := d.Get(t.Context(), key, func() ([]byte, error) { return []byte(want), nil })
		if err != nil || string(got) != want {
			t.Errorf("%v: %q, %v", key, got, err)
		}
	}
}

func TestTheFolderStaysWithinItsBound(t *testing.T) {
	dir := t.TempDir()
	const bound = 100 << 10
	d := open(t, dir, bound, nil)
	for i := range 100 {
		get(t, d, i, 6000)
		get(t, d, 0, 6000) // in use all the time
		if _, size := files(t, dir); size > bound {
			t.Fatalf("%d bytes after %d entries", size, i)
		}
	}
	if get(t, d, 0, 6000) {
		t.Error("what was in use was given up")
	}
	if !get(t, d, 5, 6000) {
		t.Error("what was long not in use was kept")
	}
	d.Close()
	d = open(t, dir, bound/4, nil)
	if _, size := files(t, dir); size > bound/4 {
		t.Errorf("%d bytes under a lower bound", size)
	}
	// What is too large for the cache is not kept, and is given all the same.
	for range 2 {
		if !get(t, d, 1000, bound/4) {
			t.Error("a thing as large as the cache was kept")
		}
	}
}

// wound gives ways in which a crash or a disk leaves a file.
var wounds = map[string]func(r *rand.Rand, b []byte) []byte{
	"empty":        func(_ *rand.Rand, b []byte) []byte { return nil },
	"cut":          func(r *rand.Rand, b []byte) []byte { return b[:r.IntN(len(b))] },
	"zeros":        func(r *rand.Rand, b []byte) []byte { clear(b[r.IntN(len(b)):]); return b },
	"grown":        func(_ *rand.Rand, b []byte) []byte { return append(b, 0) },
	"a bit":        func(r *rand.Rand, b []byte) []byte { b[r.IntN(len(b))] ^= 1 << r.IntN(8); return b },
	"not an entry": func(_ *rand.Rand, b []byte) []byte { return []byte(strings.Repeat("x", len(b))) },
}

func TestATornFileIsNeverServed(t *testing.T) {
	for name, wound := range wounds {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 1))
			for _, reopened := range []bool{false, true} {
				for range 10 {
					dir := t.TempDir()
					d := open(t, dir, 1<<20, nil)
					get(t, d, 1, 500)
					paths, _ := files(t, dir)
					raw, err := os.ReadFile(paths[0])
					if err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(paths[0], wound(r, raw), 0o644); err != nil {
						t.Fatal(err)
					}
					if reopened {
						d.Close()
						d = open(t, dir, 1<<20, nil)
					}
					get(t, d, 1, 500) // which compares
					if get(t, d, 1, 500) {
						t.Error("the whole entry was not kept")
					}
					d.Close()
				}
			}
		})
	}
}

func TestAFileUnderAnothersNameIsNotServed(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, 1<<20, nil)
	get(t, d, 1, 100)
	one, _ := files(t, dir)
	get(t, d, 2, 100)
	both, _ := files(t, dir)
	for _, p := range both {
		if p != one[0] {
			if err := os.Rename(p, one[0]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !get(t, d, 1, 100) || !get(t, d, 2, 100) {
		t.Error("served from the wrong file")
	}
}

func TestLeftoversOfADeadProcessGo(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, 1<<20, nil).Close()
	if err := os.WriteFile(filepath.Join(dir, "tmp", "half"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	open(t, dir, 1<<20, nil)
	if paths, _ := files(t, dir); len(paths) > 0 {
		t.Error(paths)
	}
}

func TestAFolderHasOneProcess(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, 1<<20, nil)
	_, err := cache.OpenDisk(cache.DiskConfig{Dir: dir, MaxBytes: 1}, quiet, nil)
	if !errors.Is(err, cache.ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Error(err)
	}
	d.Close()
	open(t, dir, 1<<20, nil)
}

func TestABadConfigurationIsRefusedByName(t *testing.T) {
	for _, cfg := range []cache.DiskConfig{{}, {Dir: t.TempDir()}, {Dir: t.TempDir(), MaxBytes: -1}, {MaxBytes: 1}} {
		if _, err := cache.OpenDisk(cfg, quiet, nil); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
}

func TestADiskThatCannotBeWrittenIsNoError(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, 1<<20, nil)
	if err := os.RemoveAll(filepath.Join(dir, "tmp")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if !get(t, d, 1, 100) {
			t.Error("kept nowhere, and not loaded")
		}
	}
}

func TestManyAsk(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, 200<<10, nil) // room for a few
	var loads atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(g)))
			for range 500 {
				n := r.IntN(60)
				got, err := d.Get(t.Context(), part(n), func() ([]byte, error) { loads.Add(1); return content(n, 5000), nil })
				if err != nil || !bytes.Equal(got, content(n, 5000)) {
					t.Errorf("part %d: %d bytes, %v", n, len(got), err)
				}
				if r.IntN(50) == 0 {
					d.Drop(part(r.IntN(60)))
				}
			}
		})
	}
	wg.Wait()
	if _, size := files(t, dir); size > 200<<10 {
		t.Errorf("%d bytes", size)
	}
	t.Logf("%d loads of 4000 gets", loads.Load())
}

func TestOneLoadServesAllWhoWait(t *testing.T) {
	d := open(t, t.TempDir(), 1<<20, nil)
	loading, release := make(chan struct{}), make(chan struct{})
	var loads atomic.Int64
	load := func() ([]byte, error) {
		if loads.Add(1) == 1 {
			close(loading)
		}
		<-release
		return []byte("x"), nil
	}
	first, cancel := context.WithCancelCause(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { d.Get(first, part(1), load) })
	<-loading
	for range 5 {
		wg.Go(func() {
			if got, err := d.Get(t.Context(), part(1), load); err != nil || string(got) != "x" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	gone := errors.New("gone away")
	other, leave := context.WithCancelCause(t.Context())
	leave(gone)
	if _, err := d.Get(other, part(1), load); err != nil && !errors.Is(err, gone) {
		t.Error(err)
	}
	close(release)
	wg.Wait()
	cancel(nil)
	if n := loads.Load(); n != 1 {
		t.Errorf("%d loads", n)
	}
}

func TestWhoGoesAwayFailsNobodyElse(t *testing.T) {
	m := cache.NewMemory[string, string]("test", 100, nil)
	loading := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := m.Get(ctx, "k", func() (string, int64, error) {
			close(loading)
			<-ctx.Done()
			return "", 0, ctx.Err()
		})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	<-loading
	wg.Go(func() {
		v, err := m.Get(t.Context(), "k", func() (string, int64, error) { return "v", 1, nil })
		if v != "v" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	})
	cancel()
	wg.Wait()
}

func TestMemoryIsBounded(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := cache.NewMemory[int, int]("test", 100, cache.NewMetrics(reg))
	load := func(k int) (loaded bool) {
		v, err := m.Get(t.Context(), k, func() (int, int64, error) { loaded = true; return k * 2, 30, nil })
		if err != nil || v != k*2 {
			t.Errorf("%d: %d, %v", k, v, err)
		}
		return loaded
	}
	for k := range 10 {
		load(k)
		load(0)
	}
	if load(0) || !load(3) {
		t.Error("not the one used longest ago was given up")
	}
	if b := value(t, reg, "bytes"); b > 100 {
		t.Errorf("%v bytes", b)
	}
	m.Drop(0)
	if !load(0) {
		t.Error("dropped and still there")
	}
	if _, err := m.Get(t.Context(), 77, func() (int, int64, error) { return 0, 0, fs.ErrClosed }); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	if _, ok := m.Peek(77); ok {
		t.Error("an error was kept")
	}
	m.Put(300, 1, 1000)
	if _, ok := m.Peek(300); ok {
		t.Error("a value larger than the cache was kept")
	}
}

// TestAProcessKilledWhileItWritesLeavesOnlyWholeEntries kills a process that
// fills a folder, again and again, and reads what it left.
func TestAProcessKilledWhileItWritesLeavesOnlyWholeEntries(t *testing.T) {
	if dir := os.Getenv("SILTSTONE_TEST_FILL"); dir != "" {
		d := open(t, dir, 1<<20, nil)
		fmt.Println("filling")
		for n := 0; ; n++ {
			get(t, d, n%1000, 20_000)
		}
	}
	dir := t.TempDir()
	for range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "SILTSTONE_TEST_FILL="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1)
		if _, err := out.Read(buf); err != nil {
			t.Fatal(err)
		}
		for { // until the folder is in use
			if paths, _ := filepath.Glob(filepath.Join(dir, "??", "*")); len(paths) > 20 {
				break
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		d := open(t, dir, 64<<20, nil) // room for all, so that reading pushes nothing out
		kept := 0
		for n := range 1000 {
			if !get(t, d, n, 20_000) {
				kept++
			}
		}
		if kept == 0 {
			t.Error("nothing was left")
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkDiskHit(b *testing.B) {
	d := open(b, b.TempDir(), 1<<20, nil)
	body := make([]byte, 57<<10)
	load := func() ([]byte, error) { return body, nil }
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := d.Get(b.Context(), part(1), load); err != nil {
			b.Fatal(err)
		}
	}
}
