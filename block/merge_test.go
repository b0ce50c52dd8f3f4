package block_test

import (
	"cmp"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/block"
)

// stream gives a list, then err or io.EOF. Its values break when it goes on, as
// those of real streams may.
type stream struct {
	values []value
	err    error
	given  *value
	ended  bool
}

type value struct{ key, from int }

func (s *stream) Next() (*value, error) {
	if s.given != nil {
		s.given.key = -1
		s.given = nil
	}
	if len(s.values) == 0 {
		if s.ended {
			return nil, errors.New("asked after its end")
		}
		s.ended = true
		if s.err != nil {
			return nil, s.err
		}
		return nil, io.EOF
	}
	v := s.values[0]
	s.values = s.values[1:]
	s.given = &v
	return s.given, nil
}

func byKey(a, b *value) int { return cmp.Compare(a.key, b.key) }

func TestAMergeIsAStableSortOfAllStreams(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		var want []value
		streams := make([]block.Stream[*value], rng.IntN(20))
		for i := range streams {
			var vs []value
			for range rng.IntN(30) {
				vs = append(vs, value{rng.IntN(40), i})
			}
			slices.SortStableFunc(vs, func(a, b value) int { return cmp.Compare(a.key, b.key) })
			want = append(want, vs...)
			streams[i] = &stream{values: vs}
		}
		slices.SortStableFunc(want, func(a, b value) int { return cmp.Compare(a.key, b.key) })
		var got []value
		m := block.Merge(byKey, streams...)
		for {
			v, err := m.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, *v)
		}
		if d := gocmp.Diff(want, got, gocmp.AllowUnexported(value{})); d != "" {
			t.Fatal(d)
		}
		if _, err := m.Next(); err != io.EOF {
			t.Fatalf("after the end: %v", err)
		}
	}
}

func TestAnErrorOfOneStreamEndsTheMerge(t *testing.T) {
	boom := errors.New("boom")
	for _, n := range []int{0, 1, 3} {
		bad := &stream{values: []value{{1, 1}, {3, 1}, {5, 1}}[:n], err: boom}
		m := block.Merge(byKey, block.Stream[*value](&stream{values: []value{{2, 0}, {4, 0}, {6, 0}}}), bad)
		last := 0
		for {
			v, err := m.Next()
			if err != nil {
				if !errors.Is(err, boom) {
					t.Errorf("%d: %v", n, err)
				}
				break
			}
			last = v.key
		}
		if last > 2*n {
			t.Errorf("%d: a value after the error: %d", n, last)
		}
		if _, err := m.Next(); !errors.Is(err, boom) {
			t.Errorf("%d: then %v", n, err)
		}
	}
}
