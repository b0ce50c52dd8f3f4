package block_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/dataset"
)

// parquetBlock writes lines, which must have ascending ids, into a block.
func parquetBlock(t testing.TB, lines ...string) ([]byte, block.Info) {
	t.Helper()
	var b bytes.Buffer
	w := block.NewParquetWriter(&b, t.TempDir())
	for _, l := range lines {
		r, err := dataset.ParseRow([]byte(l))
		if err != nil {
			t.Fatalf("%.200s: %v", l, err)
		}
		if err := w.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	info, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), info
}

// readParquet gives the lines of a block, and compares each row with its line.
func readParquet(t testing.TB, r *block.ParquetReader) ([]string, error) {
	t.Helper()
	var out []string
	for {
		row, err := r.Next()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		want, err := dataset.ParseRow(row.Raw)
		if err != nil {
			t.Fatalf("%.200s: %v", row.Raw, err)
		}
		if want.ID != row.ID || !want.CreatedAt.Equal(row.CreatedAt) {
			t.Errorf("%.200s is given as %q of %v", row.Raw, row.ID, row.CreatedAt)
		}
		out = append(out, string(row.Raw))
	}
}

func sameRows(t *testing.T, lines ...string) (data []byte, info block.Info) {
	t.Helper()
	data, info = parquetBlock(t, lines...)
	got, err := readParquet(t, block.NewParquetReader(bytes.NewReader(data), int64(len(data)), wantOf(info)))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(lines, got); d != "" {
		t.Error(d)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != info.SHA256 || info.Bytes != int64(len(data)) || info.Rows != int64(len(lines)) {
		t.Errorf("the block is described as %+v", info)
	}
	return data, info
}

// rawRows counts the rows that keep their line, and gives the file's columns.
func rawRows(t *testing.T, data []byte) (lines int, columns []string) {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range f.Schema().Columns() {
		columns = append(columns, c[0])
	}
	for _, g := range f.RowGroups() {
		chunks := g.ColumnChunks()
		last := chunks[len(chunks)-1].(*parquet.FileColumnChunk)
		lines += int(last.NumValues() - last.NullCount())
	}
	return lines, columns
}

var hostileLines = []string{
	`{"id":"a00","_created_at":"2026-11-30T06:12:09.482113Z","text":"plain","n":1,"x":0.5,"ok":true,"o":{"k":[1,2]}}`,
	`{"id":"a01","_created_at":"2026-11-30T06:12:09Z","text":"caf\u00e9","n":-0,"x":1e400,"ok":null,"o":[ ]}`,
	`{"n":9223372036854775808,"id":"a02","text":"\ud800","x":1.50}`,
	`{"id":"a03" , "text":"a\/b","n":9007199254740993,"ID":1,"Id":"x","iD":null}`,
	`{"id":"a04","":1,"a.b":2,"__proto__":3,"constructor":4,"e\u0301":5,"` + "\u00e9" + `":6,"n\u0000":7,"tab\t":8}`,
	`{"id":"a05","text":"` + strings.Repeat("long ", 100) + `"}`,
	`{"id":"a06","_created_at":1764482400,"text":null,"x":-0.0}`,
	`{"id":"a07","o":{"lone":"\ud83d","pair":"\ud83d\ude00","lo":"\udc00\\ud800","\uDBFF":"\uD83D\uDE00"},"text":"\ud83d\ude00"}`,
	`{"id":"a08","text":"<b>&amp;\u2028","n":1.0,"x":"mixed","ok":"no"}`,
	`{"id":"a09","_silt_raw":"mine","_silt_x":1,"_batch":"b","text":"\u007f` + "\x7f" + `"}`,
	`{ "id": "a10", "text": "spaces", "n": 3 }`,
	`{"id":"a11","\u0074ext":"an escaped name","n":12345678901234567890123}`,
	`{"id":"a12","half\ud800":1,"text":"\u0000\u001f\b\f\n\r\t\"\\"}`,
	`{"id":"\u0061\u00313","text":"` + "\u2028\u2029\ufffd" + `"}`,
	`{"id":"a14","x":1e5,"n":1E2,"ok":false,"text":""}`,
}

func TestAParquetBlockGivesHostileLinesBackByteForByte(t *testing.T) {
	sameRows(t, hostileLines...)
	for _, l := range hostileLines { // each alone has other columns
		sameRows(t, l)
	}
}

func TestAParquetBlockGivesIntegerIDsBack(t *testing.T) {
	data, _ := sameRows(t, `{"id":10,"a":1}`, `{"id":2,"a":2}`, `{"id":3,"a":2.5}`)
	if n, _ := rawRows(t, data); n != 0 {
		t.Errorf("%d rows keep their line", n)
	}
	sameRows(t, `{"id":10,"a":1}`, `{"id":"2","a":2}`, `{"id":3,"a":2.5}`)
}

func TestAParquetBlockWithoutRowsIsReadAsOne(t *testing.T) {
	data, info := sameRows(t)
	if len(info.Frames) != 0 || info.FirstID != "" {
		t.Errorf("%+v", info)
	}
	if _, columns := rawRows(t, data); len(columns) != 2 {
		t.Errorf("columns %q", columns)
	}
}

// The way in which each writer of the world writes JSON costs no copy of the
// lines.
func TestLinesOfUsualWritersNeedNoCopy(t *testing.T) {
	for name, lines := range map[string][]string{
		"stamped Python": {
			`{"id":"a","_created_at":"2026-11-30T06:12:09.482113Z","text": "caf\u00e9 \ud83d\ude00", "n": 1, "x": 1e-07, "l": [1, 2]}`,
			`{"id":"b","_created_at":"2026-11-30T06:12:10.482113Z","text": "\u007f", "n": 2, "x": 1.0, "l": []}`,
		},
		"JavaScript": {`{"id":"a","text":"café 😀 /","n":1,"x":1e-7}`, `{"id":"b","text":"` + "\u2028" + `","n":2,"x":1}`, `{"id":"c","text":"","n":2,"x":1e+21}`},
		"Go":         {`{"id":"a","text":"\u003cb\u003e é","ok":true}`, `{"id":"b","text":"\u2028","ok":false}`},
		"PHP":        {`{"id":"a","text":"a\/b \u00e9"}`, `{"id":"b","text":"c"}`},
		"null":       {`{"id":"a","m":null,"text":"x"}`, `{"id":"b","m":null,"text":"x"}`},
		"missing":    {`{"id":"a","z":1}`, `{"id":"b","m":1,"z":1}`, `{"id":"c","z":1}`},
		"mixed":      {`{"id":"a","m":1}`, `{"id":"b","m":"1"}`, `{"id":"c","m":[ 1 ]}`, `{"id":"d","m":1.50}`, `{"id":"e","m":true}`},
		"huge":       {`{"id":"a","m":1e400}`, `{"id":"b","m":0.1234567890123456789}`, `{"id":"c","m":9223372036854775808}`},
	} {
		t.Run(name, func(t *testing.T) {
			data, _ := sameRows(t, lines...)
			if n, _ := rawRows(t, data); n != 0 {
				t.Errorf("%d rows keep their line", n)
			}
		})
	}
}

func TestTheColumnsOfAParquetBlockComeInTheOrderOfLines(t *testing.T) {
	data, _ := sameRows(t, `{"z":1,"id":"a","_created_at":"2026-11-30T06:12:09Z","a":1}`, `{"z":1,"m":0,"id":"b","_created_at":"2026-11-30T06:12:09Z","b":2,"a":1}`)
	lines, columns := rawRows(t, data)
	if d := cmp.Diff([]string{"id", "_created_at", "z", "m", "b", "a", "_silt_raw"}, columns); d != "" || lines != 0 {
		t.Error(lines, d)
	}
}

// Ten thousand names would be as many columns; most rows' names get one (B094).
func TestABlockWithTenThousandNamesKeepsLines(t *testing.T) {
	var lines []string
	for i := range 20 {
		var b strings.Builder
		fmt.Fprintf(&b, `{"id":"%04d"`, i)
		for k := range 10_000 {
			fmt.Fprintf(&b, `,"k%d":%d`, (k+i*3000)%40_000, k)
		}
		lines = append(lines, b.String()+`,"last":1}`)
	}
	data, _ := sameRows(t, lines...)
	n, columns := rawRows(t, data)
	if n != len(lines) || len(columns) > 1001 || columns[0] != "id" {
		t.Errorf("%d lines, %d columns", n, len(columns))
	}
}

func manyLines(n, words int) []string {
	r := rand.New(rand.NewPCG(7, 7))
	text := strings.Fields("merge block chunk row batch live frame record commit sort text data store read write key id open close gone")
	lines := make([]string, n)
	for i := range lines {
		var b strings.Builder
		for range r.IntN(2 * words) {
			b.WriteString(text[r.IntN(len(text))] + " ")
		}
		lines[i] = fmt.Sprintf(`{"id":"%08d","_created_at":"2026-11-30T06:12:%02dZ","n":%d,"score":%d.5,"text":"%s"}`, i, i%60, i, i%100, b.String())
	}
	return lines
}

func TestAParquetBlockIsReadFromAnID(t *testing.T) {
	lines := manyLines(5000, 200)
	data, info := sameRows(t, lines...)
	if len(info.Frames) < 4 {
		t.Fatalf("only %d frames", len(info.Frames))
	}
	for from, id := range map[int]string{0: "", 1: "00000000a", 5000: "9", 2500: "00002500", 4999: "00004999"} {
		var at atCounter
		at.ReaderAt = bytes.NewReader(data)
		r := block.NewParquetReader(&at, int64(len(data)), wantOf(info))
		r.From(id)
		got, err := readParquet(t, r)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(lines[from:], got); d != "" && len(got)+from != 5000 {
			t.Errorf("from %q: %.500s", id, d)
		}
		if from == 4999 && at.n > 3 {
			t.Errorf("%d reads for the last row", at.n)
		}
	}
	p := openParquetBlock(t, data)
	for i, f := range info.Frames {
		rows, err := p.Frame(i, data[f.Offset:f.Offset+f.Length])
		if err != nil || rows[0].ID != f.FirstID || int64(len(rows)) != f.Rows {
			t.Fatalf("frame %d: %v, %v", i, f, err)
		}
	}
}

type atCounter struct {
	io.ReaderAt
	n int
}

func (a *atCounter) ReadAt(p []byte, at int64) (int, error) {
	a.n++
	return a.ReaderAt.ReadAt(p, at)
}

func openParquetBlock(t testing.TB, data []byte) *block.Parquet {
	t.Helper()
	footer, err := block.ReadParquetFooter(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := block.OpenParquet(footer, int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Pages and row groups end by bytes: none comes near what an int32 says (B032).
func TestLargeRowsDoNotOverflowAParquetBlock(t *testing.T) {
	rows, size := 150, 4<<20
	if testing.Short() {
		rows, size = 12, 3<<20
	}
	f := tempFile(t)
	w := block.NewParquetWriter(f, t.TempDir())
	text := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	for i := range rows {
		raw := fmt.Appendf(nil, `{"id":"%05d","text":"%s"}`, i, text)
		if err := w.Add(dataset.Row{ID: fmt.Sprintf("%05d", i), Raw: raw}); err != nil {
			t.Fatal(err)
		}
	}
	info, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Frames) != rows {
		t.Errorf("%d frames", len(info.Frames))
	}
	r := block.NewParquetReader(f, info.Bytes, wantOf(info))
	for i := range rows {
		row, err := r.Next()
		if err != nil || row.ID != fmt.Sprintf("%05d", i) || len(row.Raw) != size+24 {
			t.Fatalf("row %d: %q, %d bytes, %v", i, row.ID, len(row.Raw), err)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Error(err)
	}
}

func TestAParquetWriterRefusesWhatCannotFollow(t *testing.T) {
	w := block.NewParquetWriter(io.Discard, t.TempDir())
	add := func(id, raw string) error { return w.Add(dataset.Row{ID: id, Raw: []byte(raw)}) }
	if err := add("b", `{"id":"b"}`); err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][2]string{{"b", `{"id":"b"}`}, {"a", `{"id":"a"}`}, {"", `{}`}, {"c", `{"x":1}`}, {"c", "{\"id\":\n\"c\"}"}, {"c", `{"id":"c"`}, {"c", `[]`}, {"c", ``}} {
		if err := add(bad[0], bad[1]); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if info, err := w.Close(); err != nil || info.Rows != 1 {
		t.Error(info, err)
	}
	if _, err := w.Close(); err == nil {
		t.Error("closed twice")
	}
}

func TestAParquetBlockThatDoesNotMatchItsRecordIsDamaged(t *testing.T) {
	data, info := parquetBlock(t, manyLines(300, 20)...)
	for name, want := range map[string]block.Want{
		"rows":  {Rows: info.Rows + 1, Bytes: info.Bytes, SHA256: info.SHA256},
		"bytes": {Rows: info.Rows, Bytes: info.Bytes - 1, SHA256: info.SHA256},
		"sum":   {Rows: info.Rows, Bytes: info.Bytes, SHA256: strings.Repeat("0", 64)},
	} {
		if _, err := readParquet(t, block.NewParquetReader(bytes.NewReader(data), int64(len(data)), &want)); !errors.Is(err, block.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEveryFlippedByteOfAParquetBlockIsFound(t *testing.T) {
	lines := manyLines(40, 5)
	data, info := parquetBlock(t, lines...)
	step := 5
	if testing.Short() {
		step = 29
	}
	unseen := 0
	for i := 0; i < len(data); i += step {
		d := bytes.Clone(data)
		d[i] ^= 1 << (i % 8)
		got, err := readParquet(t, block.NewParquetReader(bytes.NewReader(d), int64(len(d)), wantOf(info)))
		if !errors.Is(err, block.ErrDamaged) {
			t.Fatalf("byte %d: %d rows, %v", i, len(got), err)
		}
		// Without the record the page index is not looked at; rows are right.
		got, err = readParquet(t, block.NewParquetReader(bytes.NewReader(d), int64(len(d)), nil))
		if err == nil {
			unseen++
			if d := cmp.Diff(lines, got); d != "" {
				t.Fatalf("byte %d: %s", i, d)
			}
		} else if !errors.Is(err, block.ErrDamaged) {
			t.Fatalf("byte %d: %v", i, err)
		}
	}
	if unseen == 0 {
		t.Error("the page index is read after all")
	}
	for n := 0; n < len(data); n += step {
		if _, err := readParquet(t, block.NewParquetReader(bytes.NewReader(data[:n]), int64(n), nil)); !errors.Is(err, block.ErrDamaged) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
}

func TestAnErrorOfTheStoreIsNoDamage(t *testing.T) {
	data, info := parquetBlock(t, manyLines(40, 5)...)
	for n := range 4 {
		bad := &failingAt{ReaderAt: bytes.NewReader(data), after: n}
		_, err := readParquet(t, block.NewParquetReader(bad, int64(len(data)), wantOf(info)))
		if !errors.Is(err, errStore) || errors.Is(err, block.ErrDamaged) {
			t.Errorf("after %d reads: %v", n, err)
		}
	}
}

var errStore = errors.New("the store is away")

type failingAt struct {
	io.ReaderAt
	after int
}

func (f *failingAt) ReadAt(p []byte, at int64) (int, error) {
	if f.after--; f.after < 0 {
		return 0, errStore
	}
	return f.ReaderAt.ReadAt(p, at)
}

func TestTheSameRowsGiveTheSameParquetBlock(t *testing.T) {
	lines := manyLines(2000, 100)
	a, _ := parquetBlock(t, lines...)
	b, _ := parquetBlock(t, lines...)
	if !bytes.Equal(a, b) {
		t.Error("two blocks of the same rows differ")
	}
}

func TestTheLinesOfAParquetBlockAreThoseThatWereWritten(t *testing.T) {
	data, _ := parquetBlock(t, hostileLines...)
	if d := cmp.Diff(hostileLines, parquetRows(data)); d != "" {
		t.Error(d)
	}
	data[100] ^= 1
	if rows := parquetRows(data); len(rows) != 1 || !strings.Contains(rows[0], "CRC-32C") {
		t.Errorf("%q", rows)
	}
}

// FuzzParquetBlock writes rows of any text and reads them back, whole, cut and
// with a flipped byte.
func FuzzParquetBlock(f *testing.F) {
	f.Add(strings.Join(hostileLines, "\n"), uint16(100), uint8(1))
	for _, l := range hostileLines {
		f.Add(l, uint16(len(l)), uint8(8))
	}
	f.Add(`{"id":"a","x":-0.0}`+"\n"+`{"id":"b","x":0x1p-2}`+"\n"+`{"id":"c","x":1_0}`, uint16(3), uint8(0x80))
	f.Fuzz(func(t *testing.T, text string, at uint16, flip uint8) {
		var b bytes.Buffer
		w := block.NewParquetWriter(&b, t.TempDir())
		var lines []string
		last := ""
		for l := range strings.Lines(text) {
			r, err := dataset.ParseRow([]byte(strings.TrimSuffix(l, "\n")))
			if err != nil || r.ID <= last || bytes.IndexByte(r.Raw, '\n') >= 0 {
				continue
			}
			if err := w.Add(r); err != nil {
				t.Fatalf("%q: %v", r.Raw, err)
			}
			last = r.ID
			lines = append(lines, string(r.Raw))
		}
		info, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		got, err := readParquet(t, block.NewParquetReader(bytes.NewReader(b.Bytes()), info.Bytes, wantOf(info)))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(lines, got); d != "" {
			t.Fatal(d)
		}
		data := b.Bytes()
		if flip != 0 {
			data[int(at)%len(data)] ^= flip
		} else {
			data = data[:int(at)%len(data)]
		}
		got, err = readParquet(t, block.NewParquetReader(bytes.NewReader(data), int64(len(data)), nil))
		if err == nil {
			if d := cmp.Diff(lines, got); d != "" {
				t.Fatal(d)
			}
		} else if !errors.Is(err, block.ErrDamaged) {
			t.Fatal(err)
		}
	})
}

// FuzzParquetFooter opens files with a footer of any content under a right
// checksum.
func FuzzParquetFooter(f *testing.F) {
	data, _ := parquetBlock(f, manyLines(40, 5)...)
	footer, err := block.ReadParquetFooter(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(footer)
	f.Fuzz(func(t *testing.T, footer []byte) {
		full := bytes.Clone(data)
		full = append(full[:len(full)-len(footer)%len(full)], footer...)
		block.FixParquetFooter(full)
		r := block.NewParquetReader(bytes.NewReader(full), int64(len(full)), nil)
		var err error
		for err == nil {
			_, err = r.Next()
		}
		if err != io.EOF && !errors.Is(err, block.ErrDamaged) && !strings.Contains(err.Error(), "newer siltstone") {
			t.Fatal(err)
		}
	})
}

func tempFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "block-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}
