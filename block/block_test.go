package block_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/dataset"
)

func row(t testing.TB, line string) dataset.Row {
	t.Helper()
	r, err := dataset.ParseRow([]byte(line))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return r
}

// someRows are n rows of odd content and very different size.
func someRows(t testing.TB, n int) (rows []dataset.Row) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range n {
		text := make([]byte, rng.IntN(1200))
		for j := range text {
			text[j] = "abcdefghij klmnop"[rng.IntN(17)]
		}
		rows = append(rows, row(t, fmt.Sprintf(`{"id":"%06d", "n":9007199254740993, "x":1e400,"t":"%s\ud83d<&>日本"}`, i, text)))
	}
	return rows
}

func write(t testing.TB, level int, rows ...dataset.Row) ([]byte, block.Info) {
	t.Helper()
	var b bytes.Buffer
	w := block.NewWriter(&b, level)
	for _, r := range rows {
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

func wantOf(i block.Info) *block.Want {
	return &block.Want{Rows: i.Rows, Bytes: i.Bytes, SHA256: i.SHA256}
}

// read gives the raw rows up to the end or the error.
func read(r io.Reader, want *block.Want) (rows []string, err error) {
	br := block.NewReader(r, want)
	for {
		row, err := br.Next()
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			if _, again := br.Next(); again == nil || again == io.EOF {
				return rows, fmt.Errorf("after %w the reader went on", err)
			}
			return rows, err
		}
		rows = append(rows, string(row.Raw))
	}
}

func raws(rows []dataset.Row) (out []string) {
	for _, r := range rows {
		out = append(out, string(r.Raw))
	}
	return out
}

func TestABlockGivesItsRowsBackByteForByte(t *testing.T) {
	rows := someRows(t, 600)
	for _, level := range []int{1, 3, 6, 9, -1} {
		data, info := write(t, level, rows...)
		for style, r := range map[string]io.Reader{
			"at once":      bytes.NewReader(data),
			"by halves":    iotest.HalfReader(bytes.NewReader(data)),
			"data and EOF": iotest.DataErrReader(bytes.NewReader(data)),
		} {
			got, err := read(r, wantOf(info))
			if d := cmp.Diff(raws(rows), got); d != "" || err != nil {
				t.Fatalf("level %d, %s: %v %s", level, style, err, d)
			}
		}
	}
}

func TestABlockSaysWhatItHolds(t *testing.T) {
	rows := someRows(t, 1500)
	data, info := write(t, 1, rows...)
	sum := sha256.Sum256(data)
	raw := 0
	for _, r := range rows {
		raw += len(r.Raw) + 1
	}
	frames := info.Frames
	info.Frames = nil
	want := block.Info{Rows: 1500, Bytes: int64(len(data)), RawBytes: int64(raw), FirstID: "000000", LastID: "001499", SHA256: hex.EncodeToString(sum[:])}
	if d := cmp.Diff(want, info); d != "" {
		t.Error(d)
	}
	if len(frames) < 5 {
		t.Errorf("%d frames of %d bytes", len(frames), raw)
	}
	again, _ := write(t, 1, rows...)
	if !bytes.Equal(data, again) {
		t.Error("the same rows gave other bytes")
	}
}

func TestAFrameEndsAtTheFirstRowEndPast128KiB(t *testing.T) {
	rows := someRows(t, 1500)
	data, info := write(t, 1, rows...)
	var offset, n int64
	for i, f := range info.Frames {
		if f.Offset != offset {
			t.Errorf("frame %d starts at %d, the one before ends at %d", i, f.Offset, offset)
		}
		got, err := block.ReadFrame(data[f.Offset : f.Offset+f.Length])
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(raws(rows[n:n+f.Rows]), raws(got)); d != "" || got[0].ID != f.FirstID {
			t.Errorf("frame %d: %s", i, d)
		}
		size, last := 0, 0
		for _, r := range got {
			last = len(r.Raw) + 1
			size += last
		}
		if full := size >= 128<<10; size-last >= 128<<10 || !full && i < len(info.Frames)-1 {
			t.Errorf("frame %d has %d raw bytes, its last row %d", i, size, last)
		}
		// It is a gzip file of its own, without name, comment, extra field or time.
		head := data[f.Offset:]
		if flags, mtime := head[3], head[4:8]; flags != 0 || !bytes.Equal(mtime, []byte{0, 0, 0, 0}) {
			t.Errorf("frame %d: flags %x, time %x", i, flags, mtime)
		}
		offset += f.Length
		n += f.Rows
	}
	if offset != info.Bytes || n != info.Rows {
		t.Errorf("frames cover %d bytes and %d rows of %d and %d", offset, n, info.Bytes, info.Rows)
	}
	two := info.Frames[1:3]
	got, err := block.ReadFrame(data[two[0].Offset : two[1].Offset+two[1].Length])
	if err != nil || int64(len(got)) != two[0].Rows+two[1].Rows {
		t.Errorf("two frames at once: %d rows, %v", len(got), err)
	}
}

func TestABlockWithoutRowsIsOneEmptyMember(t *testing.T) {
	data, info := write(t, 1)
	if len(data) == 0 || info.Bytes != int64(len(data)) || info.Rows != 0 || info.Frames != nil {
		t.Errorf("%d bytes, %+v", len(data), info)
	}
	if rows, err := read(bytes.NewReader(data), wantOf(info)); err != nil || rows != nil {
		t.Errorf("%v, %v", rows, err)
	}
	if rows, err := block.ReadFrame(data); err != nil || rows != nil {
		t.Errorf("%v, %v", rows, err)
	}
}

func TestARowOfMegabytesGoesThroughABlock(t *testing.T) { // B028
	if testing.Short() {
		t.Skip("large")
	}
	big := row(t, `{"id":"b","t":"`+strings.Repeat("x", 25_000_000)+`"}`)
	rows := []dataset.Row{row(t, `{"id":"a"}`), big, row(t, `{"id":"c"}`)}
	data, info := write(t, 1, rows...)
	got, err := read(bytes.NewReader(data), wantOf(info))
	if err != nil || len(got) != 3 || got[1] != string(big.Raw) {
		t.Errorf("%d rows, %v", len(got), err)
	}
	if len(info.Frames) != 2 || info.Frames[1].FirstID != "c" {
		t.Errorf("frames %+v", info.Frames)
	}
}

func TestAWriterRefusesWhatWouldBreakABlock(t *testing.T) {
	w := block.NewWriter(io.Discard, 1)
	if err := w.Add(row(t, `{"id":"b"}`)); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]dataset.Row{
		"the same id": row(t, `{"id":"b"}`), "an id before": row(t, `{"id":"a\uffff"}`), "no id": row(t, `{"x":1}`),
		"no bytes": {ID: "c"}, "two lines": {ID: "c", Raw: []byte("{}\n{}")},
	} {
		if err := w.Add(r); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if err := w.Add(row(t, `{"id":"b"}`)); !errors.Is(err, block.ErrOrder) {
		t.Errorf("got %v", err)
	}
	if info, err := w.Close(); err != nil || info.Rows != 1 { // a refused row leaves no trace
		t.Errorf("%+v, %v", info, err)
	}
	if err := w.Add(row(t, `{"id":"c"}`)); err == nil {
		t.Error("a closed block took a row")
	}
	if _, err := w.Close(); err == nil {
		t.Error("a block was closed twice")
	}
	if _, err := block.NewWriter(io.Discard, 77).Close(); err == nil {
		t.Error("level 77 was taken")
	}
}

// fullDisk takes n bytes.
type fullDisk struct{ n int }

var errFull = errors.New("no space left on device")

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.n -= len(p); d.n < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestAWriteErrorStaysWithTheBlock(t *testing.T) {
	rows := someRows(t, 1000)
	for _, n := range []int{0, 5, 30_000, 100_000} {
		w := block.NewWriter(&fullDisk{n}, 1)
		var err error
		for _, r := range rows {
			if err = w.Add(r); err != nil {
				break
			}
		}
		if _, cerr := w.Close(); !errors.Is(cerr, errFull) || err != nil && !errors.Is(err, errFull) {
			t.Errorf("after %d bytes: %v, %v", n, err, cerr)
		}
	}
}

// gz makes one gzip member.
func gz(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDamageIsFoundBeforeTheEndIsReported(t *testing.T) {
	data, info := write(t, 1, someRows(t, 1500)...)
	second := info.Frames[1].Offset
	swap := func(at int64) []byte {
		d := bytes.Clone(data)
		d[at] ^= 0x10
		return d
	}
	for name, tc := range map[string]struct {
		data []byte
		says string
	}{
		"empty file":                    {nil, "empty file"},
		"cut between members (B025)":    {data[:second], "the commit record says"},
		"cut inside a member (B025)":    {data[:second+100], "unexpected EOF"},
		"cut in the first header":       {data[:7], "unexpected EOF"},
		"cut in the trailer (B025)":     {data[:len(data)-5], "unexpected EOF"},
		"no first member":               {data[second:], "the commit record says"},
		"a member doubled":              {append(bytes.Clone(data[:second]), data...), "ids do not ascend"},
		"a member appended":             {append(bytes.Clone(data), gz(t, `{"id":"zz"}`+"\n")...), "more rows"},
		"an empty member appended":      {append(bytes.Clone(data), gz(t, "")...), "bytes, the commit record"},
		"zero padding (B026)":           {append(bytes.Clone(data), 0, 0, 0, 0), "bytes, the commit record"},
		"junk after (B026)":             {append(bytes.Clone(data), "junk"...), "after the last gzip member"},
		"flipped bit in a header":       {swap(second), "after the last gzip member"},
		"flipped bit in the data":       {swap(second + 500), ""},
		"flipped bit in a checksum":     {swap(second - 6), "checksum"},
		"flipped bit in a length":       {swap(second - 2), ""},
		"flipped bit in a header's tag": {swap(second + 9), "SHA-256"}, // the OS byte: gzip does not care
		"not compressed (B027)":         {[]byte(`{"id":"a"}`), "invalid header"},
		"no rows":                       {gz(t, ""), "0 rows"},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := read(bytes.NewReader(tc.data), wantOf(info))
			if !errors.Is(err, block.ErrDamaged) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%d rows, then %v", len(rows), err)
			}
			if tc.says == "unexpected EOF" && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("the cause is lost: %v", err)
			}
		})
	}
}

func TestEveryFlippedBitAndEveryCutIsFound(t *testing.T) {
	data, info := write(t, 1, row(t, `{"id":"a","t":"some text"}`), row(t, `{"id":"b","t":"some more text"}`))
	for i := range data {
		if _, err := read(bytes.NewReader(data[:i]), wantOf(info)); !errors.Is(err, block.ErrDamaged) {
			t.Errorf("cut at %d: %v", i, err)
		}
		for bit := range 8 {
			d := bytes.Clone(data)
			d[i] ^= 1 << bit
			if _, err := read(bytes.NewReader(d), wantOf(info)); !errors.Is(err, block.ErrDamaged) {
				t.Errorf("byte %d, bit %d: %v", i, bit, err)
			}
		}
	}
}

func TestABlockThatIsNotTheOneOfTheRecordIsFound(t *testing.T) {
	data, info := write(t, 1, row(t, `{"id":"a"}`), row(t, `{"id":"b"}`))
	for name, want := range map[string]block.Want{
		"rows":    {Rows: info.Rows + 1, Bytes: info.Bytes, SHA256: info.SHA256},
		"bytes":   {Rows: info.Rows, Bytes: info.Bytes - 1, SHA256: info.SHA256},
		"SHA-256": {Rows: info.Rows, Bytes: info.Bytes, SHA256: strings.Repeat("0", 64)},
	} {
		if _, err := read(bytes.NewReader(data), &want); !errors.Is(err, block.ErrDamaged) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"ids out of order":  "{\"id\":\"b\"}\n{\"id\":\"a\"}\n",
		"an id twice":       "{\"id\":\"a\"}\n{\"id\":\"a\"}\n",
		"a row without id":  "{\"x\":1}\n{\"id\":\"a\"}\n",
		"a blank line":      "\n{\"id\":\"a\"}\n",
		"a line not a row":  "{\"id\":\"a\"}\n[]\n",
		"a byte order mark": "{\"id\":\"a\"}\n\xef\xbb\xbf{\"id\":\"b\"}\n",
	} {
		data := gz(t, text)
		sum := sha256.Sum256(data)
		want := block.Want{Rows: 2, Bytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
		if _, err := read(bytes.NewReader(data), &want); !errors.Is(err, block.ErrDamaged) || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnErrorOfTheNetworkIsNotDamage(t *testing.T) {
	data, info := write(t, 1, someRows(t, 1000)...)
	boom := errors.New("connection reset")
	for _, cut := range []int64{0, 5, 1000, info.Frames[1].Offset, info.Bytes - 1, info.Bytes} {
		for _, cause := range []error{boom, io.ErrUnexpectedEOF} { // the latter is how a short HTTP body ends
			r := io.MultiReader(bytes.NewReader(data[:cut]), iotest.ErrReader(cause))
			_, err := read(r, wantOf(info))
			if !errors.Is(err, cause) || errors.Is(err, block.ErrDamaged) {
				t.Errorf("after %d bytes: %v", cut, err)
			}
			r = io.MultiReader(bytes.NewReader(data[:cut]), iotest.ErrReader(cause))
			if _, err := block.ScanFrames(r); !errors.Is(err, cause) || errors.Is(err, block.ErrDamaged) {
				t.Errorf("scan after %d bytes: %v", cut, err)
			}
		}
	}
}

func TestABlockOfAnotherToolIsReadWithoutARecord(t *testing.T) {
	a, b := "{\"id\":\"b\",\"x\":1}\n", "{\"id\":\"a\",\"x\":2}\r\n\n{\"x\":3}\n"
	want := []string{`{"id":"b","x":1}`, `{"id":"a","x":2}`, `{"x":3}`}
	all := []byte(a + b)
	for name, parts := range map[string][][]byte{
		"one member":                  {gz(t, a+b)},
		"two members (B024)":          {gz(t, a), gz(t, b)},
		"empty members (B024)":        {gz(t, ""), gz(t, a), gz(t, ""), gz(t, b), gz(t, "")},
		"a row across members (B024)": {gz(t, string(all[:7])), gz(t, string(all[7:]))},
		"one byte per member":         oneByteMembers(t, all),
		"zero padding (B026)":         {gz(t, a+b), make([]byte, 512)},
		"byte order mark (B010)":      {gz(t, "\xef\xbb\xbf"+a+b)},
	} {
		got, err := read(bytes.NewReader(bytes.Join(parts, nil)), nil)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, d)
		}
	}
	for name, data := range map[string][]byte{
		"junk (B026)":           append(gz(t, a), "junk"...),
		"junk after zeros":      append(gz(t, a), 0, 0, 1),
		"half a magic number":   append(gz(t, a), 0x1f),
		"cut (B025)":            gz(t, a)[:20],
		"bad checksum":          bytes.Replace(gz(t, a), gz(t, a)[len(gz(t, a))-8:], make([]byte, 8), 1),
		"a line that is no row": gz(t, "x\n"),
		"an empty file":         nil,
	} {
		if _, err := read(bytes.NewReader(data), nil); !errors.Is(err, block.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func oneByteMembers(t testing.TB, text []byte) (out [][]byte) {
	for _, c := range text {
		out = append(out, gz(t, string(c)))
	}
	return out
}
