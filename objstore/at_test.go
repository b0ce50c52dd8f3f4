package objstore_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

type countingStore struct {
	objstore.Store
	gets int
}

func (c *countingStore) Get(ctx context.Context, key string, s objstore.Span) (io.ReadCloser, objstore.Info, error) {
	c.gets++
	return c.Store.Get(ctx, key, s)
}

func TestAnObjectIsReadAtAnyPlace(t *testing.T) {
	s := &countingStore{Store: mem.New()}
	data := []byte("0123456789abcdef")
	if _, err := s.Put(t.Context(), "k", data, objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	for _, stream := range []bool{false, true} {
		s.gets = 0
		a := objstore.NewAt(t.Context(), s, "k", 16, stream)
		for _, part := range [][2]int{{12, 16}, {0, 4}, {4, 10}, {10, 12}, {2, 3}} {
			p := make([]byte, part[1]-part[0])
			if _, err := a.ReadAt(p, int64(part[0])); err != nil || !bytes.Equal(p, data[part[0]:part[1]]) {
				t.Errorf("stream %v: %v gives %q, %v", stream, part, p, err)
			}
		}
		if want := map[bool]int{false: 5, true: 3}[stream]; s.gets != want {
			t.Errorf("stream %v: %d requests, want %d", stream, s.gets, want)
		}
		p := make([]byte, 4)
		if n, err := a.ReadAt(p, 14); n != 2 || err != io.EOF {
			t.Errorf("past the end: %d, %v", n, err)
		}
		if n, err := a.ReadAt(p, 16); n != 0 || err != io.EOF {
			t.Errorf("behind the end: %d, %v", n, err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAnObjectThatChangesIsReadInOneVersionOrNotAtAll(t *testing.T) {
	s := mem.New()
	put := func(text string) {
		if _, err := s.Put(t.Context(), "k", []byte(text), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	put("0123456789")
	a := objstore.NewAt(t.Context(), s, "k", 10, false)
	p := make([]byte, 2)
	if _, err := a.ReadAt(p, 0); err != nil {
		t.Fatal(err)
	}
	put("abcdefghij")
	if _, err := a.ReadAt(p, 2); !errors.Is(err, objstore.ErrChanged) {
		t.Error(err)
	}
	put("short")
	if _, err := objstore.NewAt(t.Context(), s, "k", 10, true).ReadAt(p, 0); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if _, err := objstore.NewAt(t.Context(), s, "none", 10, true).ReadAt(p, 0); !errors.Is(err, objstore.ErrNotFound) {
		t.Error(err)
	}
}
