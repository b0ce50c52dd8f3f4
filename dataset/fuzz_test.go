package dataset_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/siltstone-data/siltstone/dataset"
)

// addRows seeds a fuzz test with lines of every kind.
func addRows(f *testing.F) {
	for _, s := range []string{
		`{"id":"a"}`, `{}`, `{ "a" : [1, 2.0, -0, 1e400, {"b":null}] , "id" : 7 }`, `{"id":"a\u0000\ud83d\ude42","t":"x\ud83dy"}`,
		`{"\ud800":1,"\ud801":2}`, `{"a":1,"a":2}`, `{"a":1,}`, `{"id":"a"}{"id":"b"}`, `[{"id":"a"}]`, `{"x":NaN}`, "\xef\xbb\xbf{}",
		"{\"a\":\"\xff\"}", `{"_created_at":1716076800,"_batch":"b","_silt_x":1}`, `{"_created_at":"2024-05-19T00:00:00+02:00","a":[]}`,
		"{\n\"a\":\n1}", `{"id":null}`, `{"id":"x`, `{"n":123456789012345678901234567890.1e-99999999999999999999}`, nested(20), "{", "",
	} {
		f.Add([]byte(s))
	}
	for _, class := range classes {
		f.Add([]byte(`{"a":` + class[0] + `}`))
	}
}

// checkRefusal fails for an error that is no *RowError within the line.
func checkRefusal(t *testing.T, line []byte, err error) {
	t.Helper()
	var re *dataset.RowError
	if !errors.As(err, &re) || re.Offset < 0 || re.Offset > int64(len(line)) || re.Reason == "" || !utf8.ValidString(re.Error()) {
		t.Fatalf("%q: %v", line, err)
	}
}

func FuzzParseRow(f *testing.F) {
	addRows(f)
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		r, err := dataset.ParseRow(line)
		if !bytes.Equal(before, line) {
			t.Fatalf("%q was changed", before)
		}
		if err != nil {
			checkRefusal(t, line, err)
			return
		}
		if !json.Valid(line) || !utf8.Valid(line) || !bytes.Contains(line, r.Raw) || r.Raw[0] != '{' || len(r.ID) > dataset.MaxIDBytes {
			t.Fatalf("%q was taken: %+v", line, r)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(line, &members); err != nil {
			t.Fatal(err)
		}
		n := 0
		for name, v := range r.Fields() {
			n++
			got, ok := r.Column(name)
			if !ok || !bytes.Equal(got, v) {
				t.Fatalf("%q: column %q is %q, was %q", line, name, got, v)
			}
			if want, ok := members[name]; ok && utf8.ValidString(name) && !strings.Contains(name, "\ufffd") && !bytes.Equal(want, v) {
				t.Fatalf("%q: column %q is %q, want %q", line, name, v, want)
			}
		}
		if n < len(members) {
			t.Fatalf("%q: %d fields of %d", line, n, len(members))
		}
		if again, err := dataset.ParseRow(r.Raw); err != nil || again.ID != r.ID || !again.CreatedAt.Equal(r.CreatedAt) {
			t.Fatalf("%q: its raw form reads as %+v, %v", line, again, err)
		}
		if named := r.WithID("x"); r.ID == "" {
			if again, err := dataset.ParseRow(named.Raw); err != nil || again.ID != "x" {
				t.Fatalf("%q with an id is %q: %v", line, named.Raw, err)
			}
		}
		spaced := dataset.Row{ID: r.ID, Raw: append([]byte(" "), r.Raw...)}
		if dataset.ContentDigest(r) != dataset.ContentDigest(spaced) {
			t.Fatalf("%q has two digests", line)
		}
	})
}

func FuzzStamp(f *testing.F) {
	addRows(f)
	f.Fuzz(func(t *testing.T, line []byte) {
		s := dataset.NewStamper(func() time.Time { return noon })
		r, err := s.Stamp(line)
		if err != nil {
			checkRefusal(t, line, err)
			return
		}
		again, err := dataset.ParseRow(r.Raw)
		if err != nil || again.ID != r.ID || !again.CreatedAt.Equal(r.CreatedAt) || r.ID == "" || bytes.ContainsAny(r.Raw, "\r\n") {
			t.Fatalf("%q became %q, which reads as %+v, %v", line, r.Raw, again, err)
		}
		if !bytes.HasPrefix(r.Raw, []byte(`{"id":"`)) {
			t.Fatalf("%q became %q", line, r.Raw)
		}
		names := 0
		for name := range again.Fields() {
			if want := []string{"id", "_created_at"}; names < 2 && name != want[names] {
				t.Fatalf("%q became %q", line, r.Raw)
			}
			names++
		}
		flat := strings.NewReplacer("\n", " ", "\r", " ")
		before, after := otherFields(dataset.Row{Raw: []byte(flat.Replace(string(line)))}), otherFields(again)
		if strings.Join(before, "\x01") != strings.Join(after, "\x01") {
			t.Fatalf("%q became %q", line, r.Raw)
		}
		twice, err := s.Stamp(r.Raw)
		if err != nil || !bytes.Equal(twice.Raw, r.Raw) {
			t.Fatalf("%q stamped again is %q, %v", r.Raw, twice.Raw, err)
		}
	})
}

func FuzzCanonical(f *testing.F) {
	for _, class := range classes {
		f.Add([]byte(class[0]), []byte(class[len(class)-1]))
	}
	f.Add([]byte(`{"a":1,"a":2}`), []byte("\xff"))
	f.Add([]byte(`1e999999999999999999999999`), []byte(`[1`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		formA, err := dataset.Canonical(nil, a)
		if err != nil {
			checkRefusal(t, a, err)
			return
		}
		if !json.Valid(a) {
			t.Fatalf("%q was taken", a)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, a); err != nil {
			t.Fatal(err)
		}
		if form, err := dataset.Canonical(nil, compact.Bytes()); err != nil || !bytes.Equal(form, formA) {
			t.Fatalf("%q without white space has the form %q, %v", a, form, err)
		}
		formB, err := dataset.Canonical(nil, b)
		if err != nil {
			return
		}
		if bytes.HasPrefix(formA, formB) && !bytes.Equal(formA, formB) {
			t.Fatalf("the form of %q starts with that of %q", a, b)
		}
		pair, err := dataset.Canonical(nil, bytes.Join([][]byte{[]byte("["), a, []byte(","), b, []byte("]")}, nil))
		if err == nil && string(pair) != "["+string(formA)+string(formB)+"]" {
			t.Fatalf("a list of %q and %q has the form %q", a, b, pair)
		}
	})
}

func FuzzParseTime(f *testing.F) {
	for _, s := range []string{
		`"2024-05-19T00:00:00Z"`, `"2024-05-19t00:00:00.5+02:00"`, `1716076800`, `-1`, `null`, `"`, `"2024-05-19T00:00:00\u005a"`, `9223372036854775807`,
		`-9223372036854775808`, `"9999-12-31T23:59:59-01:00"`, `""`, `"\ud800"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		at, ok := dataset.ParseTime(raw)
		if !ok {
			return
		}
		if raw[0] == '"' && !bytes.ContainsAny(raw, `\tz`) {
			if want, err := time.Parse(time.RFC3339, string(bytes.Trim(raw, `" `))); err != nil || !want.Equal(at) {
				t.Fatalf("%q is %v, the library says %v, %v", raw, at, want, err)
			}
		}
		text := dataset.FormatTime(at)
		again, ok := dataset.ParseTime([]byte(`"` + text + `"`))
		if !ok || !again.Equal(at.Truncate(time.Microsecond)) || len(text) != len("2006-01-02T15:04:05.000000Z") {
			t.Fatalf("%q is %v, written %s, reads as %v", raw, at, text, again)
		}
	})
}

func FuzzParseKey(f *testing.F) {
	for _, b := range oddBatches()[:6] {
		for _, key := range []string{b.ChunkKey("a1b2c3", 1), b.RunKey("a1b2c3"), b.CommitKey(), b.HistoryKey(17), b.BlockKey("merged_00001.jsonl.gz"),
			b.DigestKey("00001.bin"), b.IndexKey(1), b.IndexMetaKey(), b.RejectedKey("a1b2c3_chunk_00000.jsonl")} {
			f.Add(key)
		}
	}
	f.Add("D/annotations/A/.temp/.lock")
	f.Add("//")
	f.Fuzz(func(t *testing.T, key string) {
		k := dataset.ParseKey(key)
		if k.Kind == dataset.KindUnknown {
			if k != (dataset.Key{}) {
				t.Fatalf("%q is unknown and %+v", key, k)
			}
			return
		}
		if err := k.Batch.Check(); err != nil {
			t.Fatalf("%q: %v", key, err)
		}
		want := map[dataset.Kind]string{
			dataset.KindChunk: k.Batch.ChunkKey(k.Run, k.Number), dataset.KindRun: k.Batch.RunKey(k.Run), dataset.KindCommit: k.Batch.CommitKey(),
			dataset.KindHistory: k.Batch.HistoryKey(int64(k.Number)), dataset.KindBlock: k.Batch.BlockKey(k.File), dataset.KindLegacy: k.Batch.BlockKey(k.File),
			dataset.KindDigest: k.Batch.DigestKey(dataset.DigestFile(k.Number)), dataset.KindRejected: k.Batch.RejectedKey(k.File),
			dataset.KindIndex: k.Batch.IndexKey(k.Number), dataset.KindMeta: k.Batch.IndexMetaKey(),
		}[k.Kind]
		// A number may be written with more zeros than we write.
		if want != key && k.Number > 0 && !strings.Contains(key, "0") {
			t.Fatalf("%q is %+v, whose key is %q", key, k, want)
		}
	})
}

func FuzzParseToken(f *testing.F) {
	for _, n := range oddNames {
		f.Add(dataset.Token(n))
	}
	f.Add("=")
	f.Add("=zz")
	f.Fuzz(func(t *testing.T, s string) {
		if name, err := dataset.ParseToken(s); err == nil && dataset.Token(name) != s {
			t.Fatalf("%q reads as %q, whose token is %q", s, name, dataset.Token(name))
		}
		if name, err := dataset.ParseToken(dataset.Token(s)); len(s) < 300 && (err != nil || name != s) {
			t.Fatalf("%q comes back as %q, %v", s, name, err)
		}
		if b, err := dataset.ParseTokens(s); err == nil && b.Check() != nil {
			t.Fatalf("%q is %v", s, b)
		}
	})
}

func FuzzParseEvent(f *testing.F) {
	f.Add([]byte(`{"version":1,"type":"rows_ingested","dataset":"D","batch":"B","annotator":null,"at":"2026-11-30T12:00:00Z","key":"k","etag":"e","rows":1}`))
	f.Add([]byte(`{"version":1,"type":"annotation_updated","dataset":"D","batch":"B","annotator":"A","at":"2026-11-30T12:00:00Z"}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := dataset.ParseEvent(b)
		if err != nil {
			return
		}
		if e.ID().Check() != nil || e.Version != dataset.EventVersion {
			t.Fatalf("%q was taken", b)
		}
		_ = e.MsgID()
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := dataset.ParseEvent(text); err != nil || again.ID() != e.ID() || again.MsgID() != e.MsgID() {
			t.Fatalf("%q became %q: %v", b, text, err)
		}
	})
}
