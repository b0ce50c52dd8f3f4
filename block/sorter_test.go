package block_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/siltstone-data/siltstone/block"
)

func files(t *testing.T, dir string) (paths []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// sortAll checks that what a sorter gives is a stable sort of what it got.
func sortAll(t *testing.T, s *block.Sorter, records []block.Record) {
	t.Helper()
	var key, payload []byte // reused, as callers do
	for _, r := range records {
		key, payload = append(key[:0], r.Key...), append(payload[:0], r.Payload...)
		if err := s.Add(key, payload); err != nil {
			t.Fatal(err)
		}
	}
	if s.Len() != int64(len(records)) {
		t.Fatalf("%d records of %d", s.Len(), len(records))
	}
	sorted, err := s.Sort()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(records, func(a, b block.Record) int { return bytes.Compare(a.Key, b.Key) })
	for i, want := range records {
		got, err := sorted.Next()
		if err != nil {
			t.Fatalf("record %d of %d: %v", i, len(records), err)
		}
		if !bytes.Equal(got.Key, want.Key) || !bytes.Equal(got.Payload, want.Payload) {
			t.Fatalf("record %d: got %.40q %.40q, want %.40q %.40q", i, got.Key, got.Payload, want.Key, want.Payload)
		}
	}
	for range 2 {
		if _, err := sorted.Next(); err != io.EOF {
			t.Fatalf("at the end: %v", err)
		}
	}
}

func randomRecords(rng *rand.Rand, n, keys, size int) (out []block.Record) {
	for i := range n {
		r := block.Record{Key: make([]byte, rng.IntN(12)), Payload: make([]byte, rng.IntN(size+1))}
		for j := range r.Key {
			r.Key[j] = byte(rng.IntN(keys))
		}
		if len(r.Payload) >= 8 {
			binary.BigEndian.PutUint64(r.Payload, uint64(i))
		}
		out = append(out, r)
	}
	return out
}

func TestSortingIsStableInMemoryAndOnDisk(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		records := randomRecords(rng, rng.IntN(3000), 1+rng.IntN(4), []int{0, 1, 8, 100, 3000}[rng.IntN(5)])
		budget := []int64{1, 3_000, 20_000, 100_000, 0}[rng.IntN(5)]
		if budget < 20_000 {
			records = records[:min(len(records), int(100+budget/5))] // a file for one or a few
		}
		dir := t.TempDir()
		s := block.NewSorter(dir, budget)
		sortAll(t, s, records)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if left := files(t, dir); len(left) > 0 {
			t.Fatalf("left behind: %q", left)
		}
		if err := s.Close(); err != nil {
			t.Fatalf("closed twice: %v", err)
		}
	}
}

func TestNothingIsWrittenWhileAllFits(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not there")
	s := block.NewSorter(dir, 1<<20)
	defer s.Close()
	sortAll(t, s, randomRecords(rand.New(rand.NewPCG(1, 1)), 5000, 4, 100))
}

func TestHundredsOfRunsLieInOneFile(t *testing.T) {
	dir := t.TempDir()
	s := block.NewSorter(dir, 2000)
	defer s.Close()
	var records []block.Record
	for i := range 15_000 {
		records = append(records, block.Record{Key: fmt.Appendf(nil, "%03d", i*7919%1000), Payload: fmt.Appendf(nil, "%d", i)})
	}
	most := 0
	for i, r := range records {
		if err := s.Add(r.Key, r.Payload); err != nil {
			t.Fatal(err)
		}
		if i%1000 == 0 {
			most = max(most, len(files(t, dir)))
		}
	}
	sorted, err := s.Sort()
	if err != nil {
		t.Fatal(err)
	}
	if left := len(files(t, dir)); most != 1 || left != 1 {
		t.Errorf("%d files, then %d", most, left)
	}
	slices.SortStableFunc(records, func(a, b block.Record) int { return bytes.Compare(a.Key, b.Key) })
	for i, want := range records {
		got, err := sorted.Next()
		if err != nil || !bytes.Equal(got.Payload, want.Payload) {
			t.Fatalf("record %d: %s, want %s (%v)", i, got.Payload, want.Payload, err)
		}
	}
}

func TestARecordMayBeLargerThanTheBudget(t *testing.T) {
	s := block.NewSorter(t.TempDir(), 64<<10)
	defer s.Close()
	var records []block.Record
	for i := range 12 {
		records = append(records,
			block.Record{Key: fmt.Appendf(nil, "%02d", 11-i), Payload: bytes.Repeat([]byte{byte(i)}, 3<<20)},
			block.Record{Key: fmt.Appendf(nil, "%02d", 11-i), Payload: []byte("small")})
	}
	sortAll(t, s, records)
}

func TestMemoryStaysWithinTheBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("large")
	}
	for _, size := range []int{40, 2000, 300_000} {
		s := block.NewSorter(t.TempDir(), 8<<20)
		payload := make([]byte, size)
		peak, base := uint64(0), heap()
		measure := func() { peak = max(peak, heap()-min(base, heap())) }
		total := 64 << 20
		for i := 0; i*size < total; i++ {
			if err := s.Add(binary.BigEndian.AppendUint32(nil, uint32(i*2654435761)), payload); err != nil {
				t.Fatal(err)
			}
			if i*size%(total/32) < size {
				measure()
			}
		}
		sorted, err := s.Sort()
		if err != nil {
			t.Fatal(err)
		}
		n := int64(0)
		for ; ; n++ {
			if _, err := sorted.Next(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if n%(s.Len()/8) == 0 {
				measure()
			}
		}
		t.Logf("records of %d bytes: peak %d KiB", size, peak>>10)
		if peak > 12<<20 {
			t.Errorf("records of %d bytes: %d MiB in use with a budget of 8", size, peak>>20)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestAnErrorOfTheDiskStaysAndIsNamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	s := block.NewSorter(dir, 1000)
	defer s.Close()
	var err error
	for range 1000 {
		if err = s.Add([]byte("key"), make([]byte, 100)); err != nil {
			break
		}
	}
	if !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("got %v", err)
	}
	if again := s.Add(nil, nil); !errors.Is(again, os.ErrNotExist) {
		t.Errorf("then Add gave %v", again)
	}
	if _, again := s.Sort(); !errors.Is(again, os.ErrNotExist) {
		t.Errorf("then Sort gave %v", again)
	}
}

func TestAFullDiskIsReportedAsItIs(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/dev/full", filepath.Join(dir, "probe")); err != nil {
		t.Skip(err)
	}
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	restore := block.CreateRunsWith(func(string, string) (*os.File, error) {
		return os.OpenFile(filepath.Join(dir, "probe"), os.O_WRONLY, 0)
	})
	defer restore()
	s := block.NewSorter(dir, 1000)
	defer s.Close()
	var err error
	for range 10_000 {
		if err = s.Add([]byte("key"), make([]byte, 100)); err != nil {
			break
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
}

func TestADamagedRunIsFound(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"flipped bit": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"cut":         func(b []byte) []byte { return b[:len(b)/2] },
		"empty":       func([]byte) []byte { return nil },
		"longer":      func(b []byte) []byte { return append(b, b...) },
	} {
		dir := t.TempDir()
		s := block.NewSorter(dir, 4000)
		rng := rand.New(rand.NewPCG(7, 7))
		for _, r := range randomRecords(rng, 2000, 200, 60) {
			if err := s.Add(r.Key, r.Payload); err != nil {
				t.Fatal(err)
			}
		}
		run := files(t, dir)[0]
		b, err := os.ReadFile(run)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(run, damage(b), 0o600); err != nil {
			t.Fatal(err)
		}
		sorted, err := s.Sort()
		for err == nil {
			_, err = sorted.Next()
		}
		if err == io.EOF {
			t.Errorf("%s: not found", name)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if left := files(t, dir); len(left) > 0 {
			t.Errorf("%s: left behind: %q", name, left)
		}
	}
}

func TestKeysAreGivenAsOftenAsAskedFor(t *testing.T) {
	for _, budget := range []int64{1, 3_000, 20_000, 1 << 20} {
		for _, lanes := range []int{1, 3} {
			dir := t.TempDir()
			s := block.NewSorter(dir, budget)
			rng := rand.New(rand.NewPCG(uint64(budget), uint64(lanes)))
			records := randomRecords(rng, 400, 200, 300)
			ways := s.Lanes(lanes)
			for i, r := range records {
				r.Key = binary.BigEndian.AppendUint32(r.Key, uint32(i)) // keys are unique: lanes have no order
				records[i] = r
				if err := ways[rng.IntN(lanes)].Add(r.Key, r.Payload); err != nil {
					t.Fatal(err)
				}
			}
			slices.SortFunc(records, func(a, b block.Record) int { return bytes.Compare(a.Key, b.Key) })
			for range 3 {
				keys, err := s.Keys()
				if err != nil {
					t.Fatal(err)
				}
				for i, want := range records {
					if got, err := keys.Next(); err != nil || !bytes.Equal(got, want.Key) {
						t.Fatalf("budget %d, %d lanes: key %d is %q, want %q (%v)", budget, lanes, i, got, want.Key, err)
					}
				}
				if _, err := keys.Next(); err != io.EOF {
					t.Fatal(err)
				}
			}
			sorted, err := s.Sort()
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range records {
				got, err := sorted.Next()
				if err != nil || !bytes.Equal(got.Key, want.Key) || !bytes.Equal(got.Payload, want.Payload) {
					t.Fatalf("budget %d, %d lanes: record %d is %q, want %q (%v)", budget, lanes, i, got.Key, want.Key, err)
				}
			}
			if _, err := s.Keys(); err == nil {
				t.Error("Keys after Sort")
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if left := files(t, dir); len(left) > 0 {
				t.Fatalf("left behind: %q", left)
			}
		}
	}
}

func TestLanesAreFilledAtTheSameTime(t *testing.T) {
	s := block.NewSorter(t.TempDir(), 50_000)
	defer s.Close()
	const n = 3000
	var wg sync.WaitGroup
	for i, lane := range s.Lanes(4) {
		wg.Go(func() {
			for j := range n {
				key := binary.BigEndian.AppendUint32(nil, uint32((j*4+i)*2654435761))
				if err := lane.Add(key, bytes.Repeat(key, 10)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if s.Len() != 4*n {
		t.Fatal(s.Len())
	}
	sorted, err := s.Sort()
	if err != nil {
		t.Fatal(err)
	}
	var last []byte
	for i := range 4 * n {
		rec, err := sorted.Next()
		if err != nil || i > 0 && bytes.Compare(rec.Key, last) <= 0 || !bytes.Equal(rec.Payload, bytes.Repeat(rec.Key, 10)) {
			t.Fatalf("record %d: %q after %q: %v", i, rec.Key, last, err)
		}
		last = append(last[:0], rec.Key...)
	}
	if _, err := sorted.Next(); err != io.EOF {
		t.Fatal(err)
	}
}

func TestASorterIsUsedInOneOrder(t *testing.T) {
	s := block.NewSorter(t.TempDir(), 0)
	if err := s.Add([]byte("a"), nil); err != nil {
		t.Fatal(err)
	}
	sorted, err := s.Sort()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Add([]byte("b"), nil); err == nil {
		t.Error("Add after Sort")
	}
	if _, err := s.Sort(); err == nil {
		t.Error("Sort after Sort")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := sorted.Next(); err == nil || err == io.EOF {
		t.Errorf("Next after Close: %v", err)
	}
	if err := s.Add([]byte("b"), nil); err == nil {
		t.Error("Add after Close")
	}
}
