package query

import (
	"bytes"

	"github.com/siltstone-data/siltstone/dataset"
)

// source is one ordered input of a read.
type source interface {
	// at is where the source stands; it changes with advance.
	at() *place
	// advance goes to the next row, or to a bound of its place. io.EOF: there
	// is none.
	advance() error
	close()
}

// place is where a source stands: at a row, or, while it is not ready, at or
// before its next row. A source that is not ready holds nothing open, so one
// whose turn has not come costs next to nothing.
type place struct {
	Cursor
	ready bool
	row   dataset.Row // valid until the source advances
	load  *load       // the reading of a chunk that a live row comes from
	order []byte      // decides among live rows of one id and batch
}

// sourceHeap has the source with the least place on top. Of one id and batch
// merged rows come first and beat the live ones; among these the one comes
// first that a merge would keep.
type sourceHeap []source

func (h sourceHeap) Len() int { return len(h) }

func (h sourceHeap) Less(i, j int) bool {
	a, b := h[i].at(), h[j].at()
	if c := a.Compare(b.Cursor); c != 0 {
		return c < 0
	}
	if (a.load == nil) != (b.load == nil) {
		return a.load == nil
	}
	return bytes.Compare(a.order, b.order) < 0
}

func (h sourceHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *sourceHeap) Push(x any) { *h = append(*h, x.(source)) }

func (h *sourceHeap) Pop() any {
	old := *h
	s := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return s
}
