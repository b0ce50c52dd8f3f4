package index

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func FuzzParseTable(f *testing.F) {
	f.Add(`{"version":1,"block":{"file":"merged_00005.jsonl.gz","rows":3,"bytes":90,"sha256":"ab"},"frames":[[0,40,2,"a"],[40,50,1,"<b&>"]]}`)
	f.Add(`{"version":1,"block":{},"frames":[]}`)
	f.Add(`{"version":2}`)
	f.Add(`{"version":1,"block":{"rows":9223372036854775807,"bytes":9223372036854775807},"frames":[[9223372036854775800,9223372036854775807,1,""]]}`)
	f.Add(`{"frames":[[0]]}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, s string) {
		one, err := parseTable(s)
		if err != nil {
			return
		}
		text, err := one.encode()
		if err != nil {
			t.Fatal(err)
		}
		two, err := parseTable(text)
		if err != nil {
			t.Fatal(err)
		}
		if len(one.Frames) == 0 {
			one.Frames, two.Frames = nil, nil
		}
		if diff := cmp.Diff(one, two); diff != "" {
			t.Error(diff)
		}
		for i, at := range one.starts() {
			if n, ok := one.holding(one.Frames[i].FirstID); !ok || n != i || at < 0 {
				t.Errorf("frame %d starts at row %d; its first id is found in %d", i, at, n)
			}
		}
	})
}

func FuzzParseMeta(f *testing.F) {
	f.Add([]byte(`{"version":1,"generation":17,"rows":5,"blocks":[{"file":"merged_00005.jsonl.gz","indexed":true}]}`))
	f.Add([]byte(`{"version":7}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if m, err := parseMeta(raw); err == nil && m.Version > Version {
			t.Error("a later version was taken")
		}
	})
}

func TestATableThatNoBlockCanHaveIsRefused(t *testing.T) {
	for name, s := range map[string]string{
		"cut":                     `{"version":1,"block":{"rows":1`,
		"overlapping frames":      `{"version":1,"block":{"rows":2,"bytes":10},"frames":[[0,6,1,"a"],[5,5,1,"b"]]}`,
		"a frame past the end":    `{"version":1,"block":{"rows":1,"bytes":10},"frames":[[0,11,1,"a"]]}`,
		"a length that runs over": `{"version":1,"block":{"rows":1,"bytes":9223372036854775807},"frames":[[9223372036854775800,9223372036854775807,1,"a"]]}`,
		"descending ids":          `{"version":1,"block":{"rows":2,"bytes":10},"frames":[[0,5,1,"b"],[5,5,1,"a"]]}`,
		"too few rows":            `{"version":1,"block":{"rows":3,"bytes":10},"frames":[[0,5,1,"a"]]}`,
		"a frame without rows":    `{"version":1,"block":{"rows":0,"bytes":10},"frames":[[0,5,0,"a"]]}`,
		"half a frame":            `{"version":1,"block":{"rows":1,"bytes":10},"frames":[[0,5]]}`,
	} {
		if _, err := parseTable(s); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
