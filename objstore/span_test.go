package objstore_test

import (
	"bytes"
	"testing"

	"github.com/siltstone-data/siltstone/objstore"
)

func TestASpanSelectsWithinAnObject(t *testing.T) {
	for _, c := range []struct {
		span     objstore.Span
		size     int64
		from, to int64
		bad      bool
	}{
		{objstore.Span{}, 0, 0, 0, false},
		{objstore.Span{Length: 5}, 0, 0, 0, false},
		{objstore.Span{}, 10, 0, 10, false},
		{objstore.Span{Offset: 9}, 10, 9, 10, false},
		{objstore.Span{Offset: 2, Length: 3}, 10, 2, 5, false},
		{objstore.Span{Offset: 2, Length: 1<<63 - 1}, 10, 2, 10, false},
		{objstore.Span{Offset: 10}, 10, 0, 0, true},
		{objstore.Span{Offset: 1}, 0, 0, 0, true},
		{objstore.Span{Offset: -1}, 10, 0, 0, true},
		{objstore.Span{Length: -1}, 10, 0, 0, true},
	} {
		from, to, err := c.span.Of(c.size)
		if from != c.from || to != c.to || (err != nil) != c.bad {
			t.Errorf("%+v of %d bytes: %d, %d, %v", c.span, c.size, from, to, err)
		}
	}
}

func TestReadExactlyWantsTheNumberOfBytesItWasTold(t *testing.T) {
	for _, size := range []int64{0, 9, 11} {
		if _, err := objstore.ReadExactly(bytes.NewReader(make([]byte, 10)), size); err == nil {
			t.Errorf("10 bytes passed for %d", size)
		}
	}
	r := bytes.NewReader([]byte("0123456789"))
	_, _ = r.ReadByte() // what r holds counts, not what is left of it
	if b, err := objstore.ReadExactly(r, 10); err != nil || string(b) != "0123456789" {
		t.Errorf("%q, %v", b, err)
	}
}
