package bus_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
)

var oddNames = []string{"d", "日本語", "a+b", "50%", "x=1", "a.b.c", "*", ">", "with space", "é", "emoji 🪨", "-", "=", "~", strings.Repeat("語", 66)}

func TestScopesAreLegalReadableAndDiffer(t *testing.T) {
	cases := []struct{ bucket, prefix, want string }{
		{"lake", "", "lake"},
		{"lake", "data/v2/", "lake_data_v2"},
		{"lake", "data", "lake_data"},
		{"lake", "/data/", "lake_data"},
		{"my.bucket", "", "my-bucket__*"},
		{"lake", "data_v2", "lake_data-v2__*"},
		{"lake", "a//b", "lake_a_b__*"},
		{"日本", "語", "bucket__*"},
		{strings.Repeat("b", 63), strings.Repeat("p", 100), strings.Repeat("b", 63) + "__*"},
	}
	legal := regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)
	for _, c := range cases {
		got := bus.Scope(c.bucket, c.prefix)
		if head, ok := strings.CutSuffix(c.want, "*"); got != c.want && !(ok && strings.HasPrefix(got, head) && len(got) == len(head)+10) {
			t.Errorf("Scope(%q, %q) = %q, want %q", c.bucket, c.prefix, got, c.want)
		}
		if !legal.MatchString(got) {
			t.Errorf("Scope(%q, %q) = %q is not legal", c.bucket, c.prefix, got)
		}
	}
}

func FuzzScopesOfDifferentPlacesDiffer(f *testing.F) {
	f.Add("lake", "a_b", "lake", "a/b")
	f.Add("lake", "", "lake", "_")
	f.Add("a", "b--c", "a", "b_-c")
	f.Fuzz(func(t *testing.T, b1, p1, b2, p2 string) {
		if strings.Contains(b1+b2, "/") {
			return // no bucket
		}
		same := b1 == b2 && strings.Trim(p1, "/") == strings.Trim(p2, "/")
		if s1, s2 := bus.Scope(b1, p1), bus.Scope(b2, p2); (s1 == s2) != same {
			t.Fatalf("Scope(%q, %q) = %q and Scope(%q, %q) = %q", b1, p1, s1, b2, p2, s2)
		}
	})
}

func TestSubjectsOfOddNamesComeBackAndFitTheProtocolLine(t *testing.T) {
	for _, d := range oddNames {
		for _, a := range append(oddNames, "") {
			b := dataset.BatchID{Dataset: d, Batch: d, Annotator: a}
			if b.Check() != nil {
				continue
			}
			for _, kind := range bus.Kinds() {
				j := bus.Job{Kind: kind, Batch: b}
				s := bus.JobSubject("lake", j)
				if got, err := bus.ParseJobSubject("lake", s); err != nil || got != j {
					t.Errorf("%q came back as %v, %v", s, got, err)
				}
				w := bus.WhenSubject("lake", bus.Max, j)
				if which, got, err := bus.ParseWhenSubject("lake", w); err != nil || got != j || which != bus.Max {
					t.Errorf("%q came back as %v, %v, %v", w, which, got, err)
				}
				if len(w) > 3000 || strings.ContainsAny(w, " *>\t\r\n") {
					t.Errorf("%q is no legal subject", w)
				}
				if got, err := bus.ParseJob(j.String()); err != nil || got != j {
					t.Errorf("%q came back as %v, %v", j, got, err)
				}
			}
		}
	}
}

func FuzzParsedJobSubjectsAreSpelledOneWay(f *testing.F) {
	f.Add("silt.lake.job.merge.d.b")
	f.Add("silt.lake.job.index.=E6=97=A5.b.a")
	f.Add("silt.lake.job.merge.d.=")
	f.Add("silt.lake.when.quiet.merge.d.b")
	f.Fuzz(func(t *testing.T, s string) {
		if j, err := bus.ParseJobSubject("lake", s); err == nil && bus.JobSubject("lake", j) != s {
			t.Fatalf("%q parses as %v, which is spelled %q", s, j, bus.JobSubject("lake", j))
		}
		if w, j, err := bus.ParseWhenSubject("lake", s); err == nil && bus.WhenSubject("lake", w, j) != s {
			t.Fatalf("%q parses as %v, which is spelled %q", s, j, bus.WhenSubject("lake", w, j))
		}
	})
}

func FuzzPositionsAreSpelledOneWay(f *testing.F) {
	for _, s := range []string{"1:2", "0:0", "18446744073709551615:18446744073709551615", "01:2", "+1:2", "1", ":", "1:2:3", " 1:2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := bus.ParsePosition(s); err == nil && p.String() != s {
			t.Fatalf("%q parses as %v", s, p)
		}
	})
}
