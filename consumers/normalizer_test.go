package consumers_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/consumers"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

type rig struct {
	t     *testing.T
	n     *consumers.Normalizer
	store *mem.Store
	told  *told
	reg   *prometheus.Registry
}

func newRig(t *testing.T, prefix string) *rig {
	t.Helper()
	r := &rig{t: t, store: mem.New(), told: &told{}, reg: prometheus.NewRegistry()}
	var err error
	r.n, err = consumers.NewNormalizer(nil, r.told, r.told, r.store, consumers.NormalizerConfig{Bucket: "lake", Prefix: prefix, Lag: -1}, nil, r.reg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// counted gives the counters of a registry that are not 0, by label.
func counted(t *testing.T, reg *prometheus.Registry, name string) map[string]int {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if v := int(m.GetCounter().GetValue()); v > 0 {
				out[m.GetLabel()[0].GetValue()] = v
			}
		}
	}
	return out
}

func (r *rig) handle(payload string) {
	r.t.Helper()
	if err := r.n.Handle(r.t.Context(), []byte(payload)); err != nil {
		r.t.Fatal(err)
	}
}

func record(event, bucket, key, etag string) string {
	return fmt.Sprintf(`{"eventVersion":"2.1","eventSource":"aws:s3","eventTime":"2026-11-30T12:00:00.5Z","eventName":%q,`+
		`"s3":{"bucket":{"name":%q},"object":{"key":%s,"size":42,"eTag":%q,"sequencer":"0055AED6DCD90281E5"}}}`,
		event, bucket, quote(key), etag)
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func note(records ...string) string { return `{"Records":[` + strings.Join(records, ",") + `]}` }

func TestAChunkThatTheStoreTellsOfHasTheIdOfItsWritersOwnEvent(t *testing.T) {
	for _, b := range []dataset.BatchID{own, layer} {
		r := newRig(t, "")
		mine := chunk(t, r.store, b, "a1b2c3", 7, 3)
		r.handle(note(record("s3:ObjectCreated:Put", "lake", url.QueryEscape(mine.Key), `"`+mine.ETag+`"`)))
		got := r.told.take()
		if len(got) != 1 || got[0].MsgID() != mine.MsgID() || got[0].Type != mine.Type {
			t.Fatalf("%+v\nwant the id of %+v", got, mine)
		}
		if got[0].Rows != nil || got[0].Bytes != 42 || !got[0].At.Equal(time.Date(2026, 11, 30, 12, 0, 0, 5e8, time.UTC)) {
			t.Errorf("%+v", got[0])
		}
	}
}

func TestTheEndOfARunAndACommitHaveTheIdsOfTheirWritersOwnEvents(t *testing.T) {
	for _, b := range []dataset.BatchID{own, layer} {
		r := newRig(t, "a/b")
		open(t, r.store, b, "a1b2c3", catalog.RunCompleted, nil)
		chunk(t, r.store, b, "a1b2c3", 0, 3)
		h := merge(t, r.store, b, nil, nil)
		r.handle(note(
			record("ObjectCreated:Put", "lake", "a/b/"+b.RunKey("a1b2c3"), "x"),
			record("ObjectCreated:CompleteMultipartUpload", "lake", "a/b/"+b.CommitKey(), "x")))
		got := r.told.take()
		if len(got) != 2 {
			t.Fatalf("%+v", got)
		}
		ended := dataset.NewEvent(dataset.RunCompleted, b, time.Now())
		ended.Run, ended.State = "a1b2c3", catalog.RunCompleted
		if got[0].MsgID() != ended.MsgID() {
			t.Errorf("end of a run: %+v", got[0])
		}
		if want := mergeEvent(h); got[1].MsgID() != want.MsgID() || got[1].Type != want.Type || *got[1].Rows != 3 || got[1].Generation != 1 {
			t.Errorf("commit: %+v", got[1])
		}
	}
}

func TestAnOpenRunIsATriggerLikeAChunk(t *testing.T) {
	r := newRig(t, "")
	open(t, r.store, own, "a1b2c3", catalog.RunOpen, []string{"text"})
	r.handle(note(record("ObjectCreated:Put", "lake", own.RunKey("a1b2c3"), "x")))
	if events := r.told.take(); len(events) != 0 || r.told.later[own] != 1 {
		t.Errorf("%d events, %v schedules", len(events), r.told.later)
	}
}

func TestARunThatBeginsInASpreadBatchWaitsAsItsChunksDo(t *testing.T) {
	r := newRig(t, "")
	h := merge(t, r.store, own, nil, nil)
	next := h.Record.Next("0123456789abcdef", "test", time.Now())
	next.Spread = 1 << 30
	if _, err := catalog.Commit(t.Context(), r.store, h, next); err != nil {
		t.Fatal(err)
	}
	open(t, r.store, own, "a1b2c3", catalog.RunOpen, []string{"text"})
	r.handle(note(record("ObjectCreated:Put", "lake", own.RunKey("a1b2c3"), "x")))
	if want := 316 * time.Second; r.told.later[own] != 1 || r.told.quiet != want {
		t.Errorf("%v schedules, after %s", r.told.later, r.told.quiet)
	}
}

// Every byte that a name may hold comes through, whatever the store does to
// keys: FAULTS.md calls the loss of such events a fault of its own kind.
func TestKeysWithEveryByteComeThroughEncodedOnceOrNotAtAll(t *testing.T) {
	encodings := map[string]func(string) string{
		"raw":     func(k string) string { return k },
		"minio":   url.QueryEscape,
		"aws":     func(k string) string { return strings.ReplaceAll(url.QueryEscape(k), "%2F", "/") },
		"percent": func(k string) string { return strings.ReplaceAll(url.QueryEscape(k), "+", "%20") },
	}
	names := []string{"日本語", "a+b", "50%", "x=1", "a%2Bb", "a+b c%41é", "%41", "100%25", "a%2fb", "a b"}
	for c := byte(0); c < 128; c++ {
		names = append(names, "x"+string(rune(c))+"y")
	}
	for name, encode := range encodings {
		for _, n := range names {
			b := dataset.BatchID{Dataset: "d" + n, Batch: n}
			if b.Check() != nil {
				continue
			}
			r := newRig(t, "p+q/50%")
			want := chunk(t, r.store, b, "a1b2c3", 0, 1)
			r.handle(note(record("ObjectCreated:Put", "lake", encode("p+q/50%/"+want.Key), want.ETag)))
			got := r.told.take()
			if len(got) != 1 || got[0].Key != want.Key || got[0].MsgID() != want.MsgID() {
				t.Errorf("%s: key %q became %+v", name, want.Key, got)
			}
		}
	}
}

func TestADeletedChunkIsToldAndOwnOutputsAreNot(t *testing.T) {
	r := newRig(t, "")
	r.handle(note(
		record("s3:ObjectRemoved:Delete", "lake", own.ChunkKey("a1b2c3", 3), ""),
		record("s3:LifecycleExpiration:Delete", "lake", own.ChunkKey("a1b2c3", 4), ""),
		record("s3:ObjectRemoved:Delete", "lake", own.CommitKey(), ""),
		record("s3:ObjectRemoved:Delete", "lake", own.BlockKey(dataset.BlockFile(3)), ""),
		record("s3:ObjectCreated:Put", "lake", own.BlockKey(dataset.BlockFile(3)), ""),
		record("s3:ObjectCreated:Put", "lake", own.HistoryKey(3), ""),
		record("s3:ObjectCreated:Put", "lake", own.DigestKey("00003.bin"), ""),
		record("s3:ObjectCreated:Put", "lake", own.IndexKey(3), ""),
		record("s3:ObjectCreated:Put", "lake", own.IndexMetaKey(), ""),
		record("s3:ObjectCreated:Put", "lake", own.RejectedKey("a1b2c3_chunk_00003.jsonl"), ""),
		record("s3:ObjectCreated:Put", "lake", "notes.txt", ""),
		record("s3:ObjectCreated:Put", "lake", "_locks/x", "")))
	got := r.told.take()
	if len(got) != 2 || got[0].Type != dataset.ObjectsDeleted || got[0].MsgID() != "del:"+own.ChunkKey("a1b2c3", 3)+"@0055AED6DCD90281E5" {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(map[string]int{"event": 2, "ignored": 10}, counted(t, r.reg, "siltstone_notifications_total")); diff != "" {
		t.Error(diff)
	}
}

func TestOtherBucketsAndPrefixesAreForeign(t *testing.T) {
	r := newRig(t, "train/")
	key := own.ChunkKey("a1b2c3", 0)
	r.handle(note(
		record("ObjectCreated:Put", "lake2", "train/"+key, "e"),
		record("ObjectCreated:Put", "lake", "train2/"+key, "e"),
		record("ObjectCreated:Put", "lake", key, "e")))
	if got := r.told.take(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(map[string]int{"foreign": 3}, counted(t, r.reg, "siltstone_notifications_total")); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsNoNotificationIsCountedAndDoneWith(t *testing.T) {
	r := newRig(t, "")
	good := record("ObjectCreated:Put", "lake", own.ChunkKey("a1b2c3", 0), "e")
	sns := func(message string) string {
		return `{"Type":"Notification","MessageId":"1","Message":` + quote(message) + `}`
	}
	for _, payload := range []string{
		`{"Service":"Amazon S3","Event":"s3:TestEvent","Bucket":"lake"}`,
		`{"Type":"SubscriptionConfirmation","SubscribeURL":"x"}`,
		sns(`{"Event":"s3:TestEvent"}`),
		`{}`, `[]`, `null`, `7`, `"x"`, ``, `{"Records":[]}`, `{"Records":null}`, `{"Records":{}}`, "\xff\x00", sns(`no JSON`),
	} {
		r.handle(payload)
	}
	if got := r.told.take(); len(got) != 0 {
		t.Fatalf("%+v", got)
	}
	r.handle(sns(note(good)))
	if got := r.told.take(); len(got) != 1 {
		t.Errorf("inside an SNS message: %+v", got)
	}
	want := map[string]int{"test": 3, "poison": 11, "event": 1}
	if diff := cmp.Diff(want, counted(t, r.reg, "siltstone_notifications_total")); diff != "" {
		t.Error(diff)
	}
}

func TestOneUnknownRecordOfTenDoesNotTakeTheOthersWithIt(t *testing.T) {
	for name, odd := range map[string]string{
		"an event of another kind": record("ObjectRestore:Post", "lake", own.ChunkKey("a1b2c3", 3), "e"),
		"no record":                `17`,
		"a key of another type":    `{"eventName":"ObjectCreated:Put","s3":{"bucket":{"name":"lake"},"object":{"key":5}}}`,
		"a damaged manifest":       record("ObjectCreated:Put", "lake", own.RunKey("ffffff"), "e"),
	} {
		r := newRig(t, "")
		if _, err := r.store.Put(t.Context(), own.RunKey("ffffff"), []byte(`{"state":`), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
		var records []string
		for n := range 10 {
			records = append(records, record("ObjectCreated:Put", "lake", own.ChunkKey("a1b2c3", n), "e"))
		}
		records[3] = odd
		r.handle(note(records...))
		if got := r.told.take(); len(got) != 9 {
			t.Errorf("%s: %d events", name, len(got))
		}
	}
}

func TestAFailedPublishBringsTheNotificationAgain(t *testing.T) {
	r := newRig(t, "")
	r.told.fail = errors.New("NATS is down")
	if err := r.n.Handle(t.Context(), []byte(note(record("ObjectCreated:Put", "lake", own.ChunkKey("a1b2c3", 0), "e")))); !errors.Is(err, r.told.fail) {
		t.Error(err)
	}
}

func TestANormalizerWithoutABucketIsRefused(t *testing.T) {
	if _, err := consumers.NewNormalizer(nil, nil, nil, nil, consumers.NormalizerConfig{}, nil, nil); err == nil {
		t.Error("no error")
	}
}

func FuzzNotification(f *testing.F) {
	f.Add([]byte(note(record("ObjectCreated:Put", "lake", "d/b/a1b2c3_chunk_00000.jsonl", `"e"`))))
	f.Add([]byte(note(record("s3:ObjectRemoved:Delete", "lake", "d%2Fb%2Fa1b2c3_chunk_00000.jsonl", ""))))
	f.Add([]byte(`{"EventName":"s3:ObjectCreated:Put","Key":"lake/d/b/x","Records":[{"eventName":"s3:ObjectCreated:Put"}]}`))
	f.Add([]byte(`{"Type":"Notification","Message":"{\"Type\":\"Notification\",\"Message\":\"{}\"}"}`))
	f.Add([]byte(`{"Event":"s3:TestEvent"}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		told := &told{}
		n, err := consumers.NewNormalizer(nil, told, told, mem.New(), consumers.NormalizerConfig{Bucket: "lake", Lag: -1}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Handle(t.Context(), payload); err != nil {
			t.Fatal(err)
		}
		for _, e := range told.take() {
			raw, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := dataset.ParseEvent(raw); err != nil {
				t.Errorf("an event that nobody can read: %v", err)
			}
		}
	})
}

func TestTheWritersOwnAnnouncementBecomesTheEvent(t *testing.T) {
	w := newWorld(t)
	n, err := consumers.NewNormalizer(w.bus, w.bus, w.bus, w.store, consumers.NormalizerConfig{Bucket: "lake"}, logger(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.run(n.Run)
	notify := func(payload string) {
		t.Helper()
		if err := w.bus.Notify(t.Context(), []byte(payload)); err != nil {
			t.Fatal(err)
		}
	}
	announced := chunk(t, w.store, own, "a1b2c3", 0, 3)
	silent := chunk(t, w.store, own, "a1b2c3", 1, 3)
	notify("\xff poison")
	for _, e := range []dataset.Event{announced, silent} {
		payload := note(record("ObjectCreated:Put", "lake", url.QueryEscape(e.Key), e.ETag))
		notify(strings.Replace(payload, "2026-11-30T12:00:00.5Z", time.Now().UTC().Format(time.RFC3339Nano), 1))
	}
	w.publish(announced) // a moment after the store's notification
	eventually(t, func() string {
		got := map[string]int64{}
		for e, err := range w.bus.Tail(t.Context(), bus.TailFrom{Since: time.Now().Add(-time.Hour)}, false) {
			if err != nil {
				t.Fatal(err)
			}
			if _, twice := got[e.Event.Key]; twice {
				t.Fatalf("two events of %s", e.Event.Key)
			}
			got[e.Event.Key] = -1
			if e.Event.Rows != nil {
				got[e.Event.Key] = *e.Event.Rows
			}
		}
		return cmp.Diff(map[string]int64{announced.Key: 3, silent.Key: -1}, got)
	})
}
