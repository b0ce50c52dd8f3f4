package integration_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/producers"
	viewerapi "github.com/siltstone-data/siltstone/viewer-api"
)

// oddRows are what rows hold behind id and _created_at: values, names and markup
// that break other tools.
var oddRows = []string{
	// Numbers that no double holds, and ways to write them.
	`"n":9007199254740993`,
	`"n":9007199254740993,` + manyKeys(200),
	`"n":9223372036854775808`, `"n":18446744073709551616`, `"n":123456789012345678901234567890`, `"n":-9223372036854775809`,
	`"x":1e400,"y":-0,"z":1.0,"w":1e-400,"v":1E+2,"u":0.1000000000000000055511151231257827`,
	`"n":[9007199254740993,1.0,{"m":1e400,"k":-0.0}]`,
	// Strings that no UTF-8 text holds, or that hold what no text shows.
	`"t":"x\ud83dy"`, `"t":"\udc00\ud800"`, `"t":["\ud83d",{"\ud83d":"\ude00"}]`,
	`"t":"x\u0000y","a\u0000b":1,"a":2`, `"t":"\u0001\b\f\r\n\t\u001b[31m\u007f","\u001b":1,"\n":2`,
	`"t":"\u202egnp.exe\u202c \u2066x\u2069","\u202ename":"\ufeff"`, `"t":"שלום, عالم","שם":"ערך"`,
	`"t":"\/ \u00e9 é e\u0301 \uD83D\uDE42 🙂 \u2028"`,
	`"t":"` + strings.Repeat("long ", 2000) + `"`, `"t":"","e":[],"f":{},"g":null,"h":[null,null,1,[null,[]]]`,
	// Inner white space and order are the writer's.
	`"b" : 1 , "a":{ "z" :[ 1 ,2 ] , "y": null }`,
	// Depth, up to what a row may have.
	`"deep":` + strings.Repeat("[", 511) + strings.Repeat("]", 511), `"deep":` + strings.Repeat(`{"a":`, 510) + "{}" + strings.Repeat("}", 510),
	// Names that differ in case, and paths that are none.
	`"ID":"2","Id":3,"_Batch":"x","_CREATED_AT":1`, `"Image":1`, `"image":1,"Image_1":2`, `"o":{"x":1,"X":2},"O":0`,
	`"a.b":1,"a":{"b":2}`, `"my col":1,"a\"b":2,"x-y":3,"🙂":4,"":5," ":6`, `"a,b":1,"[":2,"[\"a\"]":3,"a\\b":4,"'":5,"a;b":6,"--":7,"%2C":8,"a+b":9,"a&b=c#d":10`,
	// Names that are something to JavaScript, to SQL or to another tool.
	`"__proto__":"x","constructor":1,"length":2642853,"toString":"t","hasOwnProperty":0,"prototype":{"__proto__":{"polluted":true}},"then":1,"toJSON":2`,
	`"select":1,"rowid":2,"rows":[],"columns":3,"next_cursor":"4","type":"done"`,
	`"_id":1,"_ts":2,"_chunk":3,"_deleted":true,"_layer":"l","_silt":4,"batch":"b","score":0.5,"metadata":{},"data":{}`,
	// Markup and formulas.
	`"<b>":"</script><script>alert(1)</script>","<img src=x onerror=alert(1)>":"<img src=x onerror=alert(1)>","&amp;":"&lt;"`,
	`"link":"javascript:alert(1)","data":"data:text/html,<script>alert(1)</script>","css":"</style><svg onload=alert(1)>"`,
	`"f":"=cmd()","g":"+1+1","h":"-2+3","i":"@SUM(A1)","j":"\t=1","=k":"|","l":-1.5,"m":"-1.5"`,
}

func manyKeys(n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(`"k%03d":%d`, i, i)
	}
	parts[n/2] += ".5"
	return strings.Join(parts, ",")
}

// badLines are no rows, each with what the refusal says.
var badLines = []struct{ line, says string }{
	{`{"id":"a","x":NaN}`, "NaN"}, {`{"id":"b","x":-Infinity}`, "not JSON"},
	{"{\"id\":\"a\",\"t\":\"x\xffy\"}", "UTF-8"}, {"{\"id\":\"a\",\"\xff\":1}", "UTF-8"},
	{`{"id":"a","x":1,"x":2}`, "twice"}, {`{"id":"a","x":1,"\u0078":2}`, "twice"}, {`{"id":"a","o":{"x":1,"x":2}}`, "twice"}, {`{"id":"a","id":"b"}`, "twice"},
	{"\ufeff" + `{"id":"a"}`, "byte order mark"},
	{`{"id":"a"}{"id":"b"}`, "two JSON values"}, {`[{"id":"a"},{"id":"b"}]`, "JSON array"}, {`{"id":"a"},`, "comma"},
	{`{"id":"a","d":` + strings.Repeat("[", 512) + strings.Repeat("]", 512) + `}`, "512"},
	{`{"id":"a","d":` + strings.Repeat("[", 3000) + strings.Repeat("]", 3000) + `}`, "512"},
	{`{"id":"a","d":` + strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001) + `}`, "512"},
	{`{"id":null}`, "id"}, {`{"id":1.5}`, "id"}, {`{"id":{}}`, "id"}, {`{"id":[]}`, "id"}, {`{"id":true}`, "id"}, {`{"id":""}`, "id"},
	{`{"id":"\ud83d"}`, "id"}, {`{"id":"` + strings.Repeat("x", 257) + `"}`, "id"},
	{`{"id":"a","_batch":"b"}`, "_batch"}, {`{"id":"a","_silt_live":true}`, "_silt_live"}, {`{"id":"a","_silt_raw":1}`, "_silt_raw"}, {`{"id":"a","\u005fsilt_x":1}`, "_silt_x"},
	{"{", "several lines"}, {`"id":"a",`, "one object per line"}, {"}", "one object per line"}, // a row over several lines
	{`{"id":"a","t":"` + "\x01" + `"}`, "JSON"}, {`{'id':'a'}`, "JSON"}, {`{"id":"a",}`, "comma"}, {`{"id":"a","n":01}`, "JSON"}, {`{"id":"a"} // x`, "after"},
}

// hostileIDs are legal, and every link has to carry them.
var hostileIDs = []string{
	"<img src=x onerror=alert(1)>", "</script><script>", "javascript:alert(1)", "../../etc/passwd", ".", "..", "a/b", "//", "%2F", "%", "?x#y", "a b+c", `"`, `\`, "\u0000",
	"line\nend", "naïve", "nai\u0308ve", "日本", "🙂", " ", ";", "__proto__", "constructor", "\u202e", "007", "7", "1e3", strings.Repeat("é", 128),
}

// legalNames can name a dataset and a batch; illegalNames say which rule they
// break.
var legalNames = []string{
	"naïve", "50%", "a+b", "a b", "CON", `"`, "'", "a.b>*", "x=1", "日本語", "🙂", "<b>", "<img src=x onerror=alert(1)>", "%2F", "?q=1#f", "a,b;c", "~", "*", ">",
	"constructor", "toString", "length", "data", "=cmd()", "javascript:alert(1)", strings.Repeat("é", 100),
}

var illegalNames = map[string]string{
	"a/b": "/", "..": "path element", ".": "path element", strings.Repeat("x", 1024): "1024 bytes", "nai\u0308ve": "NFC", "": "empty", " a": "space", "a ": "space",
	"_x": "start with _", ".x": "start with", "a\u0000": "control", "a\nb": "control", `a\b`: `\`, "\xff": "UTF-8", "__proto__": "start with _", "__": "start with _",
}

func oddLine(id, body string) string {
	return fmt.Sprintf(`{"id":%s,"_created_at":"2026-11-30T06:00:00.000000Z",%s}`, quoted(id), body)
}

// quoted is a JSON string with no more escapes than JSON needs.
func quoted(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)
	return strings.TrimSuffix(b.String(), "\n")
}

// hostile is a store that rows are put into, and a viewer over it.
type hostile struct{ *served }

// put stores the lines of a file as the command does, and gives what is refused.
func (h *hostile) put(d, batch string, file []byte) (rejected []string) {
	h.t.Helper()
	w, err := producers.Open(h.t.Context(), h.store, h.bus, nil, d, batch, producers.ChunkRows(7))
	if err != nil {
		h.t.Fatal(err)
	}
	path := filepath.Join(h.t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		h.t.Fatal(err)
	}
	in, err := producers.OpenInput(h.t.Context(), path, producers.InputConfig{})
	if err != nil {
		h.t.Fatal(err)
	}
	defer in.Close()
	for l, err := range in.Lines() {
		if err != nil {
			h.t.Fatal(err)
		}
		if l.Reject == "" {
			if err = w.Write(h.t.Context(), l.Raw); err == nil {
				continue
			}
			if !errors.Is(err, producers.ErrRejected) {
				h.t.Fatal(err)
			}
			l.Reject = err.Error()
		}
		rejected = append(rejected, l.Reject)
	}
	if _, err := w.Close(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	return rejected
}

func (h *hostile) merge(d, batch string) {
	h.t.Helper()
	e, err := merger.New(h.store, h.bus, merger.Config{WorkDir: h.t.TempDir(), BlockRows: 5}, nil, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	res, err := e.Merge(h.t.Context(), dataset.BatchID{Dataset: d, Batch: batch})
	if err != nil || res.Rejected != 0 {
		h.t.Fatal(err, res)
	}
}

// api asks for something below a dataset.
func (h *hostile) api(d, path string) string {
	h.t.Helper()
	res, body := nginxGet(h.t, h.url+"/api/datasets/"+url.PathEscape(d)+path)
	if res.StatusCode != 200 {
		h.t.Errorf("%q%.200s: %s %.500s", d, path, res.Status, body)
	}
	return body
}

type hostilePage struct {
	Columns    []string
	Rows       []json.RawMessage
	Next, Prev *string
}

func (h *hostile) page(d, query string) hostilePage {
	h.t.Helper()
	var p struct {
		hostilePage
		NextCursor *string `json:"next_cursor"`
		PrevCursor *string `json:"prev_cursor"`
	}
	if err := json.Unmarshal([]byte(h.api(d, "/data?"+query)), &p); err != nil {
		h.t.Fatal(err)
	}
	p.Next, p.Prev = p.NextCursor, p.PrevCursor
	return p.hostilePage
}

// walk reads a dataset page by page to its end, and back to its start.
func (h *hostile) walk(d string) (rows, back []string) {
	h.t.Helper()
	p := h.page(d, "limit=4")
	for {
		for _, r := range p.Rows {
			rows = append(rows, string(r))
		}
		if p.Next == nil {
			break
		}
		p = h.page(d, "limit=4&cursor="+url.QueryEscape(*p.Next))
	}
	last := len(p.Rows)
	for {
		p = h.page(d, "limit=4&cursor="+url.QueryEscape(*p.Prev))
		if len(p.Rows) == 0 {
			break
		}
		for _, r := range slices.Backward(p.Rows) {
			back = append(back, string(r))
		}
	}
	slices.Reverse(back)
	return rows, append(back, rows[len(rows)-last:]...)
}

// member is a name with its value, as the writer wrote it.
type member struct{ name, value string }

// members are those of a row, read by a decoder that is not ours.
func members(t *testing.T, line string) (out []member) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(line))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		out = append(out, member{name.(string), string(v)})
	}
	return out
}

// stored is a line that was put, and whether it is merged.
type stored struct {
	id, line string
	live     bool
}

func (s stored) shown(batch string) string { return s.told(s.line, batch) }

func (s stored) told(line, batch string) string {
	mark := ""
	if s.live {
		mark = `,"_silt_live":true`
	}
	return strings.TrimSuffix(line, "}") + `,"_batch":` + quoted(batch) + mark + "}"
}

// check reads rows, sorted by id, in every way that there is.
func (h *hostile) check(d, batch string, rows []stored) {
	h.t.Helper()
	t := h.t
	var want []string
	columns := map[string]bool{}
	for _, s := range rows {
		want = append(want, s.shown(batch))
		for _, m := range members(t, s.line) {
			columns[m.name] = true
		}
	}
	forth, back := h.walk(d)
	if diff := cmp.Diff(want, forth); diff != "" {
		t.Fatalf("%q page by page:\n%.4000s", d, diff)
	}
	if diff := cmp.Diff(want, back); diff != "" {
		t.Fatalf("%q back:\n%.4000s", d, diff)
	}
	if got, want := h.api(d, "/count"), fmt.Sprintf(`{"count":%d,"exact":true}`+"\n", len(rows)); got != want {
		t.Errorf("%q: %s, want %s", d, got, want)
	}
	for _, s := range rows {
		path := "/rows/" + url.PathEscape(s.id)
		if s.id == "." || s.id == ".." {
			path = "/rows?id=" + s.id
		}
		whole := stored{line: s.line}.shown(batch)
		if got, want := h.api(d, path), fmt.Sprintf(`{"rows":[%s],"live":[%t],"annotations":[{}]}`+"\n", whole, s.live); got != want {
			t.Errorf("row %q:\n got %.2000s\nwant %.2000s", s.id, got, want)
		}
	}
	var lines []string
	for l := range strings.Lines(h.api(d, "/data?format=ndjson")) {
		if row, ok := strings.CutPrefix(strings.TrimSuffix(l, "}\n"), `{"type":"row","row":`); ok {
			lines = append(lines, row)
		}
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("%q as NDJSON:\n%.4000s", d, diff)
	}
	h.checkColumns(d, batch, rows, columns)
	h.checkTable(d, rows, columns)
}

// checkColumns asks for every column by its name.
func (h *hostile) checkColumns(d, batch string, rows []stored, columns map[string]bool) {
	h.t.Helper()
	var schema struct{ Columns []struct{ Name string } }
	if err := json.Unmarshal([]byte(h.api(d, "/schema")), &schema); err != nil {
		h.t.Fatal(err)
	}
	for name := range columns {
		if !slices.ContainsFunc(schema.Columns, func(c struct{ Name string }) bool { return c.Name == name }) {
			h.t.Errorf("%q: the schema lacks %q", d, name)
		}
		if strings.HasPrefix(name, "k") && name != "k100" {
			continue // one of many alike
		}
		p := h.page(d, "limit=1000&columns="+url.QueryEscape("["+quoted(name)+"]"))
		if len(p.Rows) != len(rows) {
			h.t.Fatalf("%d rows for column %q", len(p.Rows), name)
		}
		for i, s := range rows {
			var cut []string
			for _, m := range members(h.t, s.line) {
				if m.name == dataset.IDColumn || m.name == dataset.CreatedAtColumn || m.name == name {
					cut = append(cut, quoted(m.name)+":"+m.value)
				}
			}
			if got, want := string(p.Rows[i]), s.told("{"+strings.Join(cut, ",")+"}", batch); got != want {
				h.t.Errorf("column %q:\n got %.1000s\nwant %.1000s", name, got, want)
			}
		}
	}
}

// checkTable reads the CSV as a spreadsheet does.
func (h *hostile) checkTable(d string, rows []stored, columns map[string]bool) {
	h.t.Helper()
	table, err := csv.NewReader(strings.NewReader(h.api(d, "/data?format=csv"))).ReadAll()
	if err != nil || len(table) != len(rows)+1 {
		h.t.Fatal(len(table), err)
	}
	if got := len(table[0]); got != len(columns)+1 { // and _batch
		h.t.Errorf("%q: %d columns, want %d: %q", d, got, len(columns)+1, table[0])
	}
	at := map[string]int{}
	for i, name := range table[0] {
		at[name] = i
	}
	for i, s := range rows {
		for _, m := range members(h.t, s.line) {
			column, ok := at[csvCell(m.name)]
			if !ok {
				h.t.Fatalf("no column %q in %q", m.name, table[0])
			}
			text := m.value
			if text == "null" {
				text = ""
			} else if text[0] == '"' {
				if err := json.Unmarshal([]byte(m.value), &text); err != nil {
					h.t.Fatal(err)
				}
			}
			if got, want := table[i+1][column], csvCell(text); got != want {
				h.t.Errorf("cell %q of %q: %q, want %q", m.name, s.id, got, want)
			}
		}
	}
}

// csvCell is what a reader of CSV gets for a text: line ends of one kind, and
// nothing that a spreadsheet would run.
func csvCell(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) && !json.Valid([]byte(s)) {
		s = "'" + s
	}
	return strings.ReplaceAll(s, "\r\n", "\n") // as encoding/csv reads it
}

func TestEveryOddValueAndNameComesBackAsItWasWritten(t *testing.T) {
	t.Parallel()
	h := &hostile{serveViewer(t, viewerapi.Config{})}
	var rows []stored
	put := func(from, to int) {
		t.Helper()
		var file bytes.Buffer
		for i := from; i < to; i++ {
			id := fmt.Sprintf("%02d", i)
			if i >= len(oddRows) {
				id = hostileIDs[i-len(oddRows)]
			}
			body := `"column":"id"`
			if i < len(oddRows) {
				body = oddRows[i]
			}
			rows = append(rows, stored{id: id, line: oddLine(id, body), live: true})
			file.WriteString(rows[len(rows)-1].line + "\n")
		}
		slices.SortFunc(rows, func(a, b stored) int { return strings.Compare(a.id, b.id) })
		if rejected := h.put("odd", "b", file.Bytes()); rejected != nil {
			t.Fatal(rejected)
		}
	}
	merge := func() {
		h.merge("odd", "b")
		for i := range rows {
			rows[i].live = false
		}
	}
	all := len(oddRows) + len(hostileIDs)
	put(0, all/2)
	h.check("odd", "b", rows) // live
	merge()
	put(all/2, all)
	h.check("odd", "b", rows) // some of both
	merge()
	h.check("odd", "b", rows) // merged
}

func TestWhatIsNoRowIsRefusedAlone(t *testing.T) {
	t.Parallel()
	h := &hostile{serveViewer(t, viewerapi.Config{})}
	file := bytes.NewBufferString("\ufeff" + oddLine("first", `"bom":1`) + "\r\n\n  \n")
	for _, b := range badLines {
		file.WriteString(b.line + "\n")
	}
	file.WriteString(oddLine("last", `"x":1`)) // without its line end
	rejected := h.put("d", "b", file.Bytes())
	if len(rejected) != len(badLines) {
		t.Fatalf("%d lines are refused, want %d: %q", len(rejected), len(badLines), rejected)
	}
	for i, b := range badLines {
		if !strings.Contains(rejected[i], b.says) {
			t.Errorf("%.80q: %q does not say %q", b.line, rejected[i], b.says)
		}
	}
	rows := []stored{{"first", oddLine("first", `"bom":1`), true}, {"last", oddLine("last", `"x":1`), true}}
	h.check("d", "b", rows)

	// Stored by another tool, the same lines are left out in every view.
	key := dataset.BatchID{Dataset: "d", Batch: "b"}.ChunkKey("a1b2c3", 0)
	if _, err := h.store.Put(t.Context(), key, file.Bytes(), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	foreign := h.page("d", "limit=1000")
	for _, r := range foreign.Rows {
		if strings.Contains(string(r), "NaN") || strings.Count(string(r), `"_batch"`) != 1 || strings.Contains(string(r), "_silt_raw") {
			t.Errorf("%s", r)
		}
	}

	// A number may be an id: it is its decimal string.
	if rejected := h.put("ids", "b", []byte(`{"id":7,"_created_at":"2026-11-30T06:00:00.000000Z"}`+"\n"+`{"id":"007"}`+"\n"+`{"id":"1e3"}`+"\n")); rejected != nil {
		t.Error(rejected)
	}
	if got := h.api("ids", "/rows/7"); !strings.HasPrefix(got, `{"rows":[{"id":"7",`) {
		t.Error(got)
	}
}

func TestALineThatExpandsWithoutEndIsRefusedAlone(t *testing.T) {
	t.Parallel()
	h := &hostile{serveViewer(t, viewerapi.Config{})}
	var file bytes.Buffer
	w := gzip.NewWriter(&file)
	zeros := make([]byte, 1<<20)
	for range 80 {
		_, _ = w.Write(zeros)
	}
	_, _ = w.Write([]byte("\n" + oddLine("a", `"x":1`) + "\n"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if rejected := h.put("d", "b", file.Bytes()); len(rejected) != 1 || !strings.Contains(rejected[0], "64 MiB") {
		t.Errorf("%q", rejected)
	}
	h.check("d", "b", []stored{{"a", oddLine("a", `"x":1`), true}})
}

func TestEveryOddNameWorksEverywhereOrIsRefused(t *testing.T) {
	t.Parallel()
	h := &hostile{serveViewer(t, viewerapi.Config{})}
	start, err := h.bus.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range legalNames {
		rows := []stored{{name, oddLine(name, quoted(name)+":"+quoted(name)), true}}
		if rejected := h.put(name, name, []byte(rows[0].line+"\n")); rejected != nil {
			t.Fatal(rejected)
		}
		h.check(name, name, rows)
		h.merge(name, name)
		rows[0].live = false
		h.check(name, name, rows)
		if p := h.page(name, "batch="+url.QueryEscape(name)); len(p.Rows) != 1 {
			t.Errorf("%q: %d rows of the batch", name, len(p.Rows))
		}
	}
	var list struct{ Datasets []struct{ Name string } }
	_, body := nginxGet(t, h.url+"/api/datasets")
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Datasets) != len(legalNames) {
		t.Error(len(list.Datasets), err)
	}
	for name, rule := range illegalNames {
		for i, batch := range []string{"b", name} {
			d := name
			if i == 1 {
				d = "d"
			}
			if _, err := producers.Open(t.Context(), h.store, h.bus, nil, d, batch); !errors.Is(err, dataset.ErrName) || !strings.Contains(err.Error(), rule) {
				t.Errorf("%.40q: %v does not say %q", name, err, rule)
			}
		}
		if name == "" || name == "." || name == ".." { // no path holds them
			continue
		}
		for _, path := range []string{"/api/datasets/" + url.PathEscape(name), "/api/datasets/a%2Bb/data?batch=" + url.QueryEscape(name)} {
			if res, body := nginxGet(t, h.url+path); res.StatusCode != 400 || res.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%.80s: %s %s", path, res.Status, body)
			}
		}
	}
	h.hear(start.String())
}

// hear listens to the events of each dataset from a position on: one of a chunk
// and one of a merge, and none of any other dataset.
func (h *hostile) hear(from string) {
	h.t.Helper()
	for _, name := range legalNames {
		ctx, cancel := context.WithCancel(h.t.Context())
		in := h.listen(ctx, "?dataset="+url.QueryEscape(name), from)
		for _, want := range []string{"rows_ingested", "run_completed", "batch_merged"} {
			e, err := nextEvent(in)
			var data dataset.Event
			if err == nil {
				err = json.Unmarshal([]byte(e.data), &data)
			}
			if err != nil || e.name != want || data.Dataset != name || data.Batch != name || string(data.Type) != want {
				h.t.Errorf("%q: %+v, %v, want %s", name, e, err, want)
				break
			}
		}
		cancel()
	}
}
