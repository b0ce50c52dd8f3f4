package objtest

import (
	"strings"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/objstore"
)

// cut is what two readings of one clock may be apart for being cut to seconds,
// here one and there another.
const cut = time.Second

// testDate holds the store to one clock: what an answer calls now, and when it
// says that an object was written. Leases are judged by the difference.
func testDate(t *testing.T, s objstore.Store) {
	before := time.Now()
	put, err := s.Put(t.Context(), "k", []byte("v"), objstore.IfAbsent())
	if err != nil {
		t.Fatal(err)
	}
	up, err := s.Upload(t.Context(), "up", strings.NewReader("v"), 1, objstore.IfAbsent())
	if err != nil {
		t.Fatal(err)
	}
	_, got := read(t, s, "k", objstore.Span{})
	took := time.Since(before)
	last := put.Date
	for _, answer := range []struct {
		verb string
		date time.Time
	}{{"put", put.Date}, {"upload", up.Date}, {"get", got.Date}} {
		if answer.date.IsZero() {
			t.Errorf("%s: the answer tells no time", answer.verb)
		}
		if answer.date.Before(last.Add(-cut)) {
			t.Errorf("%s: the store's time went back from %s to %s", answer.verb, last, answer.date)
		}
		last = answer.date
	}
	if age := got.Date.Sub(got.Modified); age < -cut || age > took+cut {
		t.Errorf("an object written %s ago has the age %s", took, age)
	}
}
