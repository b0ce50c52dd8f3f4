package dataset_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/siltstone-data/siltstone/dataset"
)

func row(t testing.TB, line string) dataset.Row {
	t.Helper()
	r, err := dataset.ParseRow([]byte(line))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return r
}

func digestOf(t testing.TB, line string, columns ...string) dataset.Digest {
	t.Helper()
	d, err := dataset.DigestOf(row(t, line), columns)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return d
}

func TestADigestIsStoredAndNeverChanges(t *testing.T) {
	got := digestOf(t, `{"id":"a","text":"h\u00e9llo","n":-1.50,"o":{"b":[true,false,null],"a":{}}}`, "text", "n", "o", "missing").String()
	if want := "b79a851d60e228980ee96313c53d1ec4"; got != want {
		t.Errorf("got %s", got)
	}
}

func TestRowsThatAgreeOnTheColumnsAreDuplicates(t *testing.T) {
	same := []string{
		`{"id":"1","text":"x","n":1}`,
		`{"n":1.0,"other":[1,2],"text":"\u0078","id":"2"}`,
		`{"text":"x","n":10e-1,"_created_at":"2024-05-19T00:00:00Z"}`,
	}
	for _, line := range same {
		if digestOf(t, line, "text", "n") != digestOf(t, same[0], "text", "n") {
			t.Errorf("%s is no duplicate", line)
		}
	}
	for _, line := range []string{
		`{"text":"x","n":2}`, `{"text":"x","n":"1"}`, `{"text":"X","n":1}`, `{"text":"x"}`, `{"n":1}`, `{}`, `{"text":1,"n":"x"}`,
		`{"text":"x","N":1}`, `{"text":"x","o":{"n":1}}`,
	} {
		if digestOf(t, line, "text", "n") == digestOf(t, same[0], "text", "n") {
			t.Errorf("%s is a duplicate", line)
		}
	}
	if digestOf(t, same[0], "text", "n") == digestOf(t, same[0], "n", "text") {
		t.Error("the order of the columns does not count")
	}
}

func TestAMissingColumnIsNull(t *testing.T) {
	if digestOf(t, `{"a":null}`, "a", "b") != digestOf(t, `{"b":null}`, "a", "b") {
		t.Error("it is not")
	}
	if digestOf(t, `{}`, "a") != digestOf(t, `{"a":null}`, "a") {
		t.Error("it is not")
	}
	if digestOf(t, `{}`, "a") == digestOf(t, `{}`, "a", "b") {
		t.Error("lists of different length agree")
	}
	if digestOf(t, `{"a":1}`, "a", "a") == digestOf(t, `{"a":1}`, "a") {
		t.Error("lists of different length agree")
	}
}

func TestADigestOfNoColumnsIsRefused(t *testing.T) {
	if _, err := dataset.DigestOf(row(t, `{"a":1}`), nil); !errors.Is(err, dataset.ErrNoColumns) {
		t.Errorf("got %v: every row would be a duplicate of every other", err)
	}
}

func TestContentTellsARetryFromAConflict(t *testing.T) {
	first := dataset.ContentDigest(row(t, `{"id":"7","_created_at":"2024-05-19T00:00:00Z","a":1,"b":{"x":1,"y":2}}`))
	for _, line := range []string{
		`{"id":7,"a":1.0,"b":{"y":2,"x":1}}`,
		`{"b":{"x":1,"y":2},"_created_at":5,"\u0061":1,"id":"7"}`,
	} {
		if dataset.ContentDigest(row(t, line)) != first {
			t.Errorf("%s is a conflict", line)
		}
	}
	for _, line := range []string{
		`{"id":"7","a":1}`, `{"id":"7","a":1,"b":null}`, `{"id":"7","a":1,"b":{"x":1,"y":2},"c":null}`,
		`{"id":"8","a":1,"b":{"x":1,"y":2}}`, `{"id":"7","a":{"x":1,"y":2},"b":1}`, `{"id":"7"}`,
	} {
		if dataset.ContentDigest(row(t, line)) == first {
			t.Errorf("%s is a retry", line)
		}
	}
}

func TestADigestDoesNotDependOnTheStyle(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	columns := []string{"a", "b", "c", "日本", "", "x.y", "\x00"}
	for range 500 {
		line := randomRow(rng)
		other := rewrite(t, string(line), rng)
		rng.Shuffle(len(columns), func(i, j int) { columns[i], columns[j] = columns[j], columns[i] })
		some := slices.Clone(columns[:1+rng.IntN(len(columns))])
		if digestOf(t, string(line), some...) != digestOf(t, other, some...) {
			t.Fatalf("%q: %s and %s", some, line, other)
		}
		if dataset.ContentDigest(row(t, string(line))) != dataset.ContentDigest(row(t, other)) {
			t.Fatalf("%s and %s", line, other)
		}
	}
}
