package objtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/objstore"
)

func list(t *testing.T, s objstore.Store, prefix, after string) []string {
	t.Helper()
	var keys []string
	for info, err := range s.List(t.Context(), prefix, after) {
		if err != nil {
			t.Fatalf("list %q after %q: %v", prefix, after, err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

func dirs(t *testing.T, s objstore.Store, prefix string) []string {
	t.Helper()
	var out []string
	for dir, err := range s.Dirs(t.Context(), prefix) {
		if err != nil {
			t.Fatalf("dirs of %q: %v", prefix, err)
		}
		out = append(out, dir)
	}
	return out
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got) == 0 && len(want) == 0 {
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func testList(t *testing.T, s objstore.Store) {
	same(t, "an empty store", list(t, s, "", ""), nil)
	// fullwidth comes before emoji in UTF-8, and after it in UTF-16
	keys := []string{"b/2", "a/10", "a/9", "a/-", "a/_", "a/A", "a/z", "a/é", "a/e\u0301", "a/\uff21", "a/😀", "a b", "c"}
	for _, k := range keys {
		put(t, s, k, k)
	}
	slices.Sort(keys)
	for _, prefix := range []string{"", "a", "a/", "a/1", "a/é", "b/2", "b/3", "zz", "c"} {
		for _, after := range []string{"", "a", "a/", "a/9", "a/90", "a/\uff21", "b/2", "zz"} {
			var want []string
			for _, k := range keys {
				if strings.HasPrefix(k, prefix) && k > after {
					want = append(want, k)
				}
			}
			same(t, fmt.Sprintf("prefix %q after %q", prefix, after), list(t, s, prefix, after), want)
		}
	}
	for info, err := range s.List(t.Context(), "", "") {
		if err != nil || info.Size != int64(len(info.Key)) {
			t.Errorf("list gave %+v, %v", info, err)
		}
	}
}

// pageful is more than the page of any store, and no multiple of one.
const pageful = 2101

func testListPages(t *testing.T, s objstore.Store) {
	want := make([]string, pageful)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < pageful; i += 8 {
				want[i] = fmt.Sprintf("a/%02d/%05d", i/100, i)
				if _, err := s.Put(t.Context(), want[i], nil, objstore.Condition{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	put(t, s, "a0/x", "")
	put(t, s, "Z/x", "")
	wg.Wait()
	same(t, "all pages", list(t, s, "a/", ""), want)
	same(t, "all pages after a key", list(t, s, "a/", want[49]), want[50:])
	same(t, "one thousand", list(t, s, "a/", want[pageful-1001]), want[pageful-1000:])
	var wantDirs []string
	for i := range (pageful + 99) / 100 {
		wantDirs = append(wantDirs, fmt.Sprintf("%02d/", i))
	}
	same(t, "directories", dirs(t, s, "a/"), wantDirs)
}

func testListEarly(t *testing.T, s objstore.Store) {
	for i := range 5 {
		put(t, s, fmt.Sprintf("d%d/k", i), "")
	}
	n := 0
	for range s.List(t.Context(), "", "") {
		if n++; n == 2 {
			break
		}
	}
	for range s.Dirs(t.Context(), "") {
		if n++; n == 4 {
			break
		}
	}
	seq := s.List(t.Context(), "", "")
	for range 2 { // a sequence starts anew each time
		count := 0
		for range seq {
			count++
		}
		if count != 5 {
			t.Errorf("%d of 5 objects", count)
		}
	}
}

func testListPrefix(t *testing.T, s objstore.Store) {
	for _, k := range []string{"train/b/1", "train2/b/1", "train-a/b/1", "trai"} {
		put(t, s, k, "")
	}
	same(t, "train/", list(t, s, "train/", ""), []string{"train/b/1"})
	same(t, "train", list(t, s, "train", ""), []string{"train-a/b/1", "train/b/1", "train2/b/1"})
	sub := objstore.WithPrefix(s, "train")
	same(t, "the part below train", list(t, sub, "", ""), []string{"b/1"})
	same(t, "its directories", dirs(t, sub, ""), []string{"b/"})
	put(t, sub, "b/2", "x")
	if got, info := read(t, s, "train/b/2", objstore.Span{}); got != "x" || info.Key != "train/b/2" {
		t.Errorf("put through a prefix gave %q, %+v", got, info)
	}
	same(t, "after a key of the part", list(t, sub, "b/", "b/1"), []string{"b/2"})
}

func testDirs(t *testing.T, s objstore.Store) {
	same(t, "an empty store", dirs(t, s, ""), nil)
	for _, k := range []string{"a/b/c/1", "a/b/d/1", "a/e/1", "a/e/2", "a/f", "a-b/x", "a.b/x", "é/x", "d d/x", "top", "b/x/1"} {
		put(t, s, k, "")
	}
	same(t, "the top", dirs(t, s, ""), []string{"a-b/", "a.b/", "a/", "b/", "d d/", "é/"})
	same(t, "a/", dirs(t, s, "a/"), []string{"b/", "e/"})
	same(t, "a/b/", dirs(t, s, "a/b/"), []string{"c/", "d/"})
	same(t, "a/e/", dirs(t, s, "a/e/"), nil)
	same(t, "nothing/", dirs(t, s, "nothing/"), nil)
	for _, k := range []string{"a/e/1", "a/e/2"} {
		if err := s.Delete(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "a/ after the end of e", dirs(t, s, "a/"), []string{"b/"})
}

func testKeys(t *testing.T, s objstore.Store, any bool) {
	names := []string{
		"plain", "with space", " leading", "trailing ", "a+b", "a%b", "100%41", "%2F", "%20", "a=b", "x=1/a b.jsonl",
		"a&b", "a?b", "a#b", "a'b", `a"b`, `a\b`, "a\tb", "a<b>c", "a;b", "a:b", "a@b", "a,b", "a$b", "a!b", "a*b", "(a)",
		"[a]", "{a}", "a|b", "a^b", "a`b", "a~b", "..a", "a..b", "...", ".hidden", "-dash", "_under",
		"é", "e\u0301", "日本語", "\uff21", "😀", "\u00a0", "\u200b", "ß", "İ", "dt=2024/a+b c%41é.jsonl",
		strings.Repeat("n", 255), strings.Repeat("d/", 100) + "deep",
	}
	if any {
		names = append(names, "plain/below", "plain/", "plain//double", strings.Repeat("n", 900))
	}
	infos := map[string]objstore.Info{}
	for _, name := range names {
		key := "k/" + name
		info, err := s.Put(t.Context(), key, []byte(key), objstore.IfAbsent())
		if err != nil {
			t.Errorf("put %q: %v", key, err)
			continue
		}
		infos[key] = info
	}
	var want []string
	for key, info := range infos {
		want = append(want, key)
		holds(t, s, key, []byte(key), info)
		if _, err := s.Put(t.Context(), key, []byte(key+"!"), objstore.IfMatch(info.ETag)); err != nil {
			t.Errorf("swap %q: %v", key, err)
		}
		if got := list(t, s, key, ""); len(got) == 0 || got[0] != key {
			t.Errorf("list of prefix %q gave %q", key, got)
		}
	}
	slices.Sort(want)
	same(t, "all keys", list(t, s, "k/", ""), want)
	for i, key := range want {
		if i+1 < len(want) {
			if got := list(t, s, "k/", key); len(got) == 0 || got[0] != want[i+1] {
				t.Errorf("after %q comes %q, not %q", key, got, want[i+1])
			}
		}
	}
	for _, key := range want {
		if err := s.Delete(t.Context(), key); err != nil {
			t.Errorf("delete %q: %v", key, err)
		}
		absent(t, s, key)
	}
	same(t, "after deleting all keys", list(t, s, "", ""), nil)
}
