package query_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone/query"
)

// BenchmarkRows reads rows of about 1.6 KB from some batches with the same range
// of ids, and writes them as NDJSON.
func BenchmarkRows(b *testing.B) {
	words := strings.Fields("merge block chunk row batch live frame record commit sort text data store read write key id open close gone")
	r := rand.New(rand.NewPCG(1, 1))
	text := func() string {
		var s strings.Builder
		for range 260 {
			s.WriteString(words[r.IntN(len(words))] + " ")
		}
		return s.String()
	}
	for _, batches := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("%d batches", batches), func(b *testing.B) {
			bk := newBucket(b)
			bk.cut = 20_000
			for i := range batches {
				var lines []string
				for range 20_000 / batches {
					lines = append(lines, line(fmt.Sprintf("%08x", r.Uint32()), `"text":"`+text()+`"`))
				}
				bk.merged(fmt.Sprintf("b%03d", i), lines...)
			}
			b.ReportAllocs()
			for b.Loop() {
				var size int64
				w, err := query.NewNDJSON(io.Discard, nil)
				if err != nil {
					b.Fatal(err)
				}
				for row, err := range query.Rows(b.Context(), bk.store, query.Options{Dataset: "d"}) {
					if err != nil {
						b.Fatal(err)
					}
					size += int64(len(row.Raw)) + 1
					if err := w.Write(row); err != nil {
						b.Fatal(err)
					}
				}
				b.SetBytes(size)
			}
		})
	}
}
