package embedded_test

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/s3"
)

func TestEveryChangeIsToldOfBeforeItIsAnswered(t *testing.T) {
	s, prefix := lane(t, s3.Config{})
	small, err := s.Put(t.Context(), "small", []byte("12345"), objstore.IfAbsent())
	if err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 17<<20)
	large, err := s.Upload(t.Context(), "large", bytes.NewReader(big), int64(len(big)), objstore.IfAbsent())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "small"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "large", nil, objstore.IfAbsent()); err == nil {
		t.Fatal("created twice")
	}
	got := notes(t, prefix)
	want := []note{
		{Name: "ObjectCreated:Put", Key: prefix + "small", ETag: small.ETag, Size: 5},
		{Name: "ObjectCreated:CompleteMultipartUpload", Key: prefix + "large", ETag: large.ETag, Size: 17 << 20},
		{Name: "ObjectRemoved:Delete", Key: prefix + "small"},
	}
	last := ""
	for i := range got {
		if len(got[i].Sequencer) != 16 || got[i].Sequencer <= last {
			t.Errorf("sequencer %q after %q", got[i].Sequencer, last)
		}
		last, got[i].Sequencer = got[i].Sequencer, ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestKeysAreEncodedAsInAQuery(t *testing.T) {
	s, prefix := lane(t, s3.Config{})
	var all strings.Builder
	for c := byte(' '); c < 0x7f; c++ {
		if c != '/' {
			all.WriteByte(c)
		}
	}
	keys := []string{"dt=2024/a+b c%41é.jsonl", "x/" + all.String(), "日本/😀"}
	for _, k := range keys {
		if _, err := s.Put(t.Context(), k, nil, objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	for i, n := range notes(t, prefix) {
		key, err := url.QueryUnescape(n.Key)
		if err != nil || key != prefix+keys[i] {
			t.Errorf("%q is told of as %q, %v", prefix+keys[i], n.Key, err)
		}
		if strings.Count(n.Key, "/") != 2 || strings.Contains(n.Key, " ") {
			t.Errorf("%q is not encoded as Amazon does", n.Key)
		}
	}
}

func TestManyWritersAreAllToldOfInTheOrderOfEachKey(t *testing.T) {
	s, prefix := lane(t, s3.Config{})
	var mu sync.Mutex
	want := map[string]string{} // the last version of each key
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			key := fmt.Sprintf("k%02d", w)
			etag := ""
			for i := range 8 {
				c := objstore.IfAbsent()
				if i > 0 {
					c = objstore.IfMatch(etag)
				}
				info, err := s.Put(t.Context(), key, fmt.Appendf(nil, "%d.%d", w, i), c)
				if err != nil {
					t.Error(err)
					return
				}
				etag = info.ETag
			}
			mu.Lock()
			defer mu.Unlock()
			want[prefix+key] = etag
		})
	}
	wg.Wait()
	got, count, seq := map[string]string{}, map[string]int{}, map[string]string{}
	for _, n := range notes(t, prefix) {
		if n.Sequencer <= seq[n.Key] {
			t.Errorf("%s: %s is told of after %s", n.Key, n.Sequencer, seq[n.Key])
		}
		got[n.Key], seq[n.Key] = n.ETag, n.Sequencer
		count[n.Key]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the last version told of:\n%s", diff)
	}
	for key, n := range count {
		if n != 8 {
			t.Errorf("%s: told %d times of 8 versions", key, n)
		}
	}
}

func TestAChangeThatCannotBeToldOfIsNotAnswered(t *testing.T) {
	s, prefix := lane(t, s3.Config{Retry: s3.Retry{Attempts: 2, Base: time.Millisecond}})
	told.refuse.Store(true)
	_, err := s.Upload(t.Context(), "k", strings.NewReader("v"), 1, objstore.Condition{})
	// Both attempts were answered with 500, and the object is there: that it was
	// stored is true, only that nobody was told.
	if err != nil {
		t.Errorf("a put that was stored: %v", err)
	}
	if err := s.Delete(t.Context(), "k"); err == nil {
		t.Error("a delete that nobody was told of has no error")
	}
	told.refuse.Store(false)
	if n := notes(t, prefix); len(n) != 0 {
		t.Fatalf("%v", n)
	}
	if err := s.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if n := notes(t, prefix); len(n) != 1 || n[0].Name != "ObjectRemoved:Delete" {
		t.Errorf("%v", n)
	}
}
