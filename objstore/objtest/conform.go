// Package objtest tests implementations of objstore.Store, and what is built on
// them: one conformance suite, a wrapper with planned faults, and a seeded
// scheduler that runs whole simulations step by step.
package objtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/objstore"
)

// Options widens the conformance suite for stores that can do more than a file
// system can.
type Options struct {
	// AnyKeys adds keys that a folder of files cannot hold: one beside another
	// with the first as its directory, and parts longer than 255 bytes.
	AnyKeys bool
	// Large is the size of the multipart uploads; 20 MiB when 0.
	Large int64
}

// Conform runs the conformance suite. newStore gives an empty store to each
// test; whatever must be closed is closed by t.Cleanup.
func Conform(t *testing.T, newStore func(t *testing.T) objstore.Store, opts ...Options) {
	var o Options
	if len(opts) > 0 {
		o = opts[0]
	}
	if o.Large == 0 {
		o.Large = 20 << 20
	}
	for _, c := range []struct {
		name string
		test func(t *testing.T, s objstore.Store)
	}{
		{"what is put is got", testPutGet},
		{"an empty object is an object", testEmpty},
		{"a missing object is not found", testMissing},
		{"a range is part of the object", testRanges},
		{"a pinned read gives its version or ErrChanged", testPinned},
		{"a reader keeps to one version", testReaderKeepsVersion},
		{"equal ETags mean equal bytes", testETags},
		{"a put with a condition has three outcomes", testConditions},
		{"one of many creators wins", testCreateRace},
		{"no swap is lost", testSwapRace},
		{"reads see the writes before them", testReadYourWrites},
		{"an upload has the outcomes of a put", func(t *testing.T, s objstore.Store) { testUpload(t, s, 1000) }},
		{"a large upload has the outcomes of a put", func(t *testing.T, s objstore.Store) { testUpload(t, s, o.Large) }},
		{"an upload of the wrong size stores nothing", testUploadSize},
		{"a failed upload stores nothing", func(t *testing.T, s objstore.Store) { testUploadFails(t, s, o.Large) }},
		{"one of many uploaders wins", func(t *testing.T, s objstore.Store) { testUploadRace(t, s, o.Large) }},
		{"answers tell the store's time", testDate},
		{"a delete is idempotent", testDelete},
		{"a list is whole and in byte order", testList},
		{"a list goes over many pages", testListPages},
		{"a list can be left early", testListEarly},
		{"a prefix reaches into no neighbour", testListPrefix},
		{"directories are the next path elements", testDirs},
		{"keys are used as they are", func(t *testing.T, s objstore.Store) { testKeys(t, s, o.AnyKeys) }},
		{"a cancelled context stops a call", testCancelled},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, newStore(t)) })
	}
}

func put(t *testing.T, s objstore.Store, key, body string) objstore.Info {
	t.Helper()
	info, err := s.Put(t.Context(), key, []byte(body), objstore.Condition{})
	if err != nil {
		t.Fatalf("put %q: %v", key, err)
	}
	return info
}

func read(t *testing.T, s objstore.Store, key string, span objstore.Span) (string, objstore.Info) {
	t.Helper()
	r, info, err := s.Get(t.Context(), key, span)
	if err != nil {
		t.Fatalf("get %q %+v: %v", key, span, err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("read %q %+v: %v", key, span, err)
	}
	return string(b), info
}

// fails checks that a call gave one error and no other.
func fails(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
	for _, other := range []error{objstore.ErrNotFound, objstore.ErrLost, objstore.ErrChanged, objstore.ErrUnknown} {
		if other != want && errors.Is(err, other) {
			t.Errorf("%s: %v is also %v", what, err, other)
		}
	}
}

func absent(t *testing.T, s objstore.Store, key string) {
	t.Helper()
	_, _, err := s.Get(t.Context(), key, objstore.Span{})
	fails(t, "get "+key, err, objstore.ErrNotFound)
	for info, err := range s.List(t.Context(), key, "") {
		if err != nil {
			t.Fatal(err)
		}
		if info.Key == key {
			t.Errorf("%q is listed", key)
		}
	}
}

func holds(t *testing.T, s objstore.Store, key string, want []byte, info objstore.Info) {
	t.Helper()
	got, gotInfo := read(t, s, key, objstore.Span{})
	if !bytes.Equal([]byte(got), want) {
		t.Errorf("%q holds %d bytes, not the %d that were stored", key, len(got), len(want))
	}
	info.Modified, info.Date = gotInfo.Modified, gotInfo.Date // a store may read its clock twice
	if diff := cmp.Diff(info, gotInfo); diff != "" {
		t.Errorf("what get says of %q differs from what put said:\n%s", key, diff)
	}
}

func randomBytes(n int64) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

func testCancelled(t *testing.T, s objstore.Store) {
	put(t, s, "k", "v")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := s.Get(ctx, "k", objstore.Span{})
	cancelled(t, "get", err)
	err = s.Delete(ctx, "k")
	cancelled(t, "delete", err)
	_, err = s.Put(ctx, "k", []byte("w"), objstore.Condition{})
	cancelled(t, "put", err)
	_, err = s.Upload(ctx, "k", bytes.NewReader([]byte("w")), 1, objstore.IfAbsent())
	cancelled(t, "upload", err)
	var last error
	for _, err := range s.List(ctx, "", "") {
		last = err
	}
	cancelled(t, "list", last)
	last = nil
	for _, err := range s.Dirs(ctx, "") {
		last = err
	}
	cancelled(t, "dirs", last)
	if got, _ := read(t, s, "k", objstore.Span{}); got != "v" {
		t.Errorf("cancelled calls left %q", got)
	}
}

func cancelled(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%s with a cancelled context: %v", what, err)
	}
}
