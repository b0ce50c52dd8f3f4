package bus_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
)

func TestKeysAreCreatedUpdatedAndDeletedByRevision(t *testing.T) {
	h := serve(t)
	kv, ctx := h.join().KV(bus.Catalog), t.Context()
	if _, err := kv.Get(ctx, "k"); !errors.Is(err, bus.ErrNoKey) {
		t.Fatalf("got %v", err)
	}
	rev, err := kv.Create(ctx, "k", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Create(ctx, "k", nil); !errors.Is(err, bus.ErrExists) {
		t.Fatalf("got %v", err)
	}
	if _, err := kv.Update(ctx, "k", nil, rev+5); !errors.Is(err, bus.ErrRevision) {
		t.Fatalf("got %v", err)
	}
	rev, err = kv.Update(ctx, "k", []byte("2"), rev)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := kv.Get(ctx, "k"); err != nil || string(e.Value) != "2" || e.Revision != rev || e.Key != "k" {
		t.Fatalf("%+v %v", e, err)
	}
	if err := kv.Delete(ctx, "k", rev-1); !errors.Is(err, bus.ErrRevision) {
		t.Fatalf("got %v", err)
	}
	if err := kv.Delete(ctx, "k", rev); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Get(ctx, "k"); !errors.Is(err, bus.ErrNoKey) {
		t.Fatalf("got %v", err)
	}
	if err := kv.Delete(ctx, "never", 0); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Create(ctx, "k", []byte("3")); err != nil {
		t.Fatalf("create over a deleted key: %v", err)
	}
	if _, err := kv.Put(ctx, "k", make([]byte, bus.MaxValueBytes)); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(ctx, "k", make([]byte, bus.MaxValueBytes+1)); err == nil || !strings.Contains(err.Error(), "allowed") {
		t.Fatalf("got %v", err)
	}
}

func TestBadAndLongKeysAreRefusedBeforeTheServerSeesThem(t *testing.T) {
	h := serve(t)
	b := h.join()
	kv := b.KV(bus.Catalog)
	for _, key := range []string{"", ".", "a.", ".a", "a..b", "a b", "a*", ">", "日", "a\r\nPUB x 0", strings.Repeat("k", bus.MaxKeyBytes+1), strings.Repeat("k", 9000)} {
		if _, err := kv.Put(t.Context(), key, nil); err == nil {
			t.Errorf("key %.20q was taken", key)
		}
		if _, err := kv.Get(t.Context(), key); err == nil || errors.Is(err, bus.ErrNoKey) {
			t.Errorf("key %.20q was read: %v", key, err)
		}
	}
	long := strings.Repeat("k", bus.MaxKeyBytes)
	if _, err := kv.Create(t.Context(), long, []byte("v")); err != nil {
		t.Fatal(err)
	}
	if e, err := kv.Get(t.Context(), long); err != nil || string(e.Value) != "v" {
		t.Fatal(err)
	}
	n := 0
	for e, err := range kv.List(t.Context(), long) {
		if err != nil || e.Key != long {
			t.Fatal(e.Key, err)
		}
		n++
	}
	if n != 1 || !b.Connected() {
		t.Fatal("the longest key is not listed")
	}
}

func TestRacingCreatesHaveOneWinner(t *testing.T) {
	h := serve(t)
	kv := h.join().KV(bus.Catalog)
	for round := range 5 {
		var wg sync.WaitGroup
		var won list[int]
		for i := range 20 {
			wg.Go(func() {
				_, err := kv.Create(t.Context(), "k", []byte{byte(i)})
				if err == nil {
					won.add(i)
				} else if !errors.Is(err, bus.ErrExists) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.len() != 1 {
			t.Fatalf("round %d: winners %v", round, won.all())
		}
		if err := kv.Delete(t.Context(), "k", 0); err != nil {
			t.Fatal(err)
		}
	}
}

func TestListGivesWhatMatchesAndIsThere(t *testing.T) {
	h := serve(t)
	kv := h.join().KV(bus.Catalog)
	ctx := t.Context()
	if got := listed(t, kv, ">"); len(got) != 0 {
		t.Fatalf("an empty bucket lists %v", got)
	}
	want := map[string]string{}
	for _, n := range oddNames {
		key := "batch." + dataset.Token(n) + "." + dataset.Token("x."+n) + ".="
		if _, err := kv.Put(ctx, key, []byte(n)); err != nil {
			t.Fatal(err)
		}
		want[key] = n
	}
	for i := range 300 {
		if _, err := kv.Put(ctx, fmt.Sprintf("chunk.d.b.=.%06x.%d", i, i), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := kv.Delete(ctx, "chunk.d.b.=.000001.1", 0); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, listed(t, kv, "batch.>")); diff != "" {
		t.Fatal(diff)
	}
	if n := len(listed(t, kv, "chunk.d.b.>")); n != 299 {
		t.Fatalf("%d chunks", n)
	}
	if n := len(listed(t, kv, ">")); n != 299+len(want) {
		t.Fatalf("%d keys", n)
	}
	if n := len(listed(t, kv, "none.>")); n != 0 {
		t.Fatalf("%d of none", n)
	}
	for range kv.List(ctx, ">") {
		break // may stop early
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	var last error
	for _, err := range kv.List(cancelled, ">") {
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Fatalf("a list that was cut short ends with %v", last)
	}
}

func listed(t testing.TB, kv *bus.KV, filter string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for e, err := range kv.List(t.Context(), filter) {
		if err != nil {
			t.Fatal(err)
		}
		got[e.Key] = string(e.Value)
	}
	return got
}

func TestListExplainsAMissingBucket(t *testing.T) {
	h := serve(t)
	b := h.connect()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := b.KV(bus.Catalog).Get(ctx, "k"); !errors.Is(err, bus.ErrTopology) || !strings.Contains(err.Error(), "siltstone topology") {
		t.Fatalf("got %v", err)
	}
}

// mirror is what a follower believes a bucket to hold.
type mirror struct {
	mu     sync.Mutex
	keys   map[string]string
	synced int
	calls  int
}

func follow(t testing.TB, kv *bus.KV, filter string) *mirror {
	t.Helper()
	m := &mirror{keys: map[string]string{}}
	background(t, func(ctx context.Context) error {
		return kv.Follow(ctx, filter, func(e bus.Entry) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.calls++
			if e.Deleted {
				delete(m.keys, e.Key)
			} else {
				m.keys[e.Key] = string(e.Value)
			}
			return nil
		}, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.synced++
		})
	})
	eventually(t, "synced", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.synced > 0 })
	return m
}

func (m *mirror) is(want map[string]string) func() bool {
	return func() bool { m.mu.Lock(); defer m.mu.Unlock(); return maps.Equal(m.keys, want) }
}

func put(t testing.TB, kv *bus.KV, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if _, err := kv.Put(t.Context(), pairs[i], []byte(pairs[i+1])); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFollowerSeesSnapshotThenChanges(t *testing.T) {
	h := serve(t)
	kv := h.join().KV(bus.Catalog)
	empty := follow(t, kv, ">")
	put(t, kv, "a.1", "x", "a.2", "y", "b.1", "z")
	if err := kv.Delete(t.Context(), "a.2", 0); err != nil {
		t.Fatal(err)
	}
	m := follow(t, kv, "a.>")
	if !m.is(map[string]string{"a.1": "x"})() {
		t.Fatalf("synced with %v", m.keys)
	}
	put(t, kv, "a.3", "w", "b.2", "v")
	if err := kv.Delete(t.Context(), "a.1", 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "changes", m.is(map[string]string{"a.3": "w"}))
	eventually(t, "changes", empty.is(map[string]string{"a.3": "w", "b.1": "z", "b.2": "v"}))
	if m.synced != 1 {
		t.Fatalf("synced %d times", m.synced)
	}
}

func TestAFollowerHearsOfValuesWhoseLifeRanOut(t *testing.T) {
	h := serve(t)
	kv := h.join().KV(bus.Cache)
	m := follow(t, kv, ">")
	if _, err := kv.PutFor(t.Context(), "k", []byte("v"), time.Millisecond); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is there", m.is(map[string]string{"k": "v"}))
	eventually(t, "it is gone", m.is(map[string]string{}))
	if _, err := kv.Get(t.Context(), "k"); !errors.Is(err, bus.ErrNoKey) {
		t.Fatalf("got %v", err)
	}
	if _, err := kv.Create(t.Context(), "k", nil); err != nil {
		t.Fatal(err)
	}
}

func TestAFollowerSurvivesARestartAndABucketMadeAnew(t *testing.T) {
	h := serve(t)
	b := h.join()
	kv := b.KV(bus.Catalog)
	put(t, kv, "a", "1", "b", "1", "c", "1")
	m := follow(t, kv, ">")
	h.down()
	h.up()
	eventually(t, "reconnect", b.Connected)
	put(t, kv, "b", "2", "d", "1")
	eventually(t, "changes after a restart", m.is(map[string]string{"a": "1", "b": "2", "c": "1", "d": "1"}))
	if m.calls > 5 {
		t.Fatalf("%d calls: the snapshot came again", m.calls)
	}
	h.wipe()
	eventually(t, "reconnect", b.Connected)
	if _, err := b.Topology(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	put(t, kv, "b", "3", "e", "1")
	eventually(t, "the new bucket and nothing of the old", m.is(map[string]string{"b": "3", "e": "1"}))
	s, err := b.JetStream().Stream(t.Context(), b.BucketStream(bus.Catalog))
	if err != nil {
		t.Fatal(err)
	}
	// Made anew beside a living connection: the numbers start again.
	if err := b.JetStream().DeleteStream(t.Context(), b.BucketStream(bus.Catalog)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.JetStream().CreateStream(t.Context(), s.CachedInfo().Config); err != nil {
		t.Fatal(err)
	}
	put(t, kv, "f", "1")
	eventually(t, "the newest bucket", m.is(map[string]string{"f": "1"}))
	if m.synced != 1 {
		t.Fatalf("synced %d times", m.synced)
	}
}

func TestAFollowerEndsWithTheErrorOfItsCallback(t *testing.T) {
	h := serve(t)
	kv := h.join().KV(bus.Catalog)
	put(t, kv, "a", "1")
	mine := errors.New("mine")
	if err := kv.Follow(t.Context(), ">", func(bus.Entry) error { return mine }, nil); !errors.Is(err, mine) {
		t.Fatalf("got %v", err)
	}
}

func TestAFollowerEndsAtOnceWhileTheServerIsAway(t *testing.T) {
	h := serve(t)
	b := h.join()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		done <- b.KV(bus.Catalog).Follow(ctx, ">", func(bus.Entry) error { return nil }, func() { close(ready) })
	}()
	<-ready
	h.down()
	eventually(t, "disconnect", func() bool { return !b.Connected() })
	start := time.Now()
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d > time.Second {
		t.Fatalf("it took %s", d)
	}
}
