package producers_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/producers"
)

// nowhere takes every put, so that a benchmark measures the writer alone.
type nowhere struct{ objstore.Store }

func (nowhere) Put(context.Context, string, []byte, objstore.Condition) (objstore.Info, error) {
	return objstore.Info{ETag: "e"}, nil
}

func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprintf("%d-byte rows", size), func(b *testing.B) {
			row := fmt.Appendf(nil, `{"text":"%s"}`, strings.Repeat("x", size))
			w, err := producers.Open(b.Context(), nowhere{}, nil, quiet, "d", "b")
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(row)))
			b.ReportAllocs()
			for b.Loop() {
				if err := w.Write(b.Context(), row); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := w.Close(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	}
}
