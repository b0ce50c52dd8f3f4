package block_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/siltstone-data/siltstone/block"
)

// reading is what a reader gives: rows and the error at the end.
func reading(r *block.Reader) (rows []string, err error) {
	for {
		row, err := r.Next()
		if err != nil {
			return rows, err
		}
		rows = append(rows, row.ID+" "+string(row.Raw))
	}
}

// sameReading compares a reader that reads ahead with one that does not, down to
// the text of the error.
func sameReading(t *testing.T, name string, open func() io.Reader, want block.Want) {
	t.Helper()
	rows, err := reading(block.NewReader(open(), &want))
	ahead := block.NewAheadReader(open(), &want, 3)
	defer ahead.Close()
	got, gerr := reading(ahead)
	if err.Error() != gerr.Error() || errors.Is(err, block.ErrDamaged) != errors.Is(gerr, block.ErrDamaged) || (err == io.EOF) != (gerr == io.EOF) {
		t.Errorf("%s: ends with %q, want %q", name, gerr, err)
	}
	if len(got) != len(rows) {
		t.Errorf("%s: %d rows, want %d", name, len(got), len(rows))
		return
	}
	for i := range rows {
		if got[i] != rows[i] {
			t.Errorf("%s: row %d is %q, want %q", name, i, got[i], rows[i])
			return
		}
	}
}

func member(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.Bytes()
}

func wantFor(data []byte, rows int64) block.Want {
	sum := sha256.Sum256(data)
	return block.Want{Rows: rows, Bytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
}

func manyRows(from, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"id":"%06d","t":"%s"}`+"\n", from+i, strings.Repeat(string(rune('a'+i%26)), i%90))
	}
	return b.String()
}

func TestReadingAheadGivesWhatReadingGives(t *testing.T) {
	split := manyRows(0, 50)
	random := make([]byte, 7<<20)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = 'a' + byte(rnd.IntN(26))
	}
	long := fmt.Sprintf(`{"id":"0","t":"%s"}`+"\n"+`{"id":"1"}`+"\n", random)
	for name, tt := range map[string]struct {
		parts []string
		tail  string
		rows  int64
	}{
		"members":                   {parts: []string{manyRows(0, 400), manyRows(400, 1), manyRows(401, 300)}, rows: 701},
		"a line in two members":     {parts: []string{split[:100], split[100:], manyRows(50, 9)}, rows: 59},
		"no end of the last line":   {parts: []string{manyRows(0, 9), `{"id":"9"}`}, rows: 10},
		"a carriage return":         {parts: []string{manyRows(0, 9), "{\"id\":\"9\"}\r\n", manyRows(10, 3)}, rows: 13},
		"a byte order mark":         {parts: []string{"\xEF\xBB\xBF" + manyRows(0, 9), manyRows(9, 3)}, rows: 12},
		"a mark further on":         {parts: []string{manyRows(0, 9), "\xEF\xBB\xBF" + manyRows(9, 3)}, rows: 12},
		"an empty member":           {parts: []string{"", manyRows(0, 9), "", ""}, rows: 9},
		"nothing":                   {},
		"no row":                    {parts: []string{manyRows(0, 9), "{\n", manyRows(9, 3)}, rows: 12},
		"a blank line":              {parts: []string{manyRows(0, 9) + "\n", manyRows(9, 3)}, rows: 12},
		"no order":                  {parts: []string{manyRows(5, 9), manyRows(0, 3)}, rows: 12},
		"too many rows":             {parts: []string{manyRows(0, 9), manyRows(9, 3)}, rows: 11},
		"too few rows":              {parts: []string{manyRows(0, 9), manyRows(9, 3)}, rows: 13},
		"zeros at the end":          {parts: []string{manyRows(0, 9)}, tail: strings.Repeat("\x00", 3000), rows: 9},
		"junk at the end":           {parts: []string{manyRows(0, 9)}, tail: "junk", rows: 9},
		"the mark of a member":      {parts: []string{manyRows(0, 9)}, tail: "\x1f\x8b\x08\x00\x00\x00\x00\x00", rows: 9},
		"one member of many MiB":    {parts: []string{manyRows(0, 1)[:11] + "\"}\n", long}, rows: 3},
		"a member of many MiB last": {parts: []string{long, manyRows(2, 3)}, rows: 5},
	} {
		var data []byte
		for _, p := range tt.parts {
			data = append(data, member(p)...)
		}
		data = append(data, tt.tail...)
		want := wantFor(data, tt.rows)
		sameReading(t, name, func() io.Reader { return bytes.NewReader(data) }, want)
		if len(data) > 1<<20 {
			continue
		}
		sameReading(t, name+", in halves", func() io.Reader { return iotest.HalfReader(bytes.NewReader(data)) }, want)
		broken := errors.New("the network is gone")
		for _, at := range []int{0, len(data) / 2, len(data)} {
			sameReading(t, fmt.Sprintf("%s, broken at %d", name, at), func() io.Reader {
				return io.MultiReader(bytes.NewReader(data[:at]), iotest.ErrReader(broken))
			}, want)
		}
	}
}

func TestReadingAheadFindsTheDamageThatReadingFinds(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	var whole bytes.Buffer
	for i := range 40 {
		whole.Write(member(manyRows(i*100, 100)))
	}
	want := wantFor(whole.Bytes(), 4000)
	for range 150 {
		data := bytes.Clone(whole.Bytes())
		at := rnd.IntN(len(data))
		name := fmt.Sprintf("cut at %d", at)
		if rnd.IntN(2) == 0 {
			data = data[:at]
		} else {
			data[at] ^= 1 << rnd.IntN(8)
			name = fmt.Sprintf("a flipped bit at %d", at)
		}
		sameReading(t, name, func() io.Reader { return bytes.NewReader(data) }, want)
	}
}

func TestAReaderThatIsClosedEarlyLeavesNothingBehind(t *testing.T) {
	data := member(manyRows(0, 100))
	for i := 1; i < 100; i++ {
		data = append(data, member(manyRows(i*100, 100))...)
	}
	for _, rows := range []int{0, 1, 150, 9000} {
		r := block.NewAheadReader(bytes.NewReader(data), &block.Want{Rows: 10000}, 2)
		for range rows {
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
		}
		r.Close() // waits for its goroutines
		r.Close()
		if _, err := r.Next(); err == nil {
			t.Error("a closed reader gives rows")
		}
	}
}
