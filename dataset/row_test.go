package dataset_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/dataset"
)

func nested(depth int) string {
	return `{"a":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `}`
}

func TestARowIsFoundAsItWasWritten(t *testing.T) {
	for name, tc := range map[string]struct{ line, id, raw string }{
		"simple":                     {`{"id":"a","x":1}`, "a", ""},
		"no id":                      {`{"x":1}`, "", ""},
		"empty object":               {`{}`, "", ""},
		"id not first":               {`{"x":{"id":"no"},"id":"yes"}`, "yes", ""},
		"integer id":                 {`{"id":7}`, "7", ""},
		"negative id":                {`{"id":-12}`, "-12", ""},
		"minus zero id":              {`{"id":-0}`, "0", ""},
		"id past 2^64 (B002)":        {`{"id":123456789012345678901234567890}`, "123456789012345678901234567890", ""},
		"id with zeros (B020)":       {`{"id":"007"}`, "007", ""},
		"escaped name of id":         {`{"\u0069d":"a"}`, "a", ""},
		"escaped id":                 {`{"id":"a\u0000\ud83d\ude42\/"}`, "a\x00🙂/", ""},
		"ID is another column":       {`{"ID":"2","id":"1"}`, "1", ""}, // B009
		"literals (B001, B003)":      {`{"id":"a","n":9007199254740993,"x":1e400,"y":-0,"z":1.0,"w":1e-400}`, "a", ""},
		"exponent of many digits":    {`{"id":"a","n":1e999999999999999999999}`, "a", ""},
		"lone surrogate (B005)":      {`{"id":"a","t":"x\ud83dy"}`, "a", ""},
		"surrogates as keys":         {`{"id":"a","\ud800":1,"\ud801":2,"\ufffd":3}`, "a", ""},
		"NUL in key (B006)":          {`{"id":"a","a":1,"a\u0000b":2}`, "a", ""},
		"keys by case (B009)":        {`{"id":"1","Image":1,"image":2,"o":{"x":1,"X":2}}`, "1", ""},
		"odd keys (B034, B035)":      {`{"id":"1","my col":1,"a\"b":2,"x-y":3,"🙂":4,"":5," ":6,"a.b":1,"a":{"b":2}}`, "1", ""},
		"names of JavaScript (B036)": {`{"id":"1","__proto__":"x","constructor":1,"length":2642853}`, "1", ""},
		"lists (B016, B017)":         {`{"id":"a","l":[null,null,1,"x",{"k":true},[]]}`, "a", ""},
		"reserved names":             {`{"id":"a","_batch":"b","_silt_x":1}`, "a", ""}, // stored rows of layers have them
		"white space around":         {" \t{\"id\":\"a\" , \"x\" : [ 1 ] } \r\n", "a", `{"id":"a" , "x" : [ 1 ] }`},
		"deepest":                    {nested(dataset.MaxDepth), "", ""},
		"id of 256 bytes":            {`{"id":"` + strings.Repeat("x", 256) + `"}`, strings.Repeat("x", 256), ""},
		"same key at two depths":     {`{"id":"a","x":{"x":{"x":1}}}`, "a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := tc.line
			r, err := dataset.ParseRow([]byte(tc.line))
			if err != nil {
				t.Fatal(err)
			}
			want := tc.raw
			if want == "" {
				want = before
			}
			if r.ID != tc.id || string(r.Raw) != want {
				t.Errorf("got id %q, raw %q", r.ID, r.Raw)
			}
		})
	}
}

func TestALineThatIsNoRowIsRefusedWithItsCause(t *testing.T) {
	for name, tc := range map[string]struct {
		line   string
		offset int64
		reason string // a part of it
	}{
		"empty":                  {"", 0, "empty line"},
		"array (B011, B029)":     {`[{"id":"a"},]`, 0, "JSON array: siltstone reads one object per line"},
		"string":                 {` "x"`, 1, "a JSON string"},
		"number":                 {`-1`, 0, "a JSON number"},
		"null":                   {`null`, 0, "null"},
		"text":                   {`id,text`, 0, "not JSON: it starts with 'i'"},
		"text like a literal":    {`no,text`, 0, "not JSON: it starts with 'n'"},
		"text like a number":     {`2024-05-19 x`, 0, "not JSON: it starts with '2'"},
		"gzip (B027)":            {"\x1f\x8b\x08\x00", 0, "gzip data"},
		"two values (B011)":      {`{"id":"a"}{"id":"b"}`, 10, "two JSON values"},
		"comma after":            {`{"id":"a"},`, 10, "comma after the object"},
		"text after":             {`{"id":"a"} x`, 11, "text after"},
		"first line of many":     {`{`, 1, "ends inside the object"},
		"cut off (B023)":         {`{"id":"b","t":"hel`, 18, "ends inside the object"},
		"cut after a value":      {`{"id":"b","t":1`, 15, "ends inside the object"},
		"comma too many (B029)":  {`{"id":"a",}`, 9, "comma too many"},
		"comma too many in list": {`{"a":[1,]}`, 7, "comma too many"},
		"NaN (B004)":             {`{"id":"a","x":NaN}`, 14, "NaN"},
		"Infinity (B004)":        {`{"id":"b","x":-Infinity}`, 15, "Infinity"},
		"single quotes":          {`{'id':1}`, 1, "single quote"},
		"leading zero":           {`{"x":01}`, 6, "not JSON"},
		"comment":                {`{"x":1 /* */}`, 7, "not JSON"},
		"control character":      {"{\"x\":\"a\x01\"}", 7, "not JSON"},
		"bad escape":             {`{"x":"\x"}`, 6, "not JSON"},
		"invalid UTF-8 (B007)":   {"{\"x\":\"a\xff\"}", 7, "invalid UTF-8: byte 0xFF"},
		"surrogate in UTF-8":     {"{\"x\":\"\xed\xa0\x80\"}", 6, "invalid UTF-8"},
		"BOM inside (B010)":      {"\xef\xbb\xbf{\"id\":\"a\"}", 0, "byte order mark"},
		"equal keys (B008)":      {`{"id":"a","x":1,"x":2}`, 16, `"x" occurs twice`},
		"equal keys, escaped":    {`{"x":1,"\u0078":2}`, 7, `"x" occurs twice`},
		"equal keys, deep":       {`{"a":[{"b":1,"b":2}]}`, 13, `"b" occurs twice`},
		"equal ids":              {`{"id":"a","id":"a"}`, 10, `"id" occurs twice`},
		"equal surrogates":       {`{"\ud800":1,"\ud800":2}`, 12, "occurs twice"},
		"too deep (B012)":        {nested(dataset.MaxDepth + 1), 516, "deeper than 512"},
		"far too deep (B012)":    {strings.Repeat(`{"a":`, 20000), 2560, "deeper than 512"},
		"line break":             {"{\"id\":\n\"a\"}", 6, "line break"},
		"null id":                {`{"id":null}`, 6, "the id is null"},
		"empty id":               {`{"id":""}`, 6, "the id is empty"},
		"long id":                {`{"id":"` + strings.Repeat("é", 129) + `"}`, 6, "258 bytes"},
		"long integer id":        {`{"id":1` + strings.Repeat("0", 256) + `}`, 6, "257 digits"},
		"fraction as id":         {`{"id":1.0}`, 6, "fraction"},
		"exponent as id":         {`{"id":1e3}`, 6, "exponent"},
		"object as id (B037)":    {`{"id":{}}`, 6, "neither a string nor an integer"},
		"boolean as id":          {`{"id":true}`, 6, "neither a string nor an integer"},
		"surrogate in id":        {`{"id":"\udc00"}`, 6, "half of a surrogate pair"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := dataset.ParseRow([]byte(tc.line))
			var re *dataset.RowError
			if !errors.As(err, &re) {
				t.Fatalf("got %v", err)
			}
			if re.Offset != tc.offset || !strings.Contains(re.Reason, tc.reason) {
				t.Errorf("got %q at %d, want %q at %d", re.Reason, re.Offset, tc.reason, tc.offset)
			}
		})
	}
}

func TestALineOf64MiBIsARowAndALongerOneIsNot(t *testing.T) {
	if testing.Short() {
		t.Skip("large")
	}
	line := []byte(`{"id":"a","t":"` + strings.Repeat("x", dataset.MaxLineBytes-17) + `"}`)
	if _, err := dataset.ParseRow(line); err != nil {
		t.Errorf("%d bytes: %v", len(line), err)
	}
	if _, err := dataset.ParseRow(append(line, ' ')); err == nil {
		t.Error("a longer line was taken")
	}
}

func TestARowMayHaveAHundredThousandColumns(t *testing.T) { // B021
	columns := 100_000
	if testing.Short() {
		columns = 10_000
	}
	var b strings.Builder
	b.WriteString(`{"id":"a"`)
	for i := range columns {
		b.WriteString(`,"column `)
		b.WriteString(strings.Repeat("y", i%7))
		b.WriteString(string(rune('a'+i%26)) + dataset.DerivedID("", i) + `":null`)
	}
	b.WriteString("}")
	r, err := dataset.ParseRow([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range r.Fields() {
		n++
	}
	if n != columns+1 {
		t.Errorf("got %d columns", n)
	}
}

func TestFieldsComeInOrderWithRawValues(t *testing.T) {
	r, err := dataset.ParseRow([]byte(`{ "b" : 1.0 ,"a\u0062":"\u0041", "n":null,"o":{"x" : [ 1,2 ]} }`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for name, v := range r.Fields() {
		got = append(got, name+"="+string(v))
	}
	want := []string{"b=1.0", `ab="\u0041"`, "n=null", `o={"x" : [ 1,2 ]}`}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for range r.Fields() {
		break // must not hold anything back
	}
	if v, ok := r.Column("ab"); !ok || string(v) != `"\u0041"` {
		t.Errorf("column ab is %s, %v", v, ok)
	}
	if v, ok := r.Column("n"); !ok || string(v) != "null" {
		t.Errorf("column n is %s, %v", v, ok) // there, and null
	}
	if _, ok := r.Column("B"); ok {
		t.Error("names differ by case")
	}
}

func TestARowIsSafeWhereRawIsNoJSON(t *testing.T) {
	for _, raw := range []string{"", "x", `{"a":`, `[1]`, `{"a":1`, `{"a" 1}`} {
		r := dataset.Row{ID: "a", Raw: []byte(raw)}
		for range r.Fields() {
			continue
		}
		if _, err := dataset.DigestOf(r, []string{"zzz"}); err == nil {
			t.Errorf("%q has a digest", raw)
		}
		dataset.ContentDigest(r)
	}
}

func TestARowWithoutAnIDCanBeGivenOne(t *testing.T) {
	for line, want := range map[string]string{
		`{}`:                  `{"id":"x\"y"}`,
		`{ }`:                 `{"id":"x\"y" }`,
		`{ "a":1, "b" : [] }`: `{"id":"x\"y", "a":1, "b" : [] }`,
	} {
		r, err := dataset.ParseRow([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		got := r.WithID(`x"y`)
		if string(got.Raw) != want || got.ID != `x"y` {
			t.Errorf("%s became %s", line, got.Raw)
		}
		if again, err := dataset.ParseRow(got.Raw); err != nil || again.ID != `x"y` {
			t.Errorf("%s reads as %q, %v", got.Raw, again.ID, err)
		}
		if other := got.WithID("z"); other.ID != `x"y` {
			t.Errorf("an id was replaced: %s", other.Raw)
		}
	}
}

func TestADerivedIDDependsOnChunkAndLineAlone(t *testing.T) {
	const want = "fcc0c078-1077-8a50-8488-286326070b93" // it is stored: it may never change
	if got := dataset.DerivedID("d/b/a1b2c3_chunk_00000.jsonl", 1); got != want {
		t.Errorf("got %s", got)
	}
	seen := []string{
		dataset.DerivedID("k", 1), dataset.DerivedID("k", 2), dataset.DerivedID("k1", 1),
		dataset.DerivedID("k", 11), dataset.DerivedID("", 11),
	}
	slices.Sort(seen)
	if len(slices.Compact(seen)) != 5 {
		t.Error("two of five are equal")
	}
}
