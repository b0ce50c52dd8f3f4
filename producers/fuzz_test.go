package producers_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/producers"
)

// FuzzInput reads any bytes as an input: nothing panics, every line is a row or
// has a reason, and what the writer takes of it can be stored.
func FuzzInput(f *testing.F) {
	for _, s := range []string{
		"", "{}", "{\"a\":1}\n{\"id\":null}\nnope\n", "[{}]", "{\n}", "\xEF\xBB\xBF{}\r\n", "a,b\n1,\"2\n", "a,a\n", "x\n\"", "PAR1PAR1", "PK\x03\x04",
		gz("{}\n"), gz("{}\n")[:12], gz(gz("{}")), zstdRows, zstdRows[:20], "\xFF\xFE{\x00}\x00", "{\"id\":\"\\ud800\"}",
	} {
		for format := range byte(3) {
			f.Add([]byte(s), format)
		}
	}
	stamper := dataset.NewStamper(time.Now)
	f.Fuzz(func(t *testing.T, content []byte, format byte) {
		in, err := producers.OpenInput(t.Context(), producers.Stdin, producers.InputConfig{
			Format: [...]producers.Format{producers.Auto, producers.NDJSON, producers.CSV}[format%3],
			Stdin:  bytes.NewReader(content), TempDir: t.TempDir(),
		})
		if err != nil {
			return
		}
		defer in.Close()
		for l, err := range in.Lines() {
			if err != nil {
				return
			}
			if l.Reject == "" && l.Raw == nil || in.Where(l) == "" || l.Number < 1 {
				t.Fatalf("line %+v", l)
			}
			if l.Reject != "" {
				continue
			}
			r, err := stamper.Stamp(l.Raw)
			if err != nil {
				continue
			}
			if again, err := dataset.ParseRow(r.Raw); err != nil || again.ID != r.ID || bytes.ContainsAny(r.Raw, "\n") {
				t.Fatalf("%q was stored as %q: %v", l.Raw, r.Raw, err)
			}
		}
	})
}
