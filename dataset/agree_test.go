package dataset_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/dataset"
)

// asked are the columns that agree asks for: those that occur in the lines of
// these tests, one twice, and the ones with a meaning.
var asked = []string{"a", "text", "id", "日本", "a", "\x00", "", "_created_at", "no such column", "\xed\xa0\xbd"}

// agree fails where the scanner's own pass and the decoder differ about a line
// in anything: whether it is a row, why not, what it has.
func agree(t *testing.T, line []byte) {
	t.Helper()
	fast, slow := dataset.NewScanner(asked), dataset.NewScanner(asked)
	got, err := fast.Scan(line)
	want, wantErr := slow.Decode(line)
	if broken := bytes.IndexByte(line, '\n') >= 0; !broken && dataset.Walks(line) != oracleTakes(line) {
		t.Fatalf("%q: the scanner takes it: %v, the decoder: %v", clipped(line), dataset.Walks(line), wantErr)
	}
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Fatalf("%q: %v, the decoder says %v", clipped(line), err, wantErr)
	}
	if err == nil {
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("%q: %s", clipped(line), d)
		}
		if found, want := scanned(t, fast), scanned(t, slow); found != want {
			t.Fatalf("%q: found %s, the decoder found %s", clipped(line), found, want)
		}
		digest, err := fast.Digest()
		want, wantErr := dataset.DigestOf(got, asked)
		if err != nil || wantErr != nil || digest != want {
			t.Fatalf("%q: digest %v, %v; of the row %v, %v", clipped(line), digest, err, want, wantErr)
		}
	}
	agreeOnValue(t, line)
	agreeOnFields(t, line)
}

// oracleTakes judges a line by the decoder alone, an id of any kind included.
func oracleTakes(line []byte) bool {
	s := dataset.NewScanner(nil)
	_, err := s.Decode(line)
	return err == nil || strings.Contains(err.Error(), "the id ")
}

func scanned(t *testing.T, s *dataset.Scanner) string {
	t.Helper()
	d, err := s.Digest()
	out := fmt.Sprintf("%v %v %q %q %v", d, err, s.Reserved(false), s.Reserved(true), s.Segments())
	for i := range asked {
		out += fmt.Sprintf(" %v:%q", s.Value(i) == nil, s.Value(i))
	}
	return out
}

func agreeOnValue(t *testing.T, value []byte) {
	t.Helper()
	got, err := dataset.Canonical(nil, value)
	want, wantErr := dataset.DecodeCanonical(value)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) || !bytes.Equal(got, want) || dataset.WalksCanonical(value) != (wantErr == nil) {
		t.Fatalf("%q: form %q (%v), the decoder's %q (%v)", clipped(value), clipped(got), err, clipped(want), wantErr)
	}
}

func agreeOnFields(t *testing.T, raw []byte) {
	t.Helper()
	fields := func(each func(func(name, value []byte) bool) error) (out []string) {
		err := each(func(name, value []byte) bool {
			out = append(out, string(name), string(value))
			return true
		})
		return append(out, fmt.Sprint(err))
	}
	r := dataset.Row{Raw: raw}
	if d := cmp.Diff(fields(r.DecodeFields), fields(r.FieldsOf)); d != "" {
		t.Fatalf("%q: %s", clipped(raw), d)
	}
}

func clipped(b []byte) []byte { return b[:min(len(b), 2000)] }

func TestTheScannerAgreesWithTheDecoderOnRowsOfEveryStyle(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	n := 5000
	if testing.Short() {
		n = 500
	}
	for range n {
		agree(t, randomRow(rng))
	}
	for _, line := range corpus(50) {
		agree(t, line)
	}
}

// oddRows has one line of each kind that a scanner may get wrong.
func oddRows() []string {
	rows := []string{
		`{"id":"a","n":9007199254740993,"x":1e400,"y":-0,"z":1.0,"w":1e-400,"i":123456789012345678901234567890}`, // B001-B003
		`{"id":"a","x":NaN}`, `{"x":-Infinity}`, `{"x":01}`, `{"x":-}`, `{"x":1.}`, `{"x":.5}`, `{"x":1e}`, `{"x":1e+}`, `{"x":+1}`, // B004
		`{"id":"a","t":"x\ud83dy","\ud800":1,"\ud801":2,"\ufffd":3}`, `{"\ud800":1,"\uD800":2}`, `{"\ud83d\ude42":1,"🙂":2}`, // B005, B008
		`{"id":"a","t":"x\u0000y","a":1,"a\u0000b":1}`, "{\"a\":\"\xff\"}", "{\"a\xc0\x80\":1}", "{\"a\":\"\xed\xa0\x80\"}", // B006, B007
		`{"id":"1","ID":"2","Image":1,"image":2,"o":{"x":1,"X":2}}`, `{"x":1,"\u0078":2}`, `{"o":[{"k":1,"\u006b":2}]}`, // B008, B009
		"\xef\xbb\xbf{\"id\":\"a\"}", "{\"a\":1}\xef\xbb\xbf", `{"id":"a"}{"id":"b"}`, `[{"id":"a"},]`, `{"id":"a",}`, `{"id":"a"},`, `{,}`, // B010, B011, B029
		nested(dataset.MaxDepth), nested(dataset.MaxDepth + 1), strings.Repeat(`{"a":`, 600), `{"a":[[],{},[{}]]}`, // B012
		"{\"id\":\"a\"}\r", " \t{ \"a\" : 1 , \"b\" : [ 1 , 2 ] } \r\n", "{\"a\":\n1}", `{"id":"b","t":"hel`, // B022, B023
		`{"id":"1","a.b":1,"a":{"b":2},"my col":1,"a\"b":2,"x-y":3,"🙂":4,"":5," ":6}`,                                                   // B034, B035
		`{"id":"1","__proto__":"x","constructor":1,"length":2642853,"toString":"t","hasOwnProperty":0}`,                                 // B036
		`{"_id":1,"_ts":2,"_chunk":3,"_silt_x":4,"_batch":"b","id":{}}`, `{"_batch":1,"_silt_":2}`, `{"\u005fbatch":1,"_created_at":5}`, // B037
		`{"id":7}`, `{"id":-0}`, `{"id":null}`, `{"id":""}`, `{"id":"\udc00"}`, `{"\u0069\u0064":"a"}`, `{}`, ` { } `, ``, ` `, `{`, `}`, `null`,
		`{"a":"\x"}`, `{"a":"\u12"}`, `{"a":"\u12G4"}`, `{"a":"\ud83d\u"}`, `{"a":"\`, `{"a":"é`, `{"a":tru}`, `{"a":nulll}`, `{"a" 1}`, `{"a":}`, `{a:1}`, `{'a':1}`,
		`{"a":"\b\f\n\r\t\/\\\"é日🙂\u00e9"}`, `{"a":[1,]}`, `{"a":[,1]}`, `{"a":{"b":1,}}`, `{"a":{"b"}}`, `{"a":[1 2]}`, `{"a":[1}`, `{"a":{]}`, `{1:2}`,
	}
	for _, n := range []int{15, 16, 17, 18, 100} { // around the number of names that is compared each with each
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"k%d":%d`, i, i))
		}
		rows = append(rows, "{"+strings.Join(all, ",")+"}", "{"+strings.Join(all, ",")+`,"\u006b7":1}`,
			`{"o":{`+strings.Join(all, ",")+`},"p":[{`+strings.Join(all, ",")+`,"k0":1}]}`)
	}
	for class := range classes {
		rows = append(rows, `{"a":`+classes[class][0]+`,"日本":`+classes[class][len(classes[class])-1]+`}`)
	}
	return rows
}

func TestTheScannerAgreesWithTheDecoderOnOddRows(t *testing.T) {
	for _, line := range oddRows() {
		agree(t, []byte(line))
	}
}

func TestTheScannerAgreesWithTheDecoderOnDamagedRows(t *testing.T) {
	rows := oddRows()
	rng := rand.New(rand.NewPCG(23, 24))
	for range 100 {
		rows = append(rows, string(randomRow(rng)))
	}
	every := 8 // of the bytes put in, at random; the fuzz test has no end
	if testing.Short() {
		every = 10
	}
	interesting := []byte("\x00\x1f \n\"\\/{}[]:,.-+0189eEabdfnrtuxX\x7f\x80\xbf\xc0\xc2\xe0\xed\xf0\xf4\xf5\xff")
	for _, row := range rows {
		if len(row) > 400 {
			continue
		}
		for i := range row {
			if testing.Short() && rng.IntN(every) > 0 {
				continue
			}
			agree(t, []byte(row[:i]))           // cut off
			agree(t, []byte(row[:i]+row[i+1:])) // one byte lost
			for _, c := range interesting {
				if rng.IntN(every) > 0 {
					continue
				}
				agree(t, []byte(row[:i]+string([]byte{c})+row[i:])) // one byte more
				line := []byte(row)
				line[i] = c
				agree(t, line)
			}
			line := []byte(row)
			line[i] ^= 1 << rng.IntN(8)
			agree(t, line)
		}
	}
}

func TestEveryByteEndsPlainTextAtEveryPlaceWhereItMust(t *testing.T) {
	// Eight bytes are looked at together: each byte must be seen wherever in
	// them it stands, and whatever stands before it.
	befores := []string{"x", "\u00e9", `\n`, "\x7f", " "}
	if testing.Short() {
		befores = befores[:1]
	}
	for _, before := range befores {
		for c := range 256 {
			for n := range 18 {
				text := strings.Repeat(before, n) + string([]byte{byte(c)})
				agree(t, []byte(`{"a":"`+text+`","b":1}`))
				agree(t, []byte(`{"a":"`+text+"\x80\x01\"}"))
				if n < 9 {
					agree(t, []byte(`{"`+text+`":"x"}`))
				}
			}
		}
	}
}

func TestEveryRuneAndHalfARuneIsJudgedAsUTF8(t *testing.T) {
	step := rune(1)
	if testing.Short() {
		step = 37
	}
	for r := rune(0x80); r <= utf8.MaxRune; r += step {
		if text := string(r); !dataset.Walks([]byte(`{"a":"` + text + `"}`)) {
			t.Fatalf("%U is refused", r)
		} else if dataset.Walks([]byte(`{"a":"` + text[:len(text)-1] + `"}`)) {
			t.Fatalf("a part of %U is taken", r)
		}
	}
	for a := 0x80; a < 0x100; a++ {
		for b := range 0x100 {
			for _, rest := range []string{"", "\x80", "\xbf", "\x80\x80", "\xbf\xbf", "x"} {
				text := string([]byte{byte(a), byte(b)}) + rest
				if b == '"' || b == '\\' || b < ' ' {
					continue
				}
				if dataset.Walks([]byte(`{"a":"`+text+`"}`)) != utf8.ValidString(text) {
					t.Fatalf("%q: valid %v", text, utf8.ValidString(text))
				}
			}
		}
	}
}

func TestUnquotingAgreesWithTheDecoder(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(25, 26))}
	room := make([]byte, 0, 256)
	compared := 0
	for range 20_000 {
		quoted := `"`
		for range g.IntN(6) {
			quoted += strings.Repeat(g.pick("a", "é", "日", "<>"), g.IntN(12)) + strings.Trim(g.text(), `"`)
			if strings.HasSuffix(quoted, `\`) {
				quoted += `"`
			}
		}
		quoted += `"`
		want, err := jsontext.AppendUnquote([]byte("before"), quoted)
		if err != nil {
			continue // half of a surrogate pair
		}
		compared++
		for _, dst := range [][]byte{[]byte("before"), append(room, "before"...)} {
			if got := dataset.AppendUnquoted(dst, []byte(quoted)); !bytes.Equal(got, want) {
				t.Fatalf("%s: %q, want %q", quoted, got, want)
			}
		}
	}
	if compared < 1000 {
		t.Errorf("%d strings were compared", compared)
	}
}

func FuzzScanner(f *testing.F) {
	addRows(f)
	for _, line := range oddRows() {
		f.Add([]byte(line))
	}
	for _, line := range corpus(3) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) { agree(t, line) })
}
