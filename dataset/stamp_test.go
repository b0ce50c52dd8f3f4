package dataset_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/siltstone-data/siltstone/dataset"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC)

func fixedStamper() *dataset.Stamper {
	return dataset.NewStamper(func() time.Time { return noon }, dataset.Random(bytes.NewReader(make([]byte, 1<<16))))
}

func TestAStampPutsIDAndTimeFirstAndKeepsTheRest(t *testing.T) {
	const id, at = `"01a22c53-827b-76f8-8000-000000000000"`, `"2026-11-30T12:00:00.123456Z"`
	for line, want := range map[string]string{
		`{}`:                                  `{"id":ID,"_created_at":AT}`,
		` { } `:                               `{"id":ID,"_created_at":AT}`,
		`{"a":1}`:                             `{"id":ID,"_created_at":AT,"a":1}`,
		`{ "a" : 1.0 ,"b":1e400}`:             `{"id":ID,"_created_at":AT, "a" : 1.0 ,"b":1e400}`,
		`{"id":"x"}`:                          `{"id":"x","_created_at":AT}`,
		`{"id":"\u0078\/","a":1}`:             `{"id":"\u0078\/","_created_at":AT,"a":1}`,
		`{"id":-0,"a":1}`:                     `{"id":"0","_created_at":AT,"a":1}`,
		`{"a":1,"id":7}`:                      `{"id":"7","_created_at":AT,"a":1}`,
		`{ "a":1 , "id":"x" , "b":2 }`:        `{"id":"x","_created_at":AT, "a":1 , "b":2 }`,
		`{"_created_at":1716076800,"id":"x"}`: `{"id":"x","_created_at":1716076800}`,
		`{"a":1,"_created_at":"2024-05-19T00:00:00+02:00","b":2,"id":"x","c":3}`: `{"id":"x","_created_at":"2024-05-19T00:00:00+02:00","a":1,"b":2,"c":3}`,
		`{"a":1,"id":"x","_created_at":null,"c":3}`:                              `{"id":"x","_created_at":AT,"a":1,"c":3}`,
		`{"t":"x\ud83dy<>&\u0041"}`:                                              `{"id":ID,"_created_at":AT,"t":"x\ud83dy<>&\u0041"}`,
		"{\r\n\t\"a\": [\n1]\n}":                                                 "{\"id\":ID,\"_created_at\":AT,  \t\"a\": [ 1] }",
		`{"a":{"id":"in","_batch":1}}`:                                           `{"id":ID,"_created_at":AT,"a":{"id":"in","_batch":1}}`,
		`{"silt_":1,"batch":2,"_id":3,"_silt":4}`:                                `{"id":ID,"_created_at":AT,"silt_":1,"batch":2,"_id":3,"_silt":4}`,
	} {
		got, err := fixedStamper().Stamp([]byte(line))
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		want = strings.NewReplacer("ID", id, "AT", at).Replace(want)
		if d := cmp.Diff(want, string(got.Raw)); d != "" {
			t.Errorf("%s: %s", line, d)
		}
		again, err := dataset.ParseRow(got.Raw)
		if d := cmp.Diff(got, again); d != "" || err != nil {
			t.Errorf("%s: reads back differently: %v %s", line, err, d)
		}
	}
}

func TestAScannedLineIsStampedAsItIs(t *testing.T) {
	scanner := dataset.NewScanner(nil)
	rng := rand.New(rand.NewPCG(29, 30))
	lines := []string{`{"_batch":1}`, `{"_created_at":"soon"}`, `{"a":1}`, "{\"a\":1} \n"}
	for range 200 {
		lines = append(lines, string(randomRow(rng)))
	}
	for _, line := range lines {
		if _, err := scanner.Scan([]byte(line)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got, err := fixedStamper().StampScanned(scanner)
		want, wantErr := fixedStamper().Stamp([]byte(line))
		if d := cmp.Diff(want, got) + cmp.Diff(fmt.Sprint(wantErr), fmt.Sprint(err)); d != "" {
			t.Errorf("%s: %s", line, d)
		}
	}
}

func TestAStampRefusesWhatItCannotKeepAndSaysTheWayOut(t *testing.T) {
	for line, want := range map[string]string{
		`{"_batch":"b"}`:                                     `rename that column (for example "batch")`,
		`{"_silt_raw":1}`:                                    `rename that column (for example "silt_raw")`,
		`{"\u005fbatch":1}`:                                  `"_batch" is reserved`,
		`{"_created_at":"yesterday"}`:                        "leave it out or rename",
		`{"_created_at":"2024-05-19"}`:                       "no RFC 3339 time",
		`{"_created_at":1716076800.5}`:                       "no RFC 3339 time",
		`{"_created_at":{"at":1}}`:                           "no RFC 3339 time",
		`{"id":null}`:                                        "leave it out",
		`{"a":1}{"b":2}`:                                     "two JSON values",
		`{"_created_at":"` + strings.Repeat("9", 500) + `"}`: "…",
	} {
		_, err := fixedStamper().Stamp([]byte(line))
		var re *dataset.RowError
		if !errors.As(err, &re) || !strings.Contains(re.Reason, want) {
			t.Errorf("%s: got %v", line, err)
		}
	}
}

func TestAStampLeavesRoomForItself(t *testing.T) {
	if testing.Short() {
		t.Skip("large")
	}
	line := []byte(`{"t":"` + strings.Repeat("x", dataset.MaxLineBytes-20) + `"}`)
	if _, err := fixedStamper().Stamp(line); err == nil {
		t.Error("a row that is too long with its id was taken")
	}
}

func TestNewIDsGrowStrictlyWhateverTheClockDoes(t *testing.T) {
	now := noon
	rng := rand.New(rand.NewPCG(1, 2))
	s := dataset.NewStamper(func() time.Time { return now })
	last := ""
	for i := range 20_000 {
		switch rng.IntN(4) {
		case 0:
			now = now.Add(time.Duration(rng.IntN(2_000_000)))
		case 1:
			now = now.Add(-time.Duration(rng.IntN(1_000_000)))
		}
		r, err := s.Stamp([]byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		if r.ID <= last {
			t.Fatalf("id %d: %s after %s", i, r.ID, last)
		}
		last = r.ID
		if u, err := uuid.Parse(r.ID); err != nil || u.Version() != 7 || u.Variant() != uuid.RFC4122 {
			t.Fatalf("%s is no UUIDv7: %v", r.ID, err)
		}
	}
	for _, odd := range []time.Time{{}, time.Unix(-1, 0), time.Unix(1<<40, 0)} {
		now = odd
		if r, err := s.Stamp([]byte(`{}`)); err != nil || r.ID <= last {
			t.Errorf("at %v: %s, %v", odd, r.ID, err)
		} else {
			last = r.ID
		}
	}
}

func TestAStamperServesSeveralGoroutines(t *testing.T) {
	s := dataset.NewStamper(time.Now)
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				r, err := s.Stamp([]byte(`{"a":1}`))
				mu.Lock()
				if err != nil || seen[r.ID] {
					t.Errorf("%s, %v", r.ID, err)
				}
				seen[r.ID] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestAStampFailsWhenThereIsNoRandomness(t *testing.T) {
	s := dataset.NewStamper(time.Now, dataset.Random(bytes.NewReader(nil)))
	if _, err := s.Stamp([]byte(`{}`)); !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Stamp([]byte(`{"id":"a"}`)); err != nil {
		t.Errorf("a row with an id needs none: %v", err)
	}
}

// otherFields are the user's members, in order, byte for byte.
func otherFields(r dataset.Row) (out []string) {
	for name, v := range r.Fields() {
		if name != "id" && name != "_created_at" {
			out = append(out, name+"\x00"+string(v))
		}
	}
	return out
}

func TestStampedRowsKeepEveryMemberOfTheUser(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		line := randomRow(rng)
		before, err := dataset.ParseRow(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		after, err := fixedStamper().Stamp(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if d := cmp.Diff(otherFields(before), otherFields(after)); d != "" {
			t.Fatalf("%s became %s: %s", line, after.Raw, d)
		}
		if !json.Valid(after.Raw) {
			t.Fatalf("%s is no JSON", after.Raw)
		}
	}
}
