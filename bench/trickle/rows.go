package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
)

// spacing is the distance of the ids of the batch before: others fit between.
const spacing = 1 << 20

// source makes rows of about 1.85 KB, of words that compress as text does.
type source struct {
	rng   *rand.Rand
	words [][]byte
}

func newSource(seed uint64) *source {
	s := &source{rng: rand.New(rand.NewPCG(seed, 1))}
	for range 4000 {
		w := make([]byte, 2+s.rng.IntN(9))
		for i := range w {
			w[i] = 'a' + byte(s.rng.IntN(26))
		}
		s.words = append(s.words, w)
	}
	return s
}

// add appends a row with an id of that rank.
func (s *source) add(b *bytes.Buffer, rank int64) {
	fmt.Fprintf(b, `{"id":"%016x","_created_at":"2026-01-01T00:00:00.%06dZ","n":%d,"text":"`, rank, s.rng.IntN(1e6), s.rng.IntN(1e9))
	for end := b.Len() + 1760; b.Len() < end; {
		// Few words are frequent, many are rare.
		i := int(float64(len(s.words)) * s.rng.Float64() * s.rng.Float64() * s.rng.Float64())
		b.Write(s.words[i])
		b.WriteByte(' ')
	}
	b.WriteString("\"}\n")
}
