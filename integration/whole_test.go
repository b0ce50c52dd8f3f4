package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/index"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
	"github.com/siltstone-data/siltstone/query"
)

var wholeBatch = dataset.BatchID{Dataset: "d", Batch: "b"}

// framed is a batch of one block of several frames, with an index, and its rows.
func framed(t *testing.T) (objstore.Store, catalog.Block, map[string]string) {
	t.Helper()
	s := mem.New()
	rng := rand.New(rand.NewPCG(1, 2))
	var chunk bytes.Buffer
	rows := map[string]string{}
	for i := range 40 {
		text := make([]byte, 12<<10)
		for j := range text {
			text[j] = 'a' + byte(rng.IntN(26))
		}
		id := fmt.Sprintf("r%02d", 2*i)
		rows[id] = fmt.Sprintf(`{"id":%q,"text":%q}`, id, text)
		chunk.WriteString(rows[id] + "\n")
	}
	store(t, s, wholeBatch.ChunkKey("aaaaaa", 0), chunk.Bytes())
	if _, err := engineOf(t, s).Merge(t.Context(), wholeBatch); err != nil {
		t.Fatal(err)
	}
	h, err := catalog.ReadHead(t.Context(), s, wholeBatch)
	if err != nil || len(h.Record.Blocks) != 1 {
		t.Fatalf("%+v, %v", h.Record, err)
	}
	bl := h.Record.Blocks[0]
	if err := index.Build(t.Context(), s, wholeBatch, bl); err != nil {
		t.Fatal(err)
	}
	return s, bl, rows
}

func engineOf(t *testing.T, s objstore.Store) *merger.Engine {
	t.Helper()
	e, err := merger.New(s, nil, merger.Config{WorkDir: t.TempDir()}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func store(t *testing.T, s objstore.Store, key string, body []byte) {
	t.Helper()
	if _, err := s.Put(t.Context(), key, body, objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
}

// A block that is not what its record says is never merged and never served as
// if it were whole, and whoever finds it names it.
func TestADamagedBlockIsNeverTakenForAWholeOne(t *testing.T) {
	_, bl, _ := framed(t)
	for name, harm := range map[string]func(body []byte, frames []block.Frame) []byte{
		"cut within a member":    func(b []byte, f []block.Frame) []byte { return b[:f[1].Offset+f[1].Length/2] },
		"cut between members":    func(b []byte, f []block.Frame) []byte { return b[:f[1].Offset] },
		"cut before the last":    func(b []byte, f []block.Frame) []byte { return b[:f[len(f)-1].Offset] },
		"a byte short":           func(b []byte, _ []block.Frame) []byte { return b[:len(b)-1] },
		"empty":                  func([]byte, []block.Frame) []byte { return nil },
		"a flipped bit":          func(b []byte, f []block.Frame) []byte { b[f[1].Offset+f[1].Length/2] ^= 1; return b },
		"a flipped bit, header":  func(b []byte, f []block.Frame) []byte { b[f[1].Offset+1] ^= 1; return b },
		"a flipped bit in a CRC": func(b []byte, f []block.Frame) []byte { b[f[0].Length-6] ^= 1; return b },
		"a member twice":         func(b []byte, f []block.Frame) []byte { return append(b, b[f[len(f)-1].Offset:]...) },
		"padding at the end":     func(b []byte, _ []block.Frame) []byte { return append(b, 0, 0, 0, 0) },
		"another whole block": func([]byte, []block.Frame) []byte {
			var out bytes.Buffer
			w := block.NewWriter(&out, 1)
			for _, id := range []string{bl.FirstID, bl.LastID} {
				r, _ := dataset.ParseRow([]byte(fmt.Sprintf(`{"id":%q}`, id)))
				_ = w.Add(r)
			}
			_, _ = w.Close()
			return out.Bytes()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, bl, rows := framed(t)
			key := wholeBatch.BlockKey(bl.File)
			body, _, err := objstore.ReadAll(t.Context(), s, key)
			if err != nil {
				t.Fatal(err)
			}
			frames, err := block.ScanFrames(bytes.NewReader(body))
			if err != nil || len(frames) < 3 {
				t.Fatalf("%d frames, %v", len(frames), err)
			}
			store(t, s, key, harm(bytes.Clone(body), frames))
			named(t, "export", exported(t, s, len(rows)), key)
			paged(t, s, rows, key)
			rep, err := merger.Verify(t.Context(), s, wholeBatch)
			if err != nil || rep.OK() || rep.Problems[0].Key != key {
				t.Errorf("verify: %+v, %v", rep, err)
			}
			store(t, s, wholeBatch.ChunkKey("aaaaaa", 1), []byte(`{"id":"r11"}`+"\n"))
			res, err := engineOf(t, s).Merge(t.Context(), wholeBatch)
			if named(t, "merge", err, key); res.Committed {
				t.Error("it was merged")
			}
		})
	}
}

// A body that the network cuts is an error, or is read to its end by another
// request: never a short one.
func TestABodyCutOnTheWayIsNeverTakenForAWholeOne(t *testing.T) {
	for _, at := range []int64{0, 1, 5000, 200 << 10} {
		s, bl, rows := framed(t)
		key := wholeBatch.BlockKey(bl.File)
		cut := func() objstore.Store {
			return objtest.NewFaulty(t, s, objtest.On(objtest.Get).Key("*merged_*").Cut(at))
		}
		named(t, "export", exported(t, cut(), len(rows)), key)
		store(t, s, wholeBatch.ChunkKey("aaaaaa", 1), []byte(`{"id":"r11"}`+"\n"))
		res, err := engineOf(t, cut()).Merge(t.Context(), wholeBatch)
		if named(t, "merge", err, key); res.Committed {
			t.Error("it was merged")
		}
		if rep, err := merger.Verify(t.Context(), cut(), wholeBatch); err == nil && rep.OK() {
			t.Errorf("verify: %+v", rep)
		}
		chunk := wholeBatch.ChunkKey("aaaaaa", 1)
		f := objtest.NewFaulty(t, s, objtest.On(objtest.Get).Key("*_chunk_*").Cut(min(at, 7)))
		res, err = engineOf(t, f).Merge(t.Context(), wholeBatch)
		if named(t, "merge of a cut chunk", err, chunk); res.Committed {
			t.Error("a cut chunk was merged")
		}
		o := query.Options{Dataset: "d", Live: true, WorkDir: t.TempDir()}
		var failed error
		for _, err := range query.Rows(t.Context(), objtest.NewFaulty(t, s, objtest.On(objtest.Get).Key("*_chunk_*").Cut(min(at, 7))), o) {
			failed = err
		}
		named(t, "export of a cut chunk", failed, chunk)
	}
}

// named checks that there is an error, and that it names the object.
func named(t *testing.T, what string, err error, key string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), key) {
		t.Errorf("%s: %v", what, err)
	}
}

// exported reads all rows, and gives the error that ends the read.
func exported(t *testing.T, s objstore.Store, all int) (failed error) {
	n := 0
	for _, err := range query.Rows(t.Context(), s, query.Options{Dataset: "d", WorkDir: t.TempDir()}) {
		if failed = err; err == nil {
			n++
		}
	}
	if failed == nil && n != all {
		t.Errorf("%d rows of %d, without an error", n, all)
	}
	return failed
}

// paged walks over all pages: rows of whole frames may be given, any other row
// is an error that names the block.
func paged(t *testing.T, s objstore.Store, rows map[string]string, key string) {
	t.Helper()
	e, err := query.NewEngine(s, query.Listed(s), query.EngineConfig{}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	given := 0
	for cursor := ""; ; {
		p, err := e.Page(context.Background(), query.PageRequest{Dataset: "d", Limit: 5, Cursor: cursor})
		if err != nil {
			named(t, "page", err, key)
			return
		}
		for _, raw := range p.Rows {
			var got, want struct{ ID, Text string }
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(rows[got.ID]), &want); err != nil || got != want {
				t.Fatalf("row %s is not what was written", got.ID)
			}
			given++
		}
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	if given != len(rows) {
		t.Errorf("%d rows of %d in pages, without an error", given, len(rows))
	}
}
