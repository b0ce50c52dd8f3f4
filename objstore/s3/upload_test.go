package s3_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/s3"
)

const large = 11 << 20 // three parts

func send(t *testing.T, s objstore.Store, body []byte, c objstore.Condition) (objstore.Info, error) {
	t.Helper()
	return s.Upload(t.Context(), "k", reader(body), int64(len(body)), c)
}

func TestPartsHaveOneSizeThatFits(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for size, want := range map[int64]int64{16 * mib: 8 * mib, 70 * gib: 8 * mib, 80 * gib: 9 * mib, 5 << 40: 525 * mib} {
		got := s3.PartSize(size)
		if got != want || (size+got-1)/got > 10_000 {
			t.Errorf("%d bytes in parts of %d, that is %d", size, got, (size+got-1)/got)
		}
	}
	s, clean, tr := open(t, s3.Config{}, nil)
	body := random(large)
	if _, err := send(t, s, body, objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	want(t, clean, "k", body)
	for _, r := range tr.seen {
		if n := r.URL.Query().Get("partNumber"); opOf(r) == opPart {
			if want := map[string]int64{"1": 5 * mib, "2": 5 * mib, "3": mib}[n]; r.ContentLength != want {
				t.Errorf("part %s has %d bytes", n, r.ContentLength)
			}
		}
	}
}

func TestAnUploadSurvivesFaultsAtEachStep(t *testing.T) {
	body := random(large)
	for name, script := range map[string]func(string, int) fault{
		"create is throttled":              on(opCreate, answers(503, "SlowDown"), answers(503, "SlowDown")),
		"create gets no answer":            on(opCreate, loses),
		"create is answered by nothing":    on(opCreate, answers(200, "")),
		"parts fail":                       on(opPart, refuses, loses, answers(500, "InternalError"), answers(503, "SlowDown")),
		"complete is throttled":            on(opComplete, answers(503, "SlowDown")),
		"complete gets no answer":          on(opComplete, loses),
		"complete fails after the effect":  on(opComplete, overrides(500, "InternalError")),
		"200 with an error, no effect":     on(opComplete, answers(200, "InternalError")),
		"200 with an error, with effect":   on(opComplete, overrides(200, "InternalError")),
		"200 with nothing, no effect":      on(opComplete, answers(200, "")),
		"200 with nothing, with effect":    on(opComplete, overrides(200, "")),
		"done, and then no such upload":    on(opComplete, loses, answers(404, "NoSuchUpload")),
		"a conflict that wants it all new": on(opComplete, answers(409, "ConditionalRequestConflict")),
		"head fails":                       on(opHead, refuses, answers(503, "")),
	} {
		t.Run(name, func(t *testing.T) {
			s, clean, _ := open(t, s3.Config{}, script)
			info, err := send(t, s, body, objstore.IfAbsent())
			if err != nil {
				t.Fatal(err)
			}
			if got := want(t, clean, "k", body); got.ETag != info.ETag || info.Size != large {
				t.Errorf("%+v, stored is %+v", info, got)
			}
		})
	}
}

func TestAFileIsReadAgainForEachAttempt(t *testing.T) {
	body := random(large + 12345)
	f, err := os.Create(filepath.Join(t.TempDir(), "block"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(body); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]func(string, int) fault{
		"no fault":   nil,
		"parts fail": on(opPart, refuses, loses, answers(500, "InternalError"), answers(503, "SlowDown")),
		"a conflict": on(opComplete, answers(409, "ConditionalRequestConflict")),
	} {
		t.Run(name, func(t *testing.T) {
			s, clean, _ := open(t, s3.Config{}, script)
			if _, err := s.Upload(t.Context(), "k", f, int64(len(body)), objstore.IfAbsent()); err != nil {
				t.Fatal(err)
			}
			want(t, clean, "k", body)
		})
	}
}

func TestAFailedUploadGivesItsPartsUp(t *testing.T) {
	body := random(large)
	for name, script := range map[string]func(string, int) fault{
		"a part is denied":   on(opPart, nil, answers(403, "AccessDenied")),
		"complete is denied": on(opComplete, answers(403, "AccessDenied")),
	} {
		t.Run(name, func(t *testing.T) {
			s, clean, tr := open(t, s3.Config{}, script)
			_, err := send(t, s, body, objstore.Condition{})
			only(t, err, nil)
			if err == nil || tr.requests(opAbort) != 1 {
				t.Errorf("%v, and %d aborts", err, tr.requests(opAbort))
			}
			_, _, err = clean.Get(t.Context(), "k", objstore.Span{})
			only(t, err, objstore.ErrNotFound)
		})
	}
	s, clean, tr := open(t, s3.Config{}, nil)
	put(t, clean, "k", "theirs")
	_, err := send(t, s, body, objstore.IfAbsent())
	only(t, err, objstore.ErrLost)
	if tr.requests(opAbort) != 1 {
		t.Errorf("%d aborts after a loss", tr.requests(opAbort))
	}
	want(t, clean, "k", []byte("theirs"))
}

func TestAnUploadThatNeverHeardOfItsEndIsUnknown(t *testing.T) {
	s, clean, _ := open(t, s3.Config{}, func(op string, _ int) fault {
		if op == opComplete || op == opGet {
			return refusesAfter(op)
		}
		return nil
	})
	body := random(large)
	_, err := send(t, s, body, objstore.IfAbsent())
	only(t, err, objstore.ErrUnknown)
	want(t, clean, "k", body)
}

func refusesAfter(op string) fault {
	if op == opComplete {
		return loses
	}
	return refuses
}

func TestAnotherOnesObjectInPlaceOfAnUploadIsUnknown(t *testing.T) {
	var clean objstore.Store
	s, clean, _ := open(t, s3.Config{}, on(opComplete, loses, first(func() { put(t, clean, "k", "theirs") }, nil)))
	_, err := send(t, s, random(large), objstore.IfAbsent())
	only(t, err, objstore.ErrUnknown)
	want(t, clean, "k", []byte("theirs"))
}

func TestAnEndlessConflictFails(t *testing.T) {
	s, clean, tr := open(t, s3.Config{}, func(op string, _ int) fault {
		if op == opComplete {
			return answers(409, "ConditionalRequestConflict")
		}
		return nil
	})
	_, err := send(t, s, random(large), objstore.IfAbsent())
	only(t, err, nil)
	if err == nil || tr.requests(opCreate) != 3 || tr.requests(opAbort) != 3 {
		t.Errorf("%v; %d uploads, %d aborts", err, tr.requests(opCreate), tr.requests(opAbort))
	}
	_, _, err = clean.Get(t.Context(), "k", objstore.Span{})
	if !errors.Is(err, objstore.ErrNotFound) {
		t.Error(err)
	}
}

func TestAnUploadThatTheStoreMadeShortIsNoSuccess(t *testing.T) {
	s, _, _ := open(t, s3.Config{}, on(opHead, func(tr *trouble, r *http.Request) (*http.Response, error) {
		resp, err := tr.base.RoundTrip(r)
		if err == nil {
			resp.ContentLength = large - 1
			resp.Header.Set("Content-Length", fmt.Sprint(large-1))
		}
		return resp, err
	}))
	_, err := send(t, s, random(large), objstore.IfAbsent())
	only(t, err, objstore.ErrUnknown)
}
