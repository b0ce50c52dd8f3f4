package block_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/dataset"
)

// csvRows gives lines, and errors as "!text".
func csvRows(r io.Reader) (out []string) {
	for line, err := range block.CSVLines(r) {
		if err != nil {
			out = append(out, "!"+err.Error())
			continue
		}
		out = append(out, string(line))
	}
	return out
}

func TestCSVRecordsBecomeRowsOfStrings(t *testing.T) {
	const misquoted = "a quote in the middle of a field; a field with quotes stands in quotes, and those in it are doubled"
	for name, tc := range map[string]struct {
		in   string
		want []string
	}{
		"nothing":          {"", nil},
		"a header alone":   {"id,a\n", nil},
		"plain":            {"id,a\n1,x\n", []string{`{"id":"1","a":"x"}`}},
		"no last newline":  {"id,a\n1,x", []string{`{"id":"1","a":"x"}`}},
		"CRLF and blanks":  {"\r\nid,a\r\n\r\n1,x\r\n", []string{`{"id":"1","a":"x"}`}},
		"BOM":              {"\xef\xbb\xbfid,a\n1,x\n", []string{`{"id":"1","a":"x"}`}},
		"BOM and quotes":   {"\xef\xbb\xbf\"id\",a\n1,x\n", []string{`{"id":"1","a":"x"}`}},
		"values are texts": {"id,a,b\n007,1e3,true\n", []string{`{"id":"007","a":"1e3","b":"true"}`}},
		"spaces stay":      {"id, a\n1,  x \n", []string{`{"id":"1"," a":"  x "}`}},
		"odd names (B035)": {"\"my col\",\"a\"\"b\",日本\n1,2,3\n", []string{`{"my col":"1","a\"b":"2","日本":"3"}`}},
		"quotes":           {"id,a\n1,\"x,\"\"y\"\"\"\n2,\"\"\n", []string{`{"id":"1","a":"x,\"y\""}`, `{"id":"2","a":""}`}},
		"line breaks in a field stay as they are": {"id,a\r\n1,\"x\r\ny\nz\r\"\r\n2,\"\n\n\"\r\n",
			[]string{`{"id":"1","a":"x\r\ny\nz\r"}`, `{"id":"2","a":"\n\n"}`}},
		"an unknown time is left out": {"id,_created_at,a\n1,,x\n2,2024-05-19T00:00:00Z,\n",
			[]string{`{"id":"1","a":"x"}`, `{"id":"2","_created_at":"2024-05-19T00:00:00Z","a":""}`}},
		"a time may be an integer": {"_created_at,n\n1716076800,5\n-1,5\n007,5\n1.5,5\n-,5\n", []string{`{"_created_at":1716076800,"n":"5"}`,
			`{"_created_at":-1,"n":"5"}`, `{"_created_at":"007","n":"5"}`, `{"_created_at":"1.5","n":"5"}`, `{"_created_at":"-","n":"5"}`}},
		"a bad record alone": {"id,a\n1,x\n2\n3,x,y\n4,b\"c\n5,\"b\"c\n6,\"q\"\"\"\n7,\"b\n\"c\n8,\xff\n9,y\n", []string{
			`{"id":"1","a":"x"}`, "!line 3: 1 fields, the header has 2", "!line 4: 3 fields, the header has 2", "!line 5: " + misquoted,
			"!line 6: " + misquoted, `{"id":"6","a":"q\""}`, "!line 8: " + misquoted, "!line 10: column 2 is not valid UTF-8", `{"id":"9","a":"y"}`}},
		"a quote never closed":   {"id,a\n1,x\n2,\"y\n3,z\n", []string{`{"id":"1","a":"x"}`, "!line 3: a quote is never closed"}},
		"two equal names":        {"id,a,a\n1,2,3\n", []string{`!header: column 3: the name "a" stands in column 2 too`}},
		"an empty name":          {"id,,a\n1,2,3\n", []string{`!header: column 2: it has no name`}},
		"a bad name":             {"id,\xff\n1,2\n", []string{`!header: column 2: the name "\xff" is not valid UTF-8`}},
		"a line break in a name": {"id,\"a\r\nb\"\n1,2\n", []string{`{"id":"1","a\r\nb":"2"}`}},
		"lines that end with CR alone": {"id,a\r1,x\r2,y\r", []string{
			`!header: column 2: it has a carriage return; make lines end with \n first (tr '\r' '\n')`}},
		"an empty id": {"a,id\nx,\ny,1\n,\n", []string{
			"!line 2: the id is empty; give every record one, or leave the whole column out and all get one",
			`{"a":"y","id":"1"}`,
			"!line 4: the id is empty; give every record one, or leave the whole column out and all get one"}},
		"semicolons": {"id;a\n1;x\n", []string{
			`!header: column 1: the name is "id;a": the columns seem to stand between semicolons or tabs, and only commas are read`}},
		"tabs": {"id\ta\n1\tx\n", []string{
			`!header: column 1: the name is "id\ta": the columns seem to stand between semicolons or tabs, and only commas are read`}},
		"a bad header": {"id,\"a\n1,2\n", []string{"!header: line 1: a quote is never closed"}},
	} {
		t.Run(name, func(t *testing.T) {
			for style, r := range map[string]io.Reader{
				"at once": strings.NewReader(tc.in), "byte by byte": iotest.OneByteReader(strings.NewReader(tc.in)),
			} {
				if d := cmp.Diff(tc.want, csvRows(r)); d != "" {
					t.Errorf("%s: %s", style, d)
				}
			}
		})
	}
}

func TestCSVStopsWithoutReadingOnAndReportsAReadError(t *testing.T) {
	in := io.MultiReader(strings.NewReader("id,a\n1,x\n2,y\n"), iotest.ErrReader(errors.New("boom")))
	for line, err := range block.CSVLines(in) {
		if err != nil || string(line) != `{"id":"1","a":"x"}` {
			t.Errorf("%s, %v", line, err)
		}
		break
	}
	in = io.MultiReader(strings.NewReader("id,a\n1,x\n2,y"), iotest.ErrReader(errors.New("boom")))
	if d := cmp.Diff([]string{`{"id":"1","a":"x"}`, "!boom"}, csvRows(in)); d != "" {
		t.Error(d)
	}
}

func TestCSVFieldsMayBeHugeAndAnOpenQuoteCostsNoMemory(t *testing.T) { // B028
	if testing.Short() {
		t.Skip("large")
	}
	got := csvRows(io.MultiReader(strings.NewReader("id,a\n1,\""), &repeat{'x', 25_000_000}, strings.NewReader("\"\n2,y\n")))
	if len(got) != 2 || len(got[0]) != 25_000_000+len(`{"id":"1","a":""}`) {
		t.Errorf("%d rows", len(got))
	}
	got = csvRows(io.MultiReader(strings.NewReader("id,a\n1,\""), &repeat{'\n', 3 * dataset.MaxLineBytes}))
	if len(got) != 1 || !strings.Contains(got[0], "line 2: a record longer than 64 MiB; is a quote never closed?") {
		t.Errorf("%.300q", got)
	}
}
