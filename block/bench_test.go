package block_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/dataset"
)

// proseRows are rows of 2 KB that compress as prose does.
func proseRows(b *testing.B, n int) (rows []dataset.Row, size int64) {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	words := make([]string, 4000)
	for i := range words {
		for range 2 + rng.IntN(8) {
			words[i] += string(rune('a' + rng.IntN(26)))
		}
	}
	for i := range n {
		text := ""
		for len(text) < 1900 {
			text += words[int(rng.ExpFloat64()*400)%len(words)] + " "
		}
		r := row(b, fmt.Sprintf(`{"id":"%08d","text":"%s","n":%d}`, i, text, rng.IntN(1000)))
		rows = append(rows, r)
		size += int64(len(r.Raw) + 1)
	}
	return rows, size
}

func BenchmarkWriter(b *testing.B) {
	rows, size := proseRows(b, 5000)
	for _, level := range []int{1, 3, 6} {
		b.Run(fmt.Sprintf("level %d", level), func(b *testing.B) {
			b.SetBytes(size)
			var bytes int64
			for b.Loop() {
				w := block.NewWriter(io.Discard, level)
				for _, r := range rows {
					if err := w.Add(r); err != nil {
						b.Fatal(err)
					}
				}
				info, err := w.Close()
				if err != nil {
					b.Fatal(err)
				}
				bytes = info.Bytes
			}
			b.ReportMetric(float64(size)/float64(bytes), "ratio")
		})
	}
}

func BenchmarkReader(b *testing.B) {
	rows, size := proseRows(b, 5000)
	var buf bytes.Buffer
	w := block.NewWriter(&buf, 1)
	for _, r := range rows {
		if err := w.Add(r); err != nil {
			b.Fatal(err)
		}
	}
	info, err := w.Close()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	for b.Loop() {
		r := block.NewReader(bytes.NewReader(buf.Bytes()), wantOf(info))
		for {
			if _, err := r.Next(); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkSorter(b *testing.B) {
	for _, size := range []int{32, 2000} {
		for name, budget := range map[string]int64{"memory": 1 << 30, "disk": 8 << 20} {
			b.Run(fmt.Sprintf("%d bytes, %s", size, name), func(b *testing.B) {
				n := 64 << 20 / (size + 16)
				payload := bytes.Repeat([]byte("some prose "), size/11+1)[:size]
				key := make([]byte, 16)
				b.SetBytes(int64(n) * int64(size+16))
				for b.Loop() {
					s := block.NewSorter(b.TempDir(), budget)
					for i := range n {
						binary.BigEndian.PutUint64(key, uint64(i)*0x9E3779B97F4A7C15)
						if err := s.Add(key, payload); err != nil {
							b.Fatal(err)
						}
					}
					sorted, err := s.Sort()
					if err != nil {
						b.Fatal(err)
					}
					for {
						if _, err := sorted.Next(); err == io.EOF {
							break
						} else if err != nil {
							b.Fatal(err)
						}
					}
					if err := s.Close(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
