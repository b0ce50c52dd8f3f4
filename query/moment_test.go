package query_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/objtest"
	"github.com/siltstone-data/siltstone/query"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// mergedAt merges rows at a time, and keeps the blocks that this replaces.
func (b *bucket) mergedAt(after time.Duration, batch string, lines ...string) {
	b.t.Helper()
	kept := map[string]string{}
	for _, key := range b.blocks(batch) {
		kept[key] = string(b.get(key))
	}
	b.merged(batch, lines...)
	for key, body := range kept {
		b.put(key, body)
	}
	r := b.head(batch).Record
	r.CommittedAt = noon.Add(after)
	raw, err := json.Marshal(r)
	if err != nil {
		b.t.Fatal(err)
	}
	b.put(r.ID().CommitKey(), string(raw))
}

func at(m query.Moment) query.Options { return query.Options{At: &m} }

func atTime(after time.Duration) query.Options { return at(query.Moment{Time: noon.Add(after)}) }

// past is a bucket with two batches that have three records in the order x, y, x.
func past(t *testing.T) *bucket {
	b := newBucket(t)
	b.mergedAt(0, "x", line("b"), line("d"), line("f"), line("h"))
	b.mergedAt(time.Minute, "y", line("c"))
	b.mergedAt(2*time.Minute, "x", line("a"), line("e"))
	return b
}

// plainOpened leaves out what cannot be compared.
var plainOpened = cmpopts.IgnoreFields(query.Opened{}, "Unknown")

func TestATimeGivesTheRowsThatWereMergedThen(t *testing.T) {
	b := past(t)
	before := []string{`x {"id":"b"}`, `x {"id":"d"}`, `x {"id":"f"}`, `x {"id":"h"}`}
	same(t, b.read(atTime(0)), before...)
	same(t, b.read(atTime(time.Minute)), before[0], `y {"id":"c"}`, before[1], before[2], before[3])
	same(t, b.read(atTime(time.Hour)), b.read(query.Options{})...)
	var opened query.Opened
	o := atTime(59 * time.Second)
	o.Opened = func(s query.Opened) { opened = s }
	same(t, b.read(o), before...)
	pins := []query.Pin{{Batch: "x", Generation: 1, Commit: opened.Pins.Batches[0].Commit, Rows: 4}}
	want := query.Opened{Batches: 1, Rows: 4, Absent: []string{"y"}, Pins: query.Pins{Batches: pins, Absent: []string{"y"}}}
	if diff := cmp.Diff(want, opened, plainOpened); diff != "" {
		t.Error(diff)
	}
	o = atTime(-time.Hour)
	o.Opened = func(s query.Opened) { opened = s }
	same(t, b.read(o))
	want = query.Opened{Absent: []string{"x", "y"}, Pins: query.Pins{Batches: []query.Pin{}, Absent: []string{"x", "y"}}}
	if diff := cmp.Diff(want, opened, plainOpened); diff != "" {
		t.Error(diff)
	}
}

func TestAGenerationIsThatOfOneBatch(t *testing.T) {
	b := past(t)
	o := at(query.Moment{Generation: 1})
	if _, err := read(t.Context(), b.store, o); !errors.Is(err, query.ErrMoment) || !strings.Contains(err.Error(), "name one") {
		t.Fatalf("of two batches: %v", err)
	}
	o.Batches = []string{"x"}
	same(t, b.read(o), `x {"id":"b"}`, `x {"id":"d"}`, `x {"id":"f"}`, `x {"id":"h"}`)
	o = at(query.Moment{Generation: 2})
	o.Batches = []string{"x"}
	same(t, b.read(o), b.read(query.Options{Batches: []string{"x"}})...)
	o = at(query.Moment{Generation: 3})
	o.Batches = []string{"x"}
	if _, err := read(t.Context(), b.store, o); !errors.Is(err, query.ErrNotKept) || !strings.Contains(err.Error(), "generation 3 of d/x") {
		t.Fatal(err)
	}
}

func TestThePastIsReadWholeOrNotAtAll(t *testing.T) {
	b := past(t)
	first := b.head("x").Record.Generation - 1
	gone := batchID("x").BlockKey("merged_00001.jsonl.gz") // the second one of generation 1
	body := string(b.get(gone))
	b.delete(gone)
	for _, o := range []query.Options{atTime(0), atTime(time.Minute), {At: &query.Moment{Generation: first}, Batches: []string{"x"}}} {
		rows, err := read(t.Context(), b.store, o)
		if len(rows) > 0 || !errors.Is(err, query.ErrNotKept) {
			t.Fatalf("%v, %v", rows, err)
		}
		for _, want := range []string{"d/x", "generation 1", "merged_00001.jsonl.gz", "HISTORY_MAX_AGE"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in %v", want, err)
			}
		}
	}
	b.read(atTime(time.Hour)) // the present does not need it

	flipped := []byte(body)
	flipped[len(flipped)/2] ^= 1
	b.put(gone, string(flipped))
	if _, err := read(t.Context(), b.store, atTime(0)); !errors.Is(err, query.ErrDamaged) || !strings.Contains(err.Error(), gone) {
		t.Fatalf("a damaged block: %v", err)
	}
	b.put(gone, body)
	f := objtest.NewFaulty(t, b.store, objtest.On(objtest.Get).Key("*merged_00001*").Fail(objstore.ErrNotFound))
	if _, err := read(t.Context(), f, atTime(0)); !errors.Is(err, query.ErrNotKept) || !strings.Contains(err.Error(), "merged_00001.jsonl.gz") {
		t.Fatalf("a block that goes while it is read: %v", err)
	}
	f = objtest.NewFaulty(t, b.store, objtest.On(objtest.Get).Key("*merged_00001*").Nth(1).Cut(20))
	rows, err := read(t.Context(), f, atTime(0))
	if err == nil {
		same(t, rows, b.read(atTime(0))...)
	} else if len(rows) == 4 {
		t.Fatalf("%v, %v", rows, err)
	}
}

func TestWhatWasPrunedOrNeverWasIsSaidSo(t *testing.T) {
	b := past(t)
	b.delete(batchID("x").HistoryKey(1))
	if rows, err := read(t.Context(), b.store, atTime(time.Minute)); !errors.Is(err, query.ErrNotKept) || len(rows) > 0 {
		t.Fatalf("%v, %v", rows, err)
	}
	var nf *query.NotFoundError
	for _, o := range []query.Options{{Dataset: "other", At: atTime(0).At}, {Batches: []string{"z"}, At: atTime(0).At}} {
		if _, err := read(t.Context(), b.store, o); !errors.As(err, &nf) {
			t.Fatalf("%+v: %v", o, err)
		}
	}
	o := atTime(0)
	o.Live = true
	if _, err := read(t.Context(), b.store, o); !errors.Is(err, query.ErrMoment) {
		t.Fatalf("live rows of the past: %v", err)
	}
}

func TestMomentsAreReadAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]string{
		"17": "17", "2026-11-30T12:00:00Z": "2026-11-30T12:00:00Z", "2026-11-30T13:00:00.5+01:00": "2026-11-30T12:00:00.5Z",
		"2026-11-30": "2026-11-30T00:00:00Z", "2026-11-30 12:00": "2026-11-30T12:00:00Z", "2026-11-30T12:00:09": "2026-11-30T12:00:09Z",
		"0": "", "-1": "", "": "", "yesterday": "", "12:00": "", "2026-02-30": "", "0001-01-01": "",
	} {
		m, err := query.ParseMoment(text)
		switch {
		case want == "" && !errors.Is(err, query.ErrMoment):
			t.Errorf("%q: %+v, %v", text, m, err)
		case want != "" && (err != nil || m.String() != want):
			t.Errorf("%q: %s, %v", text, m, err)
		}
	}
}

func FuzzParseMoment(f *testing.F) {
	for _, s := range []string{"17", "2026-11-30T12:00:00Z", "2026-11-30", "99999999999999999999", "+5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := query.ParseMoment(s)
		if err != nil {
			return
		}
		if again, err := query.ParseMoment(m.String()); err != nil || again != m {
			t.Fatalf("%q: %v is read as %v, %v", s, m, again, err)
		}
	})
}
