package s3_test

import (
	"fmt"
	"testing"

	"github.com/siltstone-data/siltstone/objstore/s3"
)

func FuzzContentRange(f *testing.F) {
	for _, h := range []string{"bytes 3-6/10", "bytes 0-0/1", "bytes */10", "bytes 3-6/*", "bytes 6-3/10", "bytes 3-10/10", "", "bytes", "bytes -1-3/9", "bytes 0-9223372036854775807/9223372036854775807"} {
		f.Add(h)
	}
	f.Fuzz(func(t *testing.T, h string) {
		from, to, total, err := s3.ContentRange(h)
		if err != nil {
			return
		}
		if from < 0 || to <= from || total < to {
			t.Fatalf("%q gave %d, %d, %d", h, from, to, total)
		}
		if a, b, c, err := s3.ContentRange(fmt.Sprintf("bytes %d-%d/%d", from, to-1, total)); err != nil || a != from || b != to || c != total {
			t.Fatalf("%q does not come back: %d, %d, %d, %v", h, a, b, c, err)
		}
	})
}
