package embedded_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/s3"
)

// BenchmarkPut10KB measures acknowledged puts, one and sixteen at a time.
func BenchmarkPut10KB(b *testing.B) {
	body := make([]byte, 10_000)
	for i := range body {
		body[i] = byte(rand.Uint32())
	}
	for _, workers := range []int{1, 16} {
		b.Run(fmt.Sprintf("c=%d", workers), func(b *testing.B) {
			s, _ := lane(b, s3.Config{})
			var n atomic.Int64
			b.ResetTimer()
			done := make(chan error, workers)
			for range workers {
				go func() {
					for {
						i := n.Add(1)
						if i > int64(b.N) {
							done <- nil
							return
						}
						if _, err := s.Put(b.Context(), fmt.Sprintf("d/%03d/%06d", i/100, i), body, objstore.IfAbsent()); err != nil {
							done <- err
							return
						}
					}
				}()
			}
			for range workers {
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
		})
	}
}
