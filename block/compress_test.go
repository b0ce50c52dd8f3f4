package block_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/block"
)

func TestABlockIsTheSameHoweverManyCompressIt(t *testing.T) {
	rows := someRows(t, 1500)
	for i := range 5 {
		rows = append(rows, row(t, fmt.Sprintf(`{"id":"zz%d","t":"%s"}`, i, strings.Repeat("many words ", 100_000*(i%3)))))
	}
	for _, level := range []int{1, 6} {
		for _, n := range []int{0, 1, 100, len(rows)} {
			data, want := write(t, level, rows[:n]...)
			for _, workers := range []int{1, 2, 7} {
				pool, err := block.NewCompressors(workers, level)
				if err != nil {
					t.Fatal(err)
				}
				for range 2 { // frames are used again
					var buf bytes.Buffer
					w := pool.NewWriter(&buf)
					for _, r := range rows[:n] {
						if err := w.Add(r); err != nil {
							t.Fatal(err)
						}
					}
					info, err := w.Close()
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(want, info); diff != "" || !bytes.Equal(data, buf.Bytes()) {
						t.Fatalf("level %d, %d rows, %d workers:\n%s", level, n, workers, diff)
					}
				}
				pool.Close()
			}
		}
	}
}

func TestALevelThatGzipDoesNotHaveIsRefusedAtOnce(t *testing.T) {
	if _, err := block.NewCompressors(2, 10); err == nil {
		t.Error("it was taken")
	}
}

type smallDisk struct{ left int }

var errNoSpace = errors.New("no space")

func (f *smallDisk) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errNoSpace
	}
	return len(p), nil
}

func TestAFullDiskEndsABlockThatManyCompress(t *testing.T) {
	pool, err := block.NewCompressors(3, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close() // frames that nobody writes any more do not hold it up
	w := pool.NewWriter(&smallDisk{left: 100_000})
	for _, r := range someRows(t, 20_000) {
		if err = w.Add(r); err != nil {
			break
		}
	}
	if _, cerr := w.Close(); !errors.Is(cerr, errNoSpace) || err != nil && !errors.Is(err, errNoSpace) {
		t.Errorf("got %v, %v", err, cerr)
	}
}
