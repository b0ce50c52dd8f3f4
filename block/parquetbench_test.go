package block_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/dataset"
)

// BenchmarkParquet writes and reads blocks of 20,000 rows of some 600 bytes.
func BenchmarkParquet(b *testing.B) {
	var rows []dataset.Row
	raw := 0
	for i, l := range manyLines(20_000, 100) {
		rows = append(rows, dataset.Row{ID: fmt.Sprintf("%08d", i), Raw: []byte(l)})
		raw += len(l) + 1
	}
	var out bytes.Buffer
	write := func() block.Info {
		out.Reset()
		w := block.NewParquetWriter(&out, b.TempDir())
		for _, r := range rows {
			if err := w.Add(r); err != nil {
				b.Fatal(err)
			}
		}
		info, err := w.Close()
		if err != nil {
			b.Fatal(err)
		}
		return info
	}
	b.Run("write", func(b *testing.B) {
		b.SetBytes(int64(raw))
		for b.Loop() {
			write()
		}
	})
	info := write()
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(raw))
		for b.Loop() {
			r := block.NewParquetReader(bytes.NewReader(out.Bytes()), info.Bytes, wantOf(info))
			for {
				if _, err := r.Next(); err == io.EOF {
					break
				} else if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("frame", func(b *testing.B) {
		p := openParquetBlock(b, out.Bytes())
		f := info.Frames[len(info.Frames)/2]
		b.ReportMetric(float64(f.Length), "B")
		for b.Loop() {
			if _, err := p.Frame(len(info.Frames)/2, out.Bytes()[f.Offset:f.Offset+f.Length]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Logf("%d raw bytes, %d in the block, %d frames", raw, info.Bytes, len(info.Frames))
}
