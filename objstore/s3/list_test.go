package s3_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/s3"
)

func names(t *testing.T, s objstore.Store, prefix string) []string {
	t.Helper()
	var out []string
	for info, err := range s.List(t.Context(), prefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, info.Key)
	}
	return out
}

func fill(t *testing.T, s objstore.Store, n int) (keys []string) {
	t.Helper()
	for i := range n {
		keys = append(keys, fmt.Sprintf("d/%02d/k", i))
		put(t, s, keys[i], "v")
	}
	return keys
}

func TestAListThatIsCutAnywhereIsNeverShort(t *testing.T) {
	prefix := fmt.Sprintf("lane%d/", lanes.Add(1))
	clean := objstore.WithPrefix(reopen(t, http.DefaultTransport, 5), prefix)
	keys := fill(t, clean, 12)
	for at := int64(0); at < 2600; at += 97 {
		for _, end := range []error{io.EOF, io.ErrUnexpectedEOF} {
			tr := &trouble{base: http.DefaultTransport, count: map[string]int{}, script: on(opList, cuts(at, end), nil, cuts(at, end))}
			cut := objstore.WithPrefix(reopen(t, tr, 5), prefix)
			if diff := cmp.Diff(keys, names(t, cut, "d/")); diff != "" {
				t.Fatalf("cut after %d bytes with %v:\n%s", at, end, diff)
			}
		}
	}
}

func reopen(t *testing.T, rt http.RoundTripper, page int) *s3.Store {
	t.Helper()
	s, err := s3.Open(t.Context(), s3.Config{
		Bucket: "bucket", Endpoint: server.Endpoint(), AccessKey: accessKey, SecretKey: secretKey,
		Page: page, Transport: rt, Retry: s3.Retry{Base: time.Millisecond, Max: 5 * time.Millisecond},
	}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestADirectoryOfAConsoleIsNoObject(t *testing.T) {
	s, clean, _ := open(t, s3.Config{}, nil)
	put(t, clean, "train/", "")
	put(t, clean, "train/b/k", "v")
	put(t, clean, "train2/b/k", "v")
	if diff := cmp.Diff([]string{"train/b/k"}, names(t, s, "train/")); diff != "" {
		t.Error(diff)
	}
	var dirs []string
	for dir, err := range s.Dirs(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	if diff := cmp.Diff([]string{"train/", "train2/"}, dirs); diff != "" {
		t.Error(diff)
	}
}

func TestEveryPageCarriesThePrefixAndGoesOnByTokenOrName(t *testing.T) {
	s, clean, tr := open(t, s3.Config{Page: 2}, on(opList, nil, answers(500, "InternalError"), nil, refuses))
	keys := fill(t, clean, 9)
	put(t, clean, "e/00/k", "v")
	put(t, clean, "c/00/k", "v")
	if diff := cmp.Diff(keys, names(t, s, "d/")); diff != "" {
		t.Fatal(diff)
	}
	var after []string
	for _, r := range tr.seen {
		q := r.URL.Query()
		if got := q.Get("prefix"); len(got) < 2 || got[len(got)-2:] != "d/" || q.Get("max-keys") != "2" {
			t.Errorf("a page of prefix %q, max-keys %s", got, q.Get("max-keys"))
		}
		switch {
		case q.Get("continuation-token") != "":
			after = append(after, "token")
		case q.Get("start-after") != "":
			after = append(after, "name")
		default:
			after = append(after, "start")
		}
	}
	if diff := cmp.Diff([]string{"start", "token", "name", "token", "name", "token", "token"}, after); diff != "" {
		t.Errorf("how pages were asked for:\n%s", diff)
	}
}

func TestAListThatFailsForGoodSaysSo(t *testing.T) {
	for name, f := range map[string]fault{
		"refused":    refuses,
		"empty body": answers(200, ""),
		"cut":        cuts(300, io.EOF),
		"throttled":  answers(500, "InternalError"),
		"denied":     answers(403, "AccessDenied"),
	} {
		s, clean, _ := open(t, s3.Config{Page: 2}, func(op string, n int) fault {
			if op == opList && n > 2 {
				return f
			}
			return nil
		})
		fill(t, clean, 9)
		got, failed := 0, 0
		for _, err := range s.List(t.Context(), "d/", "") {
			if err != nil {
				failed++
			} else {
				got++
			}
		}
		if got != 4 || failed != 1 {
			t.Errorf("%s: %d names and %d errors", name, got, failed)
		}
	}
}

func TestDirectoriesGoOnAfterAFailedPage(t *testing.T) {
	s, clean, _ := open(t, s3.Config{Page: 2}, on(opList, nil, refuses, nil, cuts(200, io.EOF), cuts(0, io.EOF)))
	fill(t, clean, 9)
	put(t, clean, "d/00-x", "an object between directories")
	put(t, clean, "d/000", "another")
	var want []string
	for i := range 9 {
		want = append(want, fmt.Sprintf("%02d/", i))
	}
	var got []string
	for dir, err := range s.Dirs(t.Context(), "d/") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, dir)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestDeleteIsTriedAgain(t *testing.T) {
	s, clean, _ := open(t, s3.Config{}, on(opDelete, refuses, answers(503, "SlowDown"), loses))
	put(t, clean, "k", "v")
	if err := s.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	_, _, err := clean.Get(t.Context(), "k", objstore.Span{})
	only(t, err, objstore.ErrNotFound)
	s, _, _ = open(t, s3.Config{}, on(opDelete, answers(403, "AccessDenied")))
	if err := s.Delete(t.Context(), "k"); err == nil || errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("a refused delete: %v", err)
	}
}

func TestAListOfWhichLittleIsWantedBeginsWithASmallPage(t *testing.T) {
	s, clean, tr := open(t, s3.Config{}, on(opList))
	keys := fill(t, clean, 99)
	for i := range 30 {
		keys = append(keys, fmt.Sprintf("d/99/k%02d", i))
		put(t, clean, keys[99+i], "v")
	}
	var got []string
	for info, err := range s.List(objstore.ExpectFew(t.Context()), "d/", "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, info.Key)
	}
	if diff := cmp.Diff(keys, got); diff != "" {
		t.Fatal(diff)
	}
	var sizes []string
	for _, r := range tr.seen {
		sizes = append(sizes, r.URL.Query().Get("max-keys"))
	}
	if diff := cmp.Diff([]string{"100", "1000"}, sizes); diff != "" {
		t.Error(diff)
	}
}
