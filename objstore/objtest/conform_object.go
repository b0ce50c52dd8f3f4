package objtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/siltstone-data/siltstone/objstore"
)

func testPutGet(t *testing.T, s objstore.Store) {
	for _, size := range []int64{1, 10, 4096, 1 << 20} {
		key := fmt.Sprintf("d/%d", size)
		body := randomBytes(size)
		given := bytes.Clone(body)
		info, err := s.Put(t.Context(), key, given, objstore.Condition{})
		if err != nil {
			t.Fatal(err)
		}
		clear(given) // the body is not retained
		if info.Key != key || info.Size != size || info.ETag == "" || strings.Contains(info.ETag, `"`) || info.Modified.IsZero() {
			t.Errorf("put gave %+v", info)
		}
		holds(t, s, key, body, info)
	}
	put(t, s, "d/10", "again")
	if got, _ := read(t, s, "d/10", objstore.Span{}); got != "again" {
		t.Errorf("after an overwrite: %q", got)
	}
}

func testEmpty(t *testing.T, s objstore.Store) {
	info, err := s.Put(t.Context(), "empty", nil, objstore.IfAbsent())
	if err != nil {
		t.Fatal(err)
	}
	holds(t, s, "empty", nil, info)
	_, err = s.Put(t.Context(), "empty", nil, objstore.IfAbsent())
	fails(t, "create again", err, objstore.ErrLost)
	info, err = s.Upload(t.Context(), "empty upload", strings.NewReader(""), 0, objstore.IfAbsent())
	if err != nil {
		t.Fatal(err)
	}
	holds(t, s, "empty upload", nil, info)
	n := 0
	for info, err := range s.List(t.Context(), "", "") {
		if n++; err != nil || info.Size != 0 {
			t.Errorf("list gave %+v, %v", info, err)
		}
	}
	if n != 2 {
		t.Errorf("%d objects", n)
	}
}

func testMissing(t *testing.T, s objstore.Store) {
	absent(t, s, "no/such/key")
	_, _, err := s.Get(t.Context(), "no", objstore.Span{Offset: 3, Length: 4})
	fails(t, "range of a missing object", err, objstore.ErrNotFound)
	_, _, err = s.Get(t.Context(), "no", objstore.Span{ETag: "0123456789abcdef"})
	fails(t, "version of a missing object", err, objstore.ErrNotFound)
}

func testRanges(t *testing.T, s objstore.Store) {
	info := put(t, s, "k", "0123456789")
	for _, c := range []struct {
		span objstore.Span
		want string
	}{
		{objstore.Span{}, "0123456789"},
		{objstore.Span{Length: 1}, "0"},
		{objstore.Span{Offset: 1}, "123456789"},
		{objstore.Span{Offset: 9}, "9"},
		{objstore.Span{Offset: 3, Length: 4}, "3456"},
		{objstore.Span{Offset: 3, Length: 7}, "3456789"},
		{objstore.Span{Offset: 3, Length: 100}, "3456789"}, // as HTTP has it
		{objstore.Span{Offset: 3, Length: 4, ETag: info.ETag}, "3456"},
	} {
		got, i := read(t, s, "k", c.span)
		if got != c.want {
			t.Errorf("%+v gave %q", c.span, got)
		}
		if i.Size != 10 || i.ETag != info.ETag || i.Key != "k" {
			t.Errorf("%+v says %+v", c.span, i)
		}
	}
	for _, span := range []objstore.Span{{Offset: 10}, {Offset: 11, Length: 1}, {Offset: -1}, {Length: -1}} {
		if r, _, err := s.Get(t.Context(), "k", span); err == nil {
			r.Close()
			t.Errorf("%+v of 10 bytes gave no error", span)
		}
	}
}

func testPinned(t *testing.T, s objstore.Store) {
	old := put(t, s, "k", "old")
	if got, _ := read(t, s, "k", objstore.Span{ETag: old.ETag}); got != "old" {
		t.Errorf("pinned read: %q", got)
	}
	put(t, s, "k", "new")
	_, _, err := s.Get(t.Context(), "k", objstore.Span{ETag: old.ETag})
	fails(t, "pinned read after an overwrite", err, objstore.ErrChanged)
	_, _, err = s.Get(t.Context(), "k", objstore.Span{Offset: 1, Length: 1, ETag: old.ETag})
	fails(t, "pinned range after an overwrite", err, objstore.ErrChanged)
}

func testReaderKeepsVersion(t *testing.T, s objstore.Store) {
	old, new := randomBytes(4<<20), randomBytes(4<<20)
	put(t, s, "k", string(old))
	r, _, err := s.Get(t.Context(), "k", objstore.Span{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got := make([]byte, 10)
	if _, err := io.ReadFull(r, got); err != nil {
		t.Fatal(err)
	}
	put(t, s, "k", string(new))
	rest, err := io.ReadAll(r)
	if err != nil {
		fails(t, "reading on after an overwrite", err, objstore.ErrChanged)
	} else if !bytes.Equal(append(got, rest...), old) {
		t.Error("a reader gave bytes of two versions")
	}
}

func testETags(t *testing.T, s objstore.Store) {
	a, b := put(t, s, "k", "one"), put(t, s, "k", "two")
	if a.ETag == b.ETag {
		t.Error("two versions with one ETag")
	}
	for info, err := range s.List(t.Context(), "k", "") {
		if err != nil || info.ETag != b.ETag || info.Size != 3 || info.Modified.IsZero() {
			t.Errorf("list gave %+v, %v; put gave %+v", info, err, b)
		}
	}
}

func testConditions(t *testing.T, s objstore.Store) {
	ctx := t.Context()
	_, err := s.Put(ctx, "k", []byte("x"), objstore.IfMatch("0123456789abcdef0123456789abcdef"))
	fails(t, "IfMatch on a missing object", err, objstore.ErrNotFound)
	absent(t, s, "k")
	first, err := s.Put(ctx, "k", []byte("first"), objstore.IfAbsent())
	if err != nil {
		t.Fatalf("IfAbsent on a free key: %v", err)
	}
	_, err = s.Put(ctx, "k", []byte("x"), objstore.IfAbsent())
	fails(t, "IfAbsent on a taken key", err, objstore.ErrLost)
	second, err := s.Put(ctx, "k", []byte("second"), objstore.IfMatch(first.ETag))
	if err != nil {
		t.Fatalf("IfMatch on the version: %v", err)
	}
	_, err = s.Put(ctx, "k", []byte("x"), objstore.IfMatch(first.ETag))
	fails(t, "IfMatch on an older version", err, objstore.ErrLost)
	_, err = s.Put(ctx, "k", []byte("x"), objstore.IfMatch(""))
	fails(t, "IfMatch without an ETag", err, objstore.ErrLost)
	holds(t, s, "k", []byte("second"), second)
	if err := s.Delete(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Put(ctx, "k", []byte("x"), objstore.IfMatch(second.ETag))
	fails(t, "IfMatch after a delete", err, objstore.ErrNotFound)
	third, err := s.Put(ctx, "k", []byte("third"), objstore.IfAbsent())
	if err != nil {
		t.Fatalf("IfAbsent after a delete: %v", err)
	}
	holds(t, s, "k", []byte("third"), third)
}

// racers is how many compete in a race, and rounds how often.
const (
	racers = 32
	rounds = 8
)

func testCreateRace(t *testing.T, s objstore.Store) {
	for round := range rounds {
		key := fmt.Sprintf("race/%d", round)
		winner := race(t, func(i int) error {
			_, err := s.Put(t.Context(), key, fmt.Appendf(nil, "racer %d", i), objstore.IfAbsent())
			return err
		})
		if got, _ := read(t, s, key, objstore.Span{}); got != fmt.Sprintf("racer %d", winner) {
			t.Errorf("racer %d won, but the object holds %q", winner, got)
		}
	}
}

// race lets racers go at once and gives the one that won.
func race(t *testing.T, put func(i int) error) int {
	t.Helper()
	var wg sync.WaitGroup
	errs := make([]error, racers)
	start := make(chan struct{})
	for i := range racers {
		wg.Go(func() {
			<-start
			errs[i] = put(i)
		})
	}
	close(start)
	wg.Wait()
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner >= 0:
			t.Errorf("racers %d and %d both won", winner, i)
		case err == nil:
			winner = i
		default:
			fails(t, fmt.Sprintf("racer %d", i), err, objstore.ErrLost)
		}
	}
	if winner < 0 {
		t.Error("nobody won")
	}
	return winner
}

func testSwapRace(t *testing.T, s objstore.Store) {
	put(t, s, "sum", "")
	const workers, each = 8, 12
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for n := 0; n < each; {
				body, info, err := objstore.ReadAll(t.Context(), s, "sum")
				if err != nil {
					if errors.Is(err, objstore.ErrChanged) {
						continue
					}
					t.Error(err)
					return
				}
				_, err = s.Put(t.Context(), "sum", fmt.Appendf(body, "%d.%d ", w, n), objstore.IfMatch(info.ETag))
				switch {
				case err == nil:
					n++
				case !errors.Is(err, objstore.ErrLost):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	body, _ := read(t, s, "sum", objstore.Span{})
	if got := len(strings.Fields(body)); got != workers*each {
		t.Errorf("%d of %d swaps are left", got, workers*each)
	}
}

func testReadYourWrites(t *testing.T, s objstore.Store) {
	for i := range 20 {
		key := fmt.Sprintf("d/%02d", i%5)
		body := fmt.Sprint("version ", i)
		info := put(t, s, key, body)
		holds(t, s, key, []byte(body), info)
		for listed, err := range s.List(t.Context(), key, "") {
			if err != nil || listed.ETag != info.ETag {
				t.Errorf("list after put gave %+v, %v", listed, err)
			}
		}
		if i%3 == 0 {
			if err := s.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			absent(t, s, key)
		}
	}
}

func testDelete(t *testing.T, s objstore.Store) {
	put(t, s, "d/k", "v")
	put(t, s, "d/l", "w")
	for range 3 {
		if err := s.Delete(t.Context(), "d/k"); err != nil {
			t.Fatal(err)
		}
		absent(t, s, "d/k")
	}
	if err := s.Delete(t.Context(), "never/was"); err != nil {
		t.Error(err)
	}
	if got, _ := read(t, s, "d/l", objstore.Span{}); got != "w" {
		t.Errorf("the neighbour holds %q", got)
	}
}
