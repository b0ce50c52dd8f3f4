package objtest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone/objstore"
)

func upload(t *testing.T, s objstore.Store, key string, body []byte, c objstore.Condition) (objstore.Info, error) {
	t.Helper()
	return s.Upload(t.Context(), key, bytes.NewReader(body), int64(len(body)), c)
}

func testUpload(t *testing.T, s objstore.Store, size int64) {
	one, two := randomBytes(size), randomBytes(size-1)
	_, err := upload(t, s, "k", one, objstore.IfMatch("0123456789abcdef0123456789abcdef"))
	fails(t, "IfMatch on a missing object", err, objstore.ErrNotFound)
	absent(t, s, "k")
	first, err := upload(t, s, "k", one, objstore.IfAbsent())
	if err != nil {
		t.Fatal(err)
	}
	if first.Key != "k" || first.Size != size || first.ETag == "" || strings.Contains(first.ETag, `"`) {
		t.Errorf("upload gave %+v", first)
	}
	holds(t, s, "k", one, first)
	_, err = upload(t, s, "k", two, objstore.IfAbsent())
	fails(t, "IfAbsent on a taken key", err, objstore.ErrLost)
	holds(t, s, "k", one, first)
	second, err := upload(t, s, "k", two, objstore.IfMatch(first.ETag))
	if err != nil {
		t.Fatal(err)
	}
	holds(t, s, "k", two, second)
	_, err = upload(t, s, "k", one, objstore.IfMatch(first.ETag))
	fails(t, "IfMatch on an older version", err, objstore.ErrLost)
	third, err := upload(t, s, "k", one, objstore.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	holds(t, s, "k", one, third)
	if size > 100 {
		got, _ := read(t, s, "k", objstore.Span{Offset: size - 50, Length: 20, ETag: third.ETag})
		if got != string(one[size-50:size-30]) {
			t.Error("a range of an upload is not part of it")
		}
	}
	n := 0
	for info, err := range s.List(t.Context(), "", "") {
		if n++; err != nil || info.Key != "k" || info.Size != size {
			t.Errorf("list gave %+v, %v", info, err)
		}
	}
	if n != 1 {
		t.Errorf("%d objects after uploads under one key", n)
	}
}

func testUploadSize(t *testing.T, s objstore.Store) {
	for _, said := range []int64{0, 9, 11, 40 << 20} {
		if _, err := s.Upload(t.Context(), "k", strings.NewReader("0123456789"), said, objstore.Condition{}); err == nil {
			t.Errorf("10 bytes passed for %d", said)
		}
		absent(t, s, "k")
	}
}

// breaking fails to read past a point. It looks at the key first: nothing may be
// visible there before the end.
type breaking struct {
	*bytes.Reader
	at   int64
	look func()
}

var errBroken = errors.New("the disk is broken")

func (b *breaking) Read(p []byte) (int, error) {
	if pos := b.Size() - int64(b.Len()); pos >= b.at {
		b.look()
		return 0, errBroken
	} else if int64(len(p)) > b.at-pos {
		p = p[:b.at-pos]
	}
	return b.Reader.Read(p)
}

func testUploadFails(t *testing.T, s objstore.Store, size int64) {
	for _, size := range []int64{1000, size} {
		looked := false
		r := &breaking{Reader: bytes.NewReader(randomBytes(size)), at: size - 10, look: func() {
			looked = true
			absent(t, s, "k")
		}}
		_, err := s.Upload(t.Context(), "k", r, size, objstore.Condition{})
		if !errors.Is(err, errBroken) {
			t.Errorf("got %v", err)
		}
		if !looked {
			t.Error("the reader was never read to its break")
		}
		absent(t, s, "k")
	}
}

func testUploadRace(t *testing.T, s objstore.Store, size int64) {
	body := randomBytes(size)
	winner := race(t, func(i int) error {
		if i%8 != 0 { // small ones race with large ones, without 32 large ones at once
			_, err := s.Upload(t.Context(), "k", bytes.NewReader([]byte{byte(i)}), 1, objstore.IfAbsent())
			return err
		}
		r := io.NewSectionReader(bytes.NewReader(body), int64(i), size-int64(i))
		_, err := s.Upload(t.Context(), "k", r, size-int64(i), objstore.IfAbsent())
		return err
	})
	want := []byte{byte(winner)}
	if winner%8 == 0 {
		want = body[winner:]
	}
	if got, _ := read(t, s, "k", objstore.Span{}); got != string(want) {
		t.Errorf("racer %d won, but the object is another's", winner)
	}
}
