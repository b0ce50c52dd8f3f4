package index_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/index"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

var (
	batch = dataset.BatchID{Dataset: "日本 a+b", Batch: "b"}
	layer = dataset.BatchID{Dataset: "d", Batch: "b", Annotator: "a"}
)

// put stores a block with the given lines and gives what a commit record says
// of it.
func put(t *testing.T, s objstore.Store, b dataset.BatchID, number int, lines []string) catalog.Block {
	t.Helper()
	var out bytes.Buffer
	w := block.NewWriter(&out, 1)
	for _, l := range lines {
		row, err := dataset.ParseRow([]byte(l))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Add(row); err != nil {
			t.Fatal(err)
		}
	}
	info, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	bl := catalog.Block{File: dataset.BlockFile(number), Rows: info.Rows, Bytes: info.Bytes, RawBytes: info.RawBytes,
		FirstID: info.FirstID, LastID: info.LastID, SHA256: info.SHA256}
	if _, err := s.Put(t.Context(), b.BlockKey(bl.File), out.Bytes(), objstore.IfAbsent()); err != nil {
		t.Fatal(err)
	}
	return bl
}

func lines(n, pad int) []string {
	out := make([]string, n)
	for i := range out {
		created := ""
		if i%3 > 0 {
			created = fmt.Sprintf(`"_created_at":"2026-11-30T12:00:00.%06dZ",`, i)
		}
		out[i] = fmt.Sprintf(`{"id":"id-%07d",%s"text":"%s"}`, i*2, created, strings.Repeat("x", pad))
	}
	return out
}

func open(t *testing.T, s objstore.Store, b dataset.BatchID, bl catalog.Block) *index.Index {
	t.Helper()
	if err := index.Build(t.Context(), s, b, bl); err != nil {
		t.Fatal(err)
	}
	x, err := index.Open(t.Context(), s, b, bl)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestAnIndexSaysWhereEachRowIs(t *testing.T) {
	for _, b := range []dataset.BatchID{batch, layer} {
		s := mem.New()
		bl := put(t, s, b, 5, lines(20_000, 100))
		x := open(t, s, b, bl)
		if err := index.Verify(t.Context(), s, b, bl); err != nil {
			t.Error(err)
		}
		if n := len(x.Frames()); n < 10 {
			t.Fatalf("%d frames: too few for this test", n)
		}
		for _, i := range []int{0, 1, 4095, 4096, 8191, 19_999} {
			id := fmt.Sprintf("id-%07d", i*2)
			p, ok, err := x.Lookup(t.Context(), id)
			if err != nil || !ok || p.Row != int64(i) {
				t.Fatalf("lookup %s: %+v, %v, %v", id, p, ok, err)
			}
			rows := frameRows(t, s, b, bl, x.Frames()[p.Frame])
			if got := rows[p.Row-x.Start(p.Frame)].ID; got != id {
				t.Errorf("row %d of the block is %s, looked for %s", i, got, id)
			}
			if n, ok := x.Frame(id); !ok || n != p.Frame {
				t.Errorf("frame of %s is %d, %v; lookup says %d", id, n, ok, p.Frame)
			}
		}
		for _, id := range []string{"", "a", "id-0000001", "id-0008193", "id-0039997", "id-0039999", "z"} {
			if p, ok, err := x.Lookup(t.Context(), id); err != nil || ok {
				t.Errorf("lookup of %q, which no row has: %+v, %v, %v", id, p, ok, err)
			}
		}
		if _, ok := x.Frame("id"); ok {
			t.Error("an id before the block is given a frame")
		}
	}
}

func frameRows(t *testing.T, s objstore.Store, b dataset.BatchID, bl catalog.Block, f block.Frame) []dataset.Row {
	t.Helper()
	r, _, err := s.Get(t.Context(), b.BlockKey(bl.File), objstore.Span{Offset: f.Offset, Length: f.Length})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := block.ReadFrame(raw)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestEntriesGiveTimesAndTheirAbsence(t *testing.T) {
	s := mem.New()
	bl := put(t, s, batch, 0, []string{
		`{"id":"a"}`,
		`{"id":"b","_created_at":0}`,
		`{"id":"c","_created_at":"2026-11-30T14:00:00.1234567+02:00"}`,
		`{"id":"d","_created_at":"no time"}`,
	})
	var got []index.Entry
	for e, err := range open(t, s, batch, bl).Entries(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	want := []index.Entry{{ID: "a"}, {ID: "b", CreatedAt: time.Unix(0, 0).UTC()},
		{ID: "c", CreatedAt: time.Date(2026, 11, 30, 12, 0, 0, 123456000, time.UTC)}, {ID: "d"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := index.Verify(t.Context(), s, batch, bl); err != nil {
		t.Error(err)
	}
}

func TestABlockWithoutRowsHasAnIndex(t *testing.T) {
	s := mem.New()
	bl := put(t, s, batch, 0, nil)
	x := open(t, s, batch, bl)
	if _, ok, err := x.Lookup(t.Context(), "a"); ok || err != nil {
		t.Errorf("lookup: %v, %v", ok, err)
	}
	if x.Rows() != 0 || len(x.Frames()) != 0 {
		t.Errorf("%d rows, %d frames", x.Rows(), len(x.Frames()))
	}
	if err := index.Verify(t.Context(), s, batch, bl); err != nil {
		t.Error(err)
	}
}

func TestTheSameBlockGivesTheSameIndex(t *testing.T) {
	read := func() []byte {
		s := mem.New()
		bl := put(t, s, batch, 1, lines(9000, 10))
		open(t, s, batch, bl)
		raw, _, err := objstore.ReadAll(t.Context(), s, batch.IndexKey(1))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	if !bytes.Equal(read(), read()) {
		t.Error("two builders write different bytes")
	}
}

func TestBuildingTwiceLeavesTheFirst(t *testing.T) {
	s := mem.New()
	bl := put(t, s, batch, 1, lines(10, 0))
	open(t, s, batch, bl)
	_, before, _ := objstore.ReadAll(t.Context(), s, batch.IndexKey(1))
	open(t, s, batch, bl)
	if _, after, _ := objstore.ReadAll(t.Context(), s, batch.IndexKey(1)); !after.Modified.Equal(before.Modified) {
		t.Error("an index was written again")
	}
}

func TestALookupTakesFewReads(t *testing.T) {
	s := mem.New()
	bl := put(t, s, batch, 1, lines(50_000, 30))
	if err := index.Build(t.Context(), s, batch, bl); err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	counted := objstore.Counted(s, objstore.NewMetrics(reg))
	gets := func() (n float64) {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range families[0].GetMetric() {
			n += m.GetCounter().GetValue()
		}
		return n
	}
	x, err := index.Open(t.Context(), counted, batch, bl)
	if err != nil {
		t.Fatal(err)
	}
	if gets() > 2 {
		t.Errorf("open took %v reads", gets())
	}
	before := gets()
	if _, ok, err := x.Lookup(t.Context(), "id-0033334"); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if n := gets() - before; n > 2 {
		t.Errorf("a lookup took %v reads", n)
	}
	before = gets()
	if _, ok, _ := x.Lookup(t.Context(), "id-0033336"); !ok || gets() > before {
		t.Errorf("a second lookup in the same page took %v reads", gets()-before)
	}
}

func TestBlocksThatCannotHaveAnIndexSaySo(t *testing.T) {
	s := mem.New()
	for _, bl := range []catalog.Block{
		{File: "merged.parquet", Rows: 1},
		{File: "merged_00001.jsonl.gz", Rows: index.MaxRows + 1},
	} {
		if err := index.Build(t.Context(), s, batch, bl); !errors.Is(err, index.ErrNoIndex) {
			t.Errorf("%s: %v", bl.File, err)
		}
	}
	bl := put(t, s, batch, 1, lines(3, 0))
	bl.SHA256 = strings.Repeat("0", 64)
	if err := index.Build(t.Context(), s, batch, bl); !errors.Is(err, block.ErrDamaged) {
		t.Errorf("a block that is not what its record says: %v", err)
	}
	if err := index.Build(t.Context(), s, batch, catalog.Block{File: dataset.BlockFile(9)}); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("a block that was replaced: %v", err)
	}
}

func TestAnIndexOfAnotherBlockIsRefused(t *testing.T) {
	s := mem.New()
	bl := put(t, s, batch, 1, lines(3, 0))
	open(t, s, batch, bl)
	bl.SHA256 = strings.Repeat("0", 64)
	if _, err := index.Open(t.Context(), s, batch, bl); !errors.Is(err, index.ErrDamaged) {
		t.Error(err)
	}
}

func TestADamagedIndexIsAnErrorAndNoPanic(t *testing.T) {
	s := mem.New()
	bl := put(t, s, batch, 1, lines(200, 30))
	open(t, s, batch, bl)
	whole, _, err := objstore.ReadAll(t.Context(), s, batch.IndexKey(1))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(whole); i += 23 {
		broken := bytes.Clone(whole)
		broken[i] ^= 0x55
		use(t, s, bl, broken)
		use(t, s, bl, whole[:i])
	}
}

// use reads everything in an index that may be damaged.
func use(t *testing.T, s objstore.Store, bl catalog.Block, raw []byte) {
	t.Helper()
	if _, err := s.Put(t.Context(), batch.IndexKey(1), raw, objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	x, err := index.Open(t.Context(), s, batch, bl)
	if err != nil {
		return
	}
	_, _, _ = x.Lookup(t.Context(), "id-0000020")
	for _, err := range x.Entries(t.Context()) {
		if err != nil {
			break
		}
	}
}

func TestACancelledReadIsNoDamage(t *testing.T) {
	s := mem.New()
	bl := put(t, s, batch, 1, lines(50_000, 0))
	x := open(t, s, batch, bl)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := x.Lookup(ctx, "id-0000020"); errors.Is(err, index.ErrDamaged) {
		t.Error(err)
	}
}

func TestAnIndexOfAParquetBlockNamesItsRowGroups(t *testing.T) {
	s := mem.New()
	bl, info := putParquet(t, s, batch, 7, lines(6000, 600))
	if len(info.Frames) < 3 {
		t.Fatalf("only %d row groups", len(info.Frames))
	}
	x := open(t, s, batch, bl)
	if diff := cmp.Diff(info.Frames, x.Frames()); diff != "" {
		t.Error(diff)
	}
	n := 0
	for e, err := range x.Entries(t.Context()) {
		if err != nil || e.ID != fmt.Sprintf("id-%07d", n*2) || e.CreatedAt.IsZero() != (n%3 == 0) || e.Frame != x.FrameOf(int64(n)) {
			t.Fatalf("row %d: %+v, %v", n, e, err)
		}
		n++
	}
	if p, ok, err := x.Lookup(t.Context(), "id-0009000"); err != nil || !ok || p.Row != 4500 || p.Frame != x.FrameOf(4500) {
		t.Errorf("%+v, %v, %v", p, ok, err)
	}
	if err := index.Verify(t.Context(), s, batch, bl); err != nil || n != 6000 {
		t.Errorf("%d rows, %v", n, err)
	}
	bad := bl
	bad.SHA256 = strings.Repeat("0", 64)
	bad.File = dataset.ParquetBlockFile(8)
	if err := index.Build(t.Context(), s, batch, bad); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("a block that was replaced: %v", err)
	}
}

func putParquet(t *testing.T, s objstore.Store, b dataset.BatchID, number int, lines []string) (catalog.Block, block.Info) {
	t.Helper()
	var out bytes.Buffer
	w := block.NewParquetWriter(&out, t.TempDir())
	for _, l := range lines {
		row, err := dataset.ParseRow([]byte(l))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Add(row); err != nil {
			t.Fatal(err)
		}
	}
	info, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	bl := catalog.Block{File: dataset.ParquetBlockFile(number), Rows: info.Rows, Bytes: info.Bytes, RawBytes: info.RawBytes,
		FirstID: info.FirstID, LastID: info.LastID, SHA256: info.SHA256}
	if _, err := s.Put(t.Context(), b.BlockKey(bl.File), out.Bytes(), objstore.IfAbsent()); err != nil {
		t.Fatal(err)
	}
	return bl, info
}
