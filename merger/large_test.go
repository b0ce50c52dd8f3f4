package merger_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

// generated is a store whose chunks are made when they are read, and that
// forgets the blocks stored in it: a batch of any size in no memory.
type generated struct {
	objstore.Store
	chunks int
	rows   int
	bytes  int // of a row's text
}

func (g generated) body(n int) []byte {
	rng := rand.New(rand.NewPCG(uint64(n), 9))
	text := make([]byte, g.bytes)
	var b bytes.Buffer
	for range g.rows {
		for i := 0; i < len(text); i += 8 {
			v := rng.Uint64()
			for j := i; j < min(i+8, len(text)); j++ {
				text[j] = "etaoin shrdlu cm"[v&15]
				v >>= 4
			}
		}
		fmt.Fprintf(&b, `{"id":"%016x","_created_at":"2026-01-01T00:00:00.%06dZ","text":"%s"}`+"\n", rng.Uint64(), rng.IntN(1e6), text)
	}
	return b.Bytes()
}

func (g generated) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		for i, err := range g.Store.List(ctx, prefix, after) {
			if !yield(i, err) {
				return
			}
		}
		size := int64(len(g.body(0)))
		for n := range g.chunks {
			if k := theBatch.ChunkKey("aaaaaa", n); k > after && strings.HasPrefix(k, prefix) && !yield(objstore.Info{Key: k, Size: size, ETag: "e"}, nil) {
				return
			}
		}
	}
}

func (g generated) Get(ctx context.Context, key string, s objstore.Span) (io.ReadCloser, objstore.Info, error) {
	k := dataset.ParseKey(key)
	if k.Kind != dataset.KindChunk {
		return g.Store.Get(ctx, key, s)
	}
	body := g.body(k.Number)
	return io.NopCloser(bytes.NewReader(body)), objstore.Info{Key: key, Size: int64(len(body)), ETag: "e"}, nil
}

func (g generated) Upload(_ context.Context, key string, r io.ReadSeeker, size int64, _ objstore.Condition) (objstore.Info, error) {
	n, err := io.Copy(io.Discard, r)
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return objstore.Info{Key: key, Size: size, ETag: "e"}, err
}

// A batch of SILTSTONE_LARGE megabytes (300 if not set) in chunks of 100 rows
// of 10 KB. It reports the most memory that the process ever had.
func BenchmarkMergeLarge(b *testing.B) {
	mb := 300
	if s := os.Getenv("SILTSTONE_LARGE"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			b.Fatal(err)
		}
		mb = n
	}
	b.SetBytes(int64(mb) << 20)
	for b.Loop() {
		s := mem.New()
		putRun(b, s, theBatch, "aaaaaa", []string{"text"}, catalog.RunCompleted)
		g := generated{Store: s, chunks: mb, rows: 100, bytes: 10_400}
		e := engine(b, g, merger.Config{WorkDir: b.TempDir()})
		if res := merge(b, e, theBatch); res.Added != int64(100*mb) {
			b.Fatalf("%+v", res)
		}
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip(err)
	}
	for line := range strings.Lines(string(status)) {
		if kb, is := strings.CutPrefix(line, "VmHWM:"); is {
			n, _ := strconv.ParseFloat(strings.Fields(kb)[0], 64)
			b.ReportMetric(n/1024, "peak-MB")
		}
	}
}
