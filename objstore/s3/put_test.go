package s3_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/s3"
)

func only(t *testing.T, err, want error) {
	t.Helper()
	for _, outcome := range []error{objstore.ErrNotFound, objstore.ErrLost, objstore.ErrChanged, objstore.ErrUnknown} {
		if errors.Is(err, outcome) != (outcome == want) {
			t.Errorf("want %v, got %v", want, err)
		}
	}
}

func TestAConflictIsNeitherLostNorWon(t *testing.T) {
	for _, code := range []string{"ConditionalRequestConflict", "OperationAborted", ""} {
		s, clean, tr := open(t, s3.Config{}, on(opPut, answers(409, code), answers(409, code)))
		info, err := s.Put(t.Context(), "k", []byte("v"), objstore.IfAbsent())
		if err != nil {
			t.Fatal(err)
		}
		if got := want(t, clean, "k", []byte("v")); got.ETag != info.ETag || tr.requests(opPut) != 3 {
			t.Errorf("%+v after %d requests", info, tr.requests(opPut))
		}
	}
	always := func(op string, _ int) fault {
		if op == opPut {
			return answers(409, "ConditionalRequestConflict")
		}
		return nil
	}
	s, _, tr := open(t, s3.Config{}, always)
	_, err := s.Put(t.Context(), "k", []byte("v"), objstore.IfAbsent())
	only(t, err, nil)
	if err == nil || tr.requests(opPut) != 8 {
		t.Errorf("%v after %d requests", err, tr.requests(opPut))
	}
}

func TestALostAnswerIsFoundByReadingBack(t *testing.T) {
	s, clean, _ := open(t, s3.Config{}, on(opPut, loses))
	info, err := s.Put(t.Context(), "created", []byte("mine"), objstore.IfAbsent())
	if err != nil {
		t.Fatal(err)
	}
	if got := want(t, clean, "created", []byte("mine")); got.ETag != info.ETag || info.Size != 4 {
		t.Errorf("%+v, stored is %+v", info, got)
	}
	s, clean, _ = open(t, s3.Config{}, on(opPut, loses, loses))
	old := put(t, clean, "swapped", "old")
	info, err = s.Put(t.Context(), "swapped", []byte("new"), objstore.IfMatch(old.ETag))
	if err != nil {
		t.Fatal(err)
	}
	if got := want(t, clean, "swapped", []byte("new")); got.ETag != info.ETag {
		t.Errorf("%+v, stored is %+v", info, got)
	}
}

func TestAnInternalErrorAfterTheEffectIsFoundByReadingBack(t *testing.T) {
	for _, status := range []int{500, 502, 503, 504} {
		s, clean, _ := open(t, s3.Config{}, on(opPut, overrides(status, "")))
		if _, err := s.Put(t.Context(), "k", []byte("mine"), objstore.IfAbsent()); err != nil {
			t.Errorf("status %d: %v", status, err)
		}
		want(t, clean, "k", []byte("mine"))
	}
}

func TestAnotherOnesObjectAfterALostAnswerIsUnknown(t *testing.T) {
	var clean objstore.Store
	s, clean, _ := open(t, s3.Config{}, on(opPut, loses, first(func() {
		// Our object was there, and somebody has swapped it since. "Lost" would say
		// that nobody ever saw it.
		put(t, clean, "k", "theirs")
	}, nil)))
	_, err := s.Put(t.Context(), "k", []byte("mine"), objstore.IfAbsent())
	only(t, err, objstore.ErrUnknown)

	s, clean, _ = open(t, s3.Config{}, on(opPut, loses, first(func() {
		if err := clean.Delete(t.Context(), "k"); err != nil {
			t.Error(err)
		}
	}, nil)))
	old := put(t, clean, "k", "old")
	_, err = s.Put(t.Context(), "k", []byte("mine"), objstore.IfMatch(old.ETag))
	only(t, err, objstore.ErrUnknown)
}

func TestALossWithoutALostAnswerIsJustLost(t *testing.T) {
	s, clean, tr := open(t, s3.Config{}, on(opPut, refuses, answers(503, "SlowDown")))
	put(t, clean, "k", "theirs")
	_, err := s.Put(t.Context(), "k", []byte("mine"), objstore.IfAbsent())
	only(t, err, objstore.ErrLost)
	if tr.requests(opGet) != 0 {
		t.Error("it read back what nobody can have written")
	}
	_, err = s.Put(t.Context(), "missing", []byte("mine"), objstore.IfMatch("0123456789abcdef0123456789abcdef"))
	only(t, err, objstore.ErrNotFound)
}

func TestAWriteThatIsNeverAnsweredIsUnknownOrFound(t *testing.T) {
	reading := false
	s, clean, _ := open(t, s3.Config{}, func(op string, _ int) fault {
		switch {
		case op == opPut:
			return loses
		case op == opGet && !reading:
			return refuses
		}
		return nil
	})
	_, err := s.Put(t.Context(), "k", []byte("mine"), objstore.Condition{})
	only(t, err, objstore.ErrUnknown)
	want(t, clean, "k", []byte("mine"))
	reading = true // now it can be looked up
	if _, err := s.Put(t.Context(), "k", []byte("again"), objstore.Condition{}); err != nil {
		t.Error(err)
	}
}

func TestAWriteThatWasNeverSentIsNoUnknown(t *testing.T) {
	s, _, _ := open(t, s3.Config{}, func(string, int) fault { return refuses })
	_, err := s.Put(t.Context(), "k", []byte("mine"), objstore.IfAbsent())
	only(t, err, nil)
	if err == nil {
		t.Error("no error")
	}
}

func TestACancelledWriteIsUnknown(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, _, _ := open(t, s3.Config{}, on(opPut, func(tr *trouble, r *http.Request) (*http.Response, error) {
		_, _ = loses(tr, r)
		cancel()
		return nil, ctx.Err()
	}))
	_, err := s.Put(ctx, "k", []byte("mine"), objstore.IfAbsent())
	only(t, err, objstore.ErrUnknown)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v does not say that it was cancelled", err)
	}
}

func TestAStoreThatHangsIsAskedAgain(t *testing.T) {
	s, clean, tr := open(t, s3.Config{Retry: s3.Retry{Stall: 100 * time.Millisecond}}, on(opPut, hangs, hangs))
	put(t, s, "k", "v")
	want(t, clean, "k", []byte("v"))
	if tr.requests(opPut) != 3 {
		t.Errorf("%d requests", tr.requests(opPut))
	}
}

func TestAThrottledStoreIsGivenTimeByAll(t *testing.T) {
	s, clean, _ := open(t, s3.Config{}, func(op string, n int) fault {
		if n%10 < 3 {
			return answers(503, "SlowDown")
		}
		return nil
	})
	errs := make(chan error)
	for range 8 {
		go func() {
			var err error
			for i := range 10 {
				_, perr := s.Put(t.Context(), "d/"+string(rune('a'+i)), []byte("v"), objstore.Condition{})
				err = errors.Join(err, perr)
			}
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	n := 0
	for range s.List(t.Context(), "d/", "") {
		n++
	}
	if n != 10 {
		t.Errorf("%d objects", n)
	}
	want(t, clean, "d/a", []byte("v"))

	s, _, _ = open(t, s3.Config{Retry: s3.Retry{Throttle: 50 * time.Millisecond}}, func(string, int) fault { return answers(503, "SlowDown") })
	_, err := s.Put(t.Context(), "k", nil, objstore.IfAbsent())
	only(t, err, nil)
	if err == nil {
		t.Error("no error")
	}
}

func TestNoChecksumTrailerIsSent(t *testing.T) {
	s, _, tr := open(t, s3.Config{}, nil)
	put(t, s, "k", "v")
	big := make([]byte, 6<<20)
	if _, err := s.Upload(t.Context(), "big", reader(big), int64(len(big)), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	for _, r := range tr.seen {
		for name, values := range r.Header {
			if name == "X-Amz-Trailer" || name == "X-Amz-Sdk-Checksum-Algorithm" || len(values) > 0 && values[0] == "STREAMING-UNSIGNED-PAYLOAD-TRAILER" {
				t.Errorf("%s %s: %s: %q", opOf(r), r.URL, name, values)
			}
		}
	}
}

func TestAMissingBucketAndWrongCredentialsLookUnlikeNoObjects(t *testing.T) {
	open := func(bucket, secret string) *s3.Store {
		s, err := s3.Open(t.Context(), s3.Config{Bucket: bucket, Endpoint: server.Endpoint(), AccessKey: accessKey, SecretKey: secret}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	for name, c := range map[string]struct {
		s      *s3.Store
		bucket bool
	}{
		"missing bucket": {open("no-such-bucket", secretKey), true},
		"wrong secret":   {open("bucket", "wrong"), false},
	} {
		_, _, err := c.s.Get(t.Context(), "k", objstore.Span{})
		only(t, err, nil)
		if err == nil || errors.Is(err, s3.ErrNoBucket) != c.bucket {
			t.Errorf("%s: get: %v", name, err)
		}
		var last error
		for _, err := range c.s.List(t.Context(), "", "") {
			last = err
		}
		if last == nil || errors.Is(last, s3.ErrNoBucket) != c.bucket {
			t.Errorf("%s: list: %v", name, last)
		}
		_, err = c.s.Put(t.Context(), "k", nil, objstore.IfAbsent())
		only(t, err, nil)
		if err == nil || errors.Is(err, s3.ErrNoBucket) != c.bucket {
			t.Errorf("%s: put: %v", name, err)
		}
	}
}

func TestEnsureBucketMakesItOnce(t *testing.T) {
	s, err := s3.Open(t.Context(), s3.Config{Bucket: "another-bucket", Endpoint: server.Endpoint(), AccessKey: accessKey, SecretKey: secretKey}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 2 {
		if err := s.EnsureBucket(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, "k", "v")
}

func TestSettingsAreChecked(t *testing.T) {
	for _, cfg := range []s3.Config{{}, {Bucket: "b", AccessKey: "a"}, {Bucket: "b", SecretKey: "s"}} {
		if _, err := s3.Open(t.Context(), cfg, nil, nil); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}
