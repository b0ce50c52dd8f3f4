package catalog_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

var (
	batch = dataset.BatchID{Dataset: "日本語 a+b", Batch: "50%"}
	noon  = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
)

func put(t *testing.T, s objstore.Store, key, body string) objstore.Info {
	t.Helper()
	info, err := s.Put(t.Context(), key, []byte(body), objstore.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func head(t *testing.T, s objstore.Store) catalog.Head {
	t.Helper()
	h, err := catalog.ReadHead(t.Context(), s, batch)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func commit(t *testing.T, s objstore.Store, id string, change func(*catalog.Record)) catalog.Head {
	t.Helper()
	h := head(t, s)
	next := h.Record.Next(id, "test", noon)
	if change != nil {
		change(&next)
	}
	h, err := catalog.Commit(t.Context(), s, h, next)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestACommittedRecordReadsBackAsItWas(t *testing.T) {
	s := mem.New()
	want := commit(t, s, "c1", func(r *catalog.Record) {
		r.Rows, r.NextFile = 7, 3
		r.DeduplicateOn = []string{}
		r.Blocks = []catalog.Block{{File: "merged_00001.jsonl.gz", Rows: 7, FirstID: "null", LastID: "1e3"}}
		r.Digests = []catalog.DigestFile{{File: "00002.bin", Rows: 7, Columns: []string{"text"}}}
		r.Garbage = []catalog.Garbage{{File: "merged_00000.jsonl.gz", Since: noon}}
		r.Absorb(catalog.Chunk{Batch: batch, Run: "a1b2c3", Number: 4}, true)
		r.Absorb(catalog.Chunk{Batch: batch, Run: "ffffff", Number: 1, ETag: "e1"}, false)
	}).Record
	got := head(t, s).Record
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b catalog.Ranges) bool { return a.String() == b.String() })); d != "" {
		t.Fatal(d)
	}
	if got.DeduplicateOn == nil {
		t.Fatal("an empty list came back as no opinion")
	}
	if got.Generation != 1 {
		t.Fatalf("generation %d", got.Generation)
	}
}

func TestAbsorbedChunksStayAbsorbed(t *testing.T) {
	var r catalog.Record
	known := catalog.Chunk{Batch: batch, Run: "a1b2c3", Number: 4, ETag: "x"}
	stranger := catalog.Chunk{Batch: batch, Run: "ffffff", Number: 1, ETag: "e1"}
	r.Absorb(known, true)
	r.Absorb(stranger, false)
	undead := known
	undead.ETag = "y"
	if !r.Absorbed(known) || !r.Absorbed(undead) || !r.Absorbed(stranger) {
		t.Fatal("an absorbed chunk counts as live")
	}
	reused := stranger
	reused.ETag = "e2"
	other := known
	other.Number = 5
	if r.Absorbed(reused) || r.Absorbed(other) {
		t.Fatal("a chunk that was never merged counts as absorbed")
	}
}

func TestAManifestOfAnotherToolIsNoRecord(t *testing.T) {
	for _, body := range []string{"rows: 5\nfiles:\n- merged.parquet\n", `{"rows":5}`, "lost", `{"version":1}`, `{rows: 5}`, "[]"} {
		s := mem.New()
		put(t, s, batch.CommitKey(), body)
		h := head(t, s)
		if !h.Foreign || h.Exists() || h.Record.Generation != 0 {
			t.Fatalf("%q is taken for a record: %+v", body, h.Record)
		}
		commit(t, s, "c1", nil)
		if h := head(t, s); h.Foreign || h.Record.Commit != "c1" {
			t.Fatalf("%q was not replaced", body)
		}
		if got, _, err := objstore.ReadAll(t.Context(), s, batch.HistoryKey(0)); err != nil || string(got) != body {
			t.Fatalf("the foreign manifest is not kept: %q, %v", got, err)
		}
	}
}

func TestADamagedRecordIsNotMistakenForAForeignOne(t *testing.T) {
	for _, body := range []string{
		`{"version":1,"commit":"5f0c","rows":`,
		`{"version":1,"commit":"5f0c","rows":"many"}`,
		`{"version":1,"commit":"5f0c","dataset":"other","batch":"b"}`,
		`{"version":1,"dataset":"other"`,
		`{"vers`,
		"{",
		"",
		" \n",
		strings.Repeat("\x00", 4096),
		"rows: 5\x00",
		"rows: \xff\n",
	} {
		s := mem.New()
		put(t, s, batch.CommitKey(), body)
		_, err := catalog.ReadHead(t.Context(), s, batch)
		if !errors.Is(err, catalog.ErrDamaged) || !strings.Contains(err.Error(), batch.CommitKey()) || !strings.Contains(err.Error(), "--repair") {
			t.Fatalf("%q: %v", body, err)
		}
	}
}

func TestHistoryOfAnotherToolsEmptyManifestDoesNotStopASweep(t *testing.T) {
	c := newClocked()
	put(t, c, batch.HistoryKey(0), "") // as earlier versions kept it
	commit(t, c, "c1", nil)
	c.sweep(t, catalog.SweepPolicy{HistoryMaxAge: time.Hour})
}

func TestARecordOfANewerVersionIsRefused(t *testing.T) {
	s := mem.New()
	put(t, s, batch.CommitKey(), `{"version":2,"commit":"5f0c"}`)
	if _, err := catalog.ReadHead(t.Context(), s, batch); err == nil || !strings.Contains(err.Error(), "newer siltstone") {
		t.Fatal(err)
	}
}

func FuzzReadHead(f *testing.F) {
	f.Add([]byte(`{"version":1,"dataset":"日本語 a+b","batch":"50%","commit":"x","runs":{"a1b2c3":{"absorbed":"0-3"}}}`))
	f.Add([]byte(`rows: 5`))
	f.Add([]byte(`{"version":1,"commit":null}`))
	f.Add([]byte(`[]`))
	f.Add([]byte("\x00"))
	f.Add([]byte(`{"version":1,"da`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := mem.New()
		if _, err := s.Put(t.Context(), batch.CommitKey(), raw, objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
		h, err := catalog.ReadHead(t.Context(), s, batch)
		if err == nil && !h.Foreign && !h.Exists() {
			t.Fatal("a manifest that lies there is taken for none")
		}
	})
}
