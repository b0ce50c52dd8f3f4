package dataset_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
)

func TestTimesAreReadInEveryFormThatCounts(t *testing.T) { // B019
	const day = "2024-05-19T00:00:00.000000Z"
	for raw, want := range map[string]string{
		`"2024-05-19T00:00:00Z"`:              day,
		` "2024-05-19T00:00:00Z" `:            day,
		`"2024-05-19t00:00:00z"`:              day,
		`"2024-05-19T02:00:00+02:00"`:         day,
		`"2024-05-18T14:15:00.000-09:45"`:     day,
		`"2024-05-19T00:00:00.000000000000Z"`: day,
		`"2024-05-19T00:00:00\u005a"`:         day,
		`"2024-05-19T00:00:00.123456789Z"`:    "2024-05-19T00:00:00.123456Z",
		`1716076800`:                          day,
		`1716076800000`:                       day,
		`1716076800000000`:                    day,
		`1716076800123`:                       "2024-05-19T00:00:00.123000Z",
		`1716076800123456`:                    "2024-05-19T00:00:00.123456Z",
		`0`:                                   "1970-01-01T00:00:00.000000Z",
		`-0`:                                  "1970-01-01T00:00:00.000000Z",
		`-1`:                                  "1969-12-31T23:59:59.000000Z",
		`-1716076800000`:                      "1915-08-16T00:00:00.000000Z",
		`"0000-01-01T00:00:00Z"`:              "0000-01-01T00:00:00.000000Z",
		`"9999-12-31T23:59:59.999999Z"`:       "9999-12-31T23:59:59.999999Z",
	} {
		got, ok := dataset.ParseTime([]byte(raw))
		if !ok || dataset.FormatTime(got) != want || got.Location() != time.UTC {
			t.Errorf("%s is %v, %v", raw, got, ok)
		}
	}
}

func TestWhatIsNoTimeIsNotGuessed(t *testing.T) {
	for _, raw := range []string{
		``, ` `, `null`, `true`, `{}`, `[]`, `""`, `"`, `"x"`, `"now"`,
		`"2024-05-19"`, `"2024-05-19 00:00:00"`, `"2024-05-19T00:00:00"`, `"24/05/19"`, `"1716076800"`, // no zone is invented
		`"2024-05-19T00:00:00,5Z"`, `"2024-05-19T0:00:00Z"`, `"2024-13-19T00:00:00Z"`, `"2024-02-30T00:00:00Z"`, `"2024-05-19T00:00:00+24:00"`, `"2024-05-19T00:00:00+23:60"`, `"2024-05-19T24:00:00Z"`,
		`"9999-12-31T23:59:59-01:00"`, `"0000-01-01T00:00:00+01:00"`,
		`1716076800.5`, `1.7e9`, `+1`, `100000000000000000`, `9223372036854775807`, `-9223372036854775808`, `99999999999999999999999999`,
		`1716076800 1`, `-99999999999`,
	} {
		if got, ok := dataset.ParseTime([]byte(raw)); ok {
			t.Errorf("%s is %v", raw, got)
		}
	}
}

func TestATimeThatIsUnknownDoesNotSpoilARow(t *testing.T) {
	for _, line := range []string{`{"id":"a"}`, `{"id":"a","_created_at":null}`, `{"id":"a","_created_at":"yesterday"}`} {
		r, err := dataset.ParseRow([]byte(line))
		if err != nil || !r.CreatedAt.IsZero() {
			t.Errorf("%s: %v, %v", line, r.CreatedAt, err)
		}
	}
}

func TestStoredTimesAreReadAsTheLibraryReadsThem(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 28))
	taken := 0
	for range 50_000 {
		text := fmt.Sprintf("%04d-%02d-%02dT%02d:%02d:%02d", rng.IntN(10_000), rng.IntN(14), rng.IntN(33), rng.IntN(25), rng.IntN(61), rng.IntN(61))
		if digits := rng.IntN(12); digits > 0 {
			text += fmt.Sprintf(".%011d", rng.IntN(1e11))[:1+digits]
		}
		text += "Z"
		if rng.IntN(4) == 0 {
			at := rng.IntN(len(text))
			text = text[:at] + string("0123456789-:.TZ+ /"[rng.IntN(18)]) + text[at+1:]
		}
		want, err := time.Parse(time.RFC3339, text)
		got, ok := dataset.ParseTime([]byte(`"` + text + `"`))
		if ok && (err != nil || !got.Equal(want)) || !ok && err == nil && text[len(text)-1] == 'Z' && want.Format(time.RFC3339Nano)[:11] == text[:11] && text[13] == ':' {
			t.Fatalf("%s is %v, %v; the library says %v, %v", text, got, ok, want, err)
		}
		if ok {
			taken++
		}
	}
	if taken < 10_000 {
		t.Errorf("%d times were read", taken)
	}
}
