package dataset_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
)

// benchRow is a row of about 2 KB: a text, a few small columns and one nested
// object.
func benchRow(sentence string) []byte {
	text := strings.Repeat(sentence, 1600/len(sentence))
	return fmt.Appendf(nil, `{"id":"01931d5e-0000-7000-8000-000000000001","_created_at":"2026-11-30T06:00:00.000001Z",`+
		`"source_id":"doc-12345","text":"%s","lang":"en","score":0.8712,"tokens":412,"ok":true,"none":null,`+
		`"meta":{"url":"https://example.org/a/b","tags":["x","y",{"k":1}],"n":9007199254740993}}`, text)
}

var sentences = map[string]string{
	"plain":   "The quick brown fox said so, went on its way and then slept. ",
	"escapes": "The quick brown fox said: \\\"so it goes\\\" & went on.\\nAnd then, naïve as ever, it slept. ",
}

func BenchmarkParseRow(b *testing.B) {
	for name, sentence := range sentences {
		b.Run(name, func(b *testing.B) {
			line := benchRow(sentence)
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := dataset.ParseRow(line); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDigestOf(b *testing.B) {
	columns := []string{"text", "source_id"}
	for name, sentence := range sentences {
		b.Run(name, func(b *testing.B) {
			r, err := dataset.ParseRow(benchRow(sentence))
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(r.Raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := dataset.DigestOf(r, columns); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkStamp(b *testing.B) {
	line := []byte(strings.Replace(string(benchRow(sentences["plain"])), `"id":"01931d5e-0000-7000-8000-000000000001","_created_at":"2026-11-30T06:00:00.000001Z",`, "", 1))
	s := dataset.NewStamper(time.Now)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Stamp(line); err != nil {
			b.Fatal(err)
		}
	}
}

func benchCorpus(b *testing.B, do func(line []byte) error) {
	rows := corpus(2000)
	n := 0
	for _, r := range rows {
		n += len(r)
	}
	b.SetBytes(int64(n / len(rows)))
	b.ReportAllocs()
	i := 0
	start := cpuTime(b)
	for b.Loop() {
		if err := do(rows[i]); err != nil {
			b.Fatal(err)
		}
		if i++; i == len(rows) {
			i = 0
		}
	}
	b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N), "cpu-ns/op") // a busy machine spoils the rest
}

// cpuTime is what the process has used so far.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkCorpus(b *testing.B) {
	b.Run("parse", func(b *testing.B) {
		benchCorpus(b, func(line []byte) error { _, err := dataset.ParseRow(line); return err })
	})
	b.Run("parse+digest", func(b *testing.B) {
		benchCorpus(b, func(line []byte) error {
			r, err := dataset.ParseRow(line)
			if err == nil {
				_, err = dataset.DigestOf(r, []string{"text", "source_id"})
			}
			return err
		})
	})
	b.Run("scan", func(b *testing.B) {
		s := dataset.NewScanner(nil)
		benchCorpus(b, func(line []byte) error { _, err := s.Scan(line); return err })
	})
	b.Run("scan+digest", func(b *testing.B) {
		s := dataset.NewScanner([]string{"text", "source_id"})
		benchCorpus(b, func(line []byte) error {
			_, err := s.Scan(line)
			if err == nil {
				_, err = s.Digest()
			}
			return err
		})
	})
}
