package query_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/objtest"
	"github.com/siltstone-data/siltstone/query"
)

// mergeNow merges a batch as another process would in that moment.
func (b *bucket) mergeNow(batch string) func() {
	return func() {
		if err := merge(context.Background(), b.store, batchID(batch), b.cut, b.commit()); err != nil {
			b.t.Error(err)
		}
	}
}

func (b *bucket) readVia(s objstore.Store, o query.Options) ([]string, error) {
	b.t.Helper()
	o.WorkDir, o.Parallel = b.t.TempDir(), 1
	return read(b.t.Context(), s, o)
}

func TestAChunkThatIsGoneIsFoundInABlock(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("b"))
	one, two := b.chunk("x", 5, line("a"), line("c")), b.chunk("x", 6, line("d"), line("c", `"later":1`))
	for _, key := range []string{one, two} {
		// Absorbed after list and record were read, before its get. The rows of
		// the first chunk are then loaded and lie in a block too.
		c := newBucket(t)
		c.merged("x", line("b"))
		c.put(one, string(b.get(one)))
		c.put(two, string(b.get(two)))
		f := objtest.NewFaulty(t, c.store, objtest.On(objtest.Get).Key(key).Nth(1).Before(c.mergeNow("x")))
		got, err := c.readVia(f, query.Options{Live: true})
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, `x {"id":"a"}`, `x {"id":"b"}`, `x {"id":"c"}`, `x {"id":"d"}`)
	}
}

func TestAChunkMergedBetweenListAndRecordIsSeenOnce(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("b"))
	b.chunk("x", 5, line("a"), line("c"))
	f := objtest.NewFaulty(t, b.store, objtest.On(objtest.Get).Key("*manifest.yaml").Nth(1).Before(b.mergeNow("x")))
	got, err := b.readVia(f, query.Options{Live: true})
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, `x {"id":"a"}`, `x {"id":"b"}`, `x {"id":"c"}`)
}

func TestABlockThatIsGoneWasReplaced(t *testing.T) {
	for after := range 7 { // rows given before the batch is merged anew
		for _, live := range []bool{false, true} {
			b := newBucket(t)
			b.cut = 2
			b.merged("x", line("b"), line("d"), line("f"), line("h"))
			b.merged("y", line("c"), line("d"))
			b.chunk("x", 5, line("a"), line("e"), line("g"), line("h", `"late":1`))
			want := []string{`x {"id":"b"}`, `y {"id":"c"}`, `x {"id":"d"}`, `y {"id":"d"}`, `x {"id":"f"}`, `x {"id":"h"}`}
			if live {
				want = []string{`x {"id":"a"}`, `x {"id":"b"}`, `y {"id":"c"}`, `x {"id":"d"}`, `y {"id":"d"}`, `x {"id":"e"}`,
					`x {"id":"f"}`, `x {"id":"g"}`, `x {"id":"h"}`}
			}
			var got []string
			for row, err := range query.Rows(t.Context(), b.store, query.Options{Dataset: "d", Live: live, WorkDir: t.TempDir()}) {
				if err != nil {
					t.Fatal(err)
				}
				if len(got) == after {
					b.chunk("x", 9, line("bb"), line("ee"))
					b.mergeNow("x")()
				}
				if row.ID == "bb" || row.ID == "ee" || !live && strings.Contains("a e g", row.ID) {
					continue // came meanwhile: may be seen
				}
				got = append(got, row.Batch+" "+string(row.Raw))
			}
			same(t, got, want...)
		}
	}
}

// A merge may drop a row for its values. A reader that has it from the chunk and
// starts again under the new record must not give it.
func TestALiveRowThatAMergeDroppedIsNotGiven(t *testing.T) {
	b := newBucket(t)
	b.cut = 2
	b.merged("x", line("a"), line("b"), line("c"), line("d"))
	key := b.chunk("x", 5, line("e"))
	var got []string
	for row, err := range query.Rows(t.Context(), b.store, query.Options{Dataset: "d", Live: true, WorkDir: t.TempDir()}) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, row.Batch+" "+string(row.Raw)); len(got) == 1 {
			b.put(key, line("f")+"\n") // the merge takes the chunk, and not that row of it
			b.mergeNow("x")()
		}
	}
	same(t, got, `x {"id":"a"}`, `x {"id":"b"}`, `x {"id":"c"}`, `x {"id":"d"}`, `x {"id":"f"}`)
}

func TestAReadMakesProgressWhileABatchNeverRestsInPeace(t *testing.T) {
	b := newBucket(t)
	b.cut = 2
	var lines, want []string
	for i := range 40 {
		lines = append(lines, line(fmt.Sprintf("%03d", i)))
		want = append(want, `x `+lines[i])
	}
	b.merged("x", lines...)
	n := 0
	c := &counting{Store: b.store, get: func(key string) {
		if strings.HasSuffix(key, ".jsonl.gz") {
			if n++; n%3 != 0 { // two of three blocks are gone when they are asked for
				b.mergeNow("x")()
			}
		}
	}}
	got, err := b.readVia(c, query.Options{Live: true})
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want...)
	if open := c.open.Load(); open != 0 {
		t.Errorf("%d bodies were left open", open)
	}
}

func TestABatchThatOnlyEverChangesIsReported(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("a"))
	c := &counting{Store: b.store, get: func(key string) {
		if strings.HasSuffix(key, ".jsonl.gz") {
			b.mergeNow("x")()
		}
	}}
	if _, err := b.readVia(c, query.Options{}); !errors.Is(err, query.ErrDamaged) || !strings.Contains(err.Error(), "replaced") {
		t.Error(err)
	}
}

func TestABatchThatIsRemovedUnderAReadIsAnError(t *testing.T) {
	b := newBucket(t)
	b.cut = 1
	b.merged("x", line("a"), line("b"))
	var got []string
	var last error
	for row, err := range query.Rows(t.Context(), b.store, query.Options{Dataset: "d"}) {
		if err != nil {
			last = err
			break
		}
		got = append(got, row.ID)
		keys := b.blocks("x")
		b.remove("x")
		b.delete(keys[1])
	}
	same(t, got, "a")
	if last == nil || !strings.Contains(last.Error(), "removed") {
		t.Error(last)
	}
}

func TestDamageIsReportedWithTheKey(t *testing.T) {
	twoMembers := func(b *bucket) []byte {
		// Enough rows for several frames, so that a cut between two is whole gzip.
		b.cut = 1000
		var lines []string
		for i := range 300 {
			lines = append(lines, line(fmt.Sprintf("%03d", i), `"t":"`+strings.Repeat("x", 1000)+`"`))
		}
		b.merged("x", lines...)
		return b.get(b.blocks("x")[0])
	}
	memberEnd := func(raw []byte) int {
		return bytes.LastIndex(raw, []byte{0x1f, 0x8b, 8})
	}
	tests := []struct {
		name  string
		wound func(b *bucket, key string, raw []byte)
	}{
		{"missing", func(b *bucket, key string, _ []byte) { b.delete(key) }},
		{"empty", func(b *bucket, key string, _ []byte) { b.put(key, "") }},
		{"cut between members", func(b *bucket, key string, raw []byte) { b.put(key, string(raw[:memberEnd(raw)])) }},
		{"cut in a member", func(b *bucket, key string, raw []byte) { b.put(key, string(raw[:len(raw)-5])) }},
		{"zeros behind it", func(b *bucket, key string, raw []byte) { b.put(key, string(raw)+"\x00\x00") }},
		{"first byte", func(b *bucket, key string, raw []byte) { raw[0]++; b.put(key, string(raw)) }},
		{"middle byte", func(b *bucket, key string, raw []byte) { raw[len(raw)/2]++; b.put(key, string(raw)) }},
		{"last byte", func(b *bucket, key string, raw []byte) { raw[len(raw)-1]++; b.put(key, string(raw)) }},
		{"header byte", func(b *bucket, key string, raw []byte) { raw[9]++; b.put(key, string(raw)) }},
		{"another block", func(b *bucket, key string, raw []byte) {
			b.merged("y", line("other"))
			b.put(key, string(b.get(b.blocks("y")[0])))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBucket(t)
			raw := twoMembers(b)
			key := b.blocks("x")[0]
			tt.wound(b, key, raw)
			_, err := b.readVia(b.store, query.Options{Batches: []string{"x"}})
			if !errors.Is(err, query.ErrDamaged) && !errors.Is(err, objstore.ErrNotFound) || !strings.Contains(fmt.Sprint(err), key) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAChunkThatIsNowhereIsDamage(t *testing.T) {
	b := newBucket(t)
	b.merged("x", line("a"))
	key := b.chunk("x", 5, line("b"))
	f := objtest.NewFaulty(t, b.store, objtest.On(objtest.Get).Key(key).Nth(1).Before(func() { b.delete(key) }))
	_, err := b.readVia(f, query.Options{Live: true})
	if !errors.Is(err, query.ErrDamaged) || !strings.Contains(err.Error(), key) {
		t.Error(err)
	}
	// One that comes back was a hiccup of the store.
	b.chunk("x", 5, line("b"))
	g := objtest.NewFaulty(t, b.store, objtest.On(objtest.Get).Key(key).Nth(1).Fail(objstore.ErrNotFound))
	got, err := b.readVia(g, query.Options{Live: true})
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, `x {"id":"a"}`, `x {"id":"b"}`)
}

func TestAFailureOfTheStoreIsNoDamage(t *testing.T) {
	down := errors.New("the store is down")
	for _, key := range []string{"*.jsonl.gz", "*_chunk_*", "*manifest.yaml"} {
		b := newBucket(t)
		b.merged("x", line("a"))
		b.chunk("x", 5, line("b"))
		f := objtest.NewFaulty(t, b.store, objtest.On(objtest.Get).Key(key).Fail(down))
		if _, err := b.readVia(f, query.Options{Live: true}); !errors.Is(err, down) || errors.Is(err, query.ErrDamaged) {
			t.Errorf("%s: %v", key, err)
		}
	}
	b := newBucket(t)
	b.merged("x", line("a"))
	f := objtest.NewFaulty(t, b.store, objtest.On(objtest.Get).Key("*.jsonl.gz").Cut(20))
	if _, err := b.readVia(f, query.Options{}); err == nil || errors.Is(err, query.ErrDamaged) {
		t.Errorf("a cut body: %v", err)
	}
	g := objtest.NewFaulty(t, b.store, objtest.On(objtest.List).Cut(0))
	if _, err := b.readVia(g, query.Options{Live: true}); err == nil {
		t.Error("a cut list was taken for whole")
	}
}

func TestABlockReadAgainMustHaveTheRowsThatWereGiven(t *testing.T) {
	b := newBucket(t)
	b.cut = 1000
	var lines, want []string
	for i := range 300 {
		lines = append(lines, line(fmt.Sprintf("%03d", i), `"t":"`+strings.Repeat("x", 1000)+`"`))
		want = append(want, "x "+lines[i])
	}
	b.merged("x", lines...)
	key := b.blocks("x")[0]
	good := string(b.get(key))
	bad := []byte(good)
	bad[len(bad)-1]++ // the size in the last trailer: all rows are given before it is seen

	// Wrong once, in transit: the second reading confirms the rows.
	n := 0
	c := &counting{Store: b.store, get: func(k string) {
		if k == key {
			if n++; n == 1 {
				b.put(key, string(bad))
			} else {
				b.put(key, good)
			}
		}
	}}
	got, err := b.readVia(c, query.Options{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want...)
	if n != 2 {
		t.Errorf("the block was read %d times", n)
	}

	// A row was wrong and given: the second reading, which is right, shows it.
	other := newBucket(t)
	other.cut = 1000
	lines[3] = line("003", `"t":"wrong"`)
	other.merged("x", lines...)
	wrong := other.get(key)
	wrong = append(wrong[:min(len(wrong), len(good))], good[min(len(wrong), len(good)):]...) // of the right size
	n = 0
	c.get = func(k string) {
		if k == key {
			if n++; n == 1 {
				b.put(key, string(wrong))
			} else {
				b.put(key, good)
			}
		}
	}
	if _, err := b.readVia(c, query.Options{}); !errors.Is(err, query.ErrDamaged) || !strings.Contains(err.Error(), "already given") {
		t.Error(err)
	}

	// The bytes were wrong, and the block was replaced meanwhile.
	n = 0
	c.get = func(k string) {
		if k == key {
			if n++; n == 1 {
				b.put(key, string(bad))
			}
		} else if strings.HasSuffix(k, "manifest.yaml") && n == 1 {
			b.put(key, good)
			b.mergeNow("x")()
			n++
		}
	}
	if _, err := b.readVia(c, query.Options{}); !errors.Is(err, query.ErrDamaged) || !strings.Contains(err.Error(), "300 rows of it were given") {
		t.Error(err)
	}
}

func TestARecordThatContradictsItselfIsDamage(t *testing.T) {
	b := newBucket(t)
	b.cut = 1
	b.merged("x", line("a"), line("b"))
	raw := string(b.get(batchID("x").CommitKey()))
	for old, new := range map[string]string{
		`"first_id":"b"`:                   `"first_id":"a"`,
		`"first_id":"a"`:                   `"first_id":""`,
		`"first_id":"a","last_id":"a"`:     `"first_id":"0","last_id":"a"`,
		`"last_id":"b"`:                    `"last_id":"c"`,
		`"file":"merged_00000.jsonl.gz"`:   `"file":"merged_00000.parquet"`,
		`"version":1`:                      `"version":2`,
		`"commit":"0000000000000001"`:      `"commit":7`,
		`"dataset":"d"`:                    `"dataset":"e"`,
		`"rows":1,"bytes":` + "":           `"rows":2,"bytes":`,
		`"generation":1,"commit":"0000000`: `"generation":1,"comm`,
	} {
		if !strings.Contains(raw, old) {
			t.Fatalf("the record has no %s: %s", old, raw)
		}
		b.put(batchID("x").CommitKey(), strings.Replace(raw, old, new, 1))
		if got, err := b.readVia(b.store, query.Options{}); err == nil {
			t.Errorf("with %s a read gives %v", new, got)
		}
	}
}
