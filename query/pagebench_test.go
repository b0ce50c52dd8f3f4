package query_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/index"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/query"
)

// BenchmarkPage gets 50 rows of some 1 KB at random places of a batch.
func BenchmarkPage(b *testing.B) {
	for _, shape := range []struct {
		rows    int
		parquet bool
	}{{10_000, false}, {1_000_000, false}, {1_000_000, true}} {
		s, rows := mem.New(), shape.rows
		fill(b, s, rows, shape.parquet)
		for _, cached := range []bool{false, true} {
			b.Run(fmt.Sprintf("rows=%d/parquet=%v/disk=%v", rows, shape.parquet, cached), func(b *testing.B) {
				cfg := query.EngineConfig{}
				if cached {
					cfg.CacheDir = b.TempDir()
				}
				e := engineOver(b, s, cfg)
				r := rand.New(rand.NewPCG(2, 2))
				places := make([]string, 200)
				for i := range places {
					p, err := e.Page(b.Context(), query.PageRequest{Dataset: "d", Limit: 1, Desc: true})
					if err != nil {
						b.Fatal(err)
					}
					places[i] = cursorAt(b, p.Next, rowID(r.IntN(rows)))
				}
				var took []time.Duration
				var read int64
				b.ReportAllocs()
				for b.Loop() {
					p, err := e.Page(b.Context(), query.PageRequest{Dataset: "d", Desc: true, Cursor: places[len(took)%len(places)], Clip: 400})
					if err != nil {
						b.Fatal(err)
					}
					took = append(took, p.Took)
					read += p.BytesRead
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
				b.ReportMetric(float64(read)/float64(len(took)), "read-B/page")
			})
		}
	}
}

func rowID(i int) string { return fmt.Sprintf("%08d-0000-7000", i) }

// fill makes a batch with indexes of so many rows.
func fill(t testing.TB, s objstore.Store, rows int, parquet bool) {
	t.Helper()
	ctx := context.Background()
	r := rand.New(rand.NewPCG(1, 1))
	words := strings.Fields("merge block chunk row batch live frame record commit sort text data store read write key id open close gone")
	texts := make([]string, 2000)
	for i := range texts {
		var text strings.Builder
		for range 170 {
			text.WriteString(words[r.IntN(len(words))] + " ")
		}
		texts[i] = text.String()
	}
	h, err := catalog.ReadHead(ctx, s, batchID("b"))
	if err != nil {
		t.Fatal(err)
	}
	next := h.Record.Next("0000000000000001", "test", time.Unix(0, 0))
	for from := 0; from < rows; from += 50_000 {
		var buf bytes.Buffer
		var w interface {
			Add(dataset.Row) error
			Close() (block.Info, error)
		} = block.NewWriter(&buf, 1)
		name := dataset.BlockFile
		if parquet {
			w, name = block.NewParquetWriter(&buf, t.TempDir()), dataset.ParquetBlockFile
		}
		for i := from; i < min(rows, from+50_000); i++ {
			raw := fmt.Sprintf(`{"id":"%s","_created_at":"2026-11-30T06:00:00.000000Z","n":%d,"score":%d.5,"lang":"en","text":"%s"}`,
				rowID(i), i, i%100, texts[r.IntN(len(texts))])
			if err := w.Add(dataset.Row{ID: rowID(i), Raw: []byte(raw)}); err != nil {
				t.Fatal(err)
			}
		}
		info, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		bl := catalog.Block{File: name(next.NextFile), Rows: info.Rows, Bytes: info.Bytes, RawBytes: info.RawBytes,
			FirstID: info.FirstID, LastID: info.LastID, SHA256: info.SHA256}
		next.NextFile++
		next.Blocks = append(next.Blocks, bl)
		next.Rows += bl.Rows
		if _, err := s.Put(ctx, batchID("b").BlockKey(bl.File), buf.Bytes(), objstore.IfAbsent()); err != nil {
			t.Fatal(err)
		}
		if err := index.Build(ctx, s, batchID("b"), bl); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := catalog.Commit(ctx, s, h, next); err != nil {
		t.Fatal(err)
	}
}

// cursorAt is a cursor with another row in it: pages at random places are not
// reached by following cursors.
func cursorAt(t testing.TB, cursor, id string) string {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := bytes.Cut(raw, []byte(`"i":"`))
	_, after, _ := bytes.Cut(rest, []byte(`"`))
	return base64.RawURLEncoding.EncodeToString([]byte(string(before) + `"i":"` + id + `"` + string(after)))
}

// slow is a store that answers after a while, as one in a network does.
type slow struct {
	objstore.Store
	after time.Duration
}

// Get waits, and gives what the store has.
func (s slow) Get(ctx context.Context, key string, span objstore.Span) (io.ReadCloser, objstore.Info, error) {
	t := time.NewTimer(s.after)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return nil, objstore.Info{}, ctx.Err()
	}
	return s.Store.Get(ctx, key, span)
}

// BenchmarkFirstLivePage gets the first page of a batch of which nothing is
// merged and nothing was read before.
func BenchmarkFirstLivePage(b *testing.B) {
	const chunks, rows = 10_000, 100
	s := mem.New()
	text := strings.Repeat("live rows of a chunk ", 10)
	var body bytes.Buffer
	for c := range chunks {
		body.Reset()
		for i := range rows {
			fmt.Fprintf(&body, `{"id":"%s","_created_at":"2026-11-30T06:00:00.000000Z","n":%d,"text":"%s"}`+"\n", rowID(c*rows+i), i, text)
		}
		key := batchID("b").ChunkKey("a1b2c3", c)
		if _, err := s.Put(b.Context(), key, bytes.Clone(body.Bytes()), objstore.Condition{}); err != nil {
			b.Fatal(err)
		}
	}
	for _, after := range []time.Duration{0, 10 * time.Millisecond} {
		b.Run(fmt.Sprintf("latency=%v", after), func(b *testing.B) {
			for b.Loop() {
				st := slow{s, after}
				e, err := query.NewEngine(st, query.Listed(st), query.EngineConfig{}, nil, nil)
				if err != nil {
					b.Fatal(err)
				}
				if p, err := e.Page(b.Context(), query.PageRequest{Dataset: "d", Desc: true}); err != nil || len(p.Rows) != 50 {
					b.Fatal(len(p.Rows), err)
				}
			}
		})
	}
}
