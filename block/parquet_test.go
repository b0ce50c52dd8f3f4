package block_test

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/dataset"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func parquetRows(data []byte) (out []string) {
	for line, err := range block.ParquetLines(bytes.NewReader(data), int64(len(data))) {
		if err != nil {
			out = append(out, "!"+err.Error())
			continue
		}
		out = append(out, string(line))
	}
	return out
}

// The file holds a column of every type that DuckDB writes: integers past 2^53
// and 2^64, decimals, NaN, infinities, times with and without a zone, bytes,
// lists in lists, structs, maps, JSON (B001, B002, B004, B015, B016, B019).
func TestEveryTypeOfAParquetFileBecomesJSON(t *testing.T) {
	data, err := os.ReadFile("testdata/types.parquet")
	if err != nil {
		t.Fatal(err)
	}
	got := parquetRows(data)
	text := strings.Join(got, "\n") + "\n"
	if *update {
		if err := os.WriteFile("testdata/types.jsonl", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/types.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), text); d != "" {
		t.Error(d)
	}
	for _, line := range got {
		if _, err := dataset.ParseRow([]byte(line)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestAParquetFileOfManyRowGroupsIsReadInOrder(t *testing.T) {
	data, err := os.ReadFile("testdata/many.parquet")
	if err != nil {
		t.Fatal(err)
	}
	got := parquetRows(data)
	if len(got) != 5000 {
		t.Fatalf("%d rows", len(got))
	}
	if want := `{"id":"4999","l":[0,1,2,3],"s":{"n":4999,"s":"x"},"o":4999}`; got[4999] != want {
		t.Errorf("got %s", got[4999])
	}
	for range block.ParquetLines(bytes.NewReader(data), int64(len(data))) {
		break // must not hold anything back
	}
}

func TestUntypedListsAndFloatsOfAParquetFileBecomeJSON(t *testing.T) {
	type inner struct {
		A []int32            `parquet:"a"`
		M map[string]float32 `parquet:"m"`
	}
	type record struct {
		ID    string   `parquet:"id"`
		Tags  []string `parquet:"tags"`      // a bare repeated field
		List  []string `parquet:"list,list"` // a list with its three levels
		In    []inner  `parquet:"in"`
		Opt   *inner   `parquet:"opt,optional"`
		Small float64  `parquet:"small"`
		Bytes []byte   `parquet:"bytes"`
		U     uint32   `parquet:"u"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[record](&b)
	if _, err := w.Write([]record{
		{ID: "a", Tags: []string{"x", "y"}, List: []string{"p"}, In: []inner{{A: []int32{1, 2}}, {M: map[string]float32{"k": 0.1}}}, Opt: &inner{A: []int32{-1}},
			Small: 1e-9, Bytes: []byte{0xff, 0}, U: 1<<32 - 1},
		{ID: "b", Small: -1e300},
		{ID: "bad\xff"},
		{ID: "c", In: []inner{{}}, Small: 1234567},
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"id":"a","tags":["x","y"],"list":["p"],"in":[{"a":[1,2],"m":{}},{"a":[],"m":{"k":0.1}}],"opt":{"a":[-1],"m":{}},"small":1e-09,"bytes":"/wA=","u":4294967295}`,
		`{"id":"b","tags":[],"list":[],"in":[],"opt":null,"small":-1e+300,"bytes":"","u":0}`,
		"!line 3: a text that is not valid UTF-8",
		`{"id":"c","tags":[],"list":[],"in":[{"a":[],"m":{}}],"opt":null,"small":1234567.0,"bytes":"","u":0}`,
	}
	if d := cmp.Diff(want, parquetRows(b.Bytes())); d != "" {
		t.Error(d)
	}
}

func TestADamagedParquetFileIsAnErrorAndNoPanic(t *testing.T) {
	data, err := os.ReadFile("testdata/types.parquet")
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(data); n += 97 {
		if rows := parquetRows(data[:n]); len(rows) == 0 || rows[len(rows)-1][0] != '!' {
			t.Errorf("cut at %d: %.200q", n, rows)
		}
	}
	for i := 0; i < len(data); i += 29 {
		d := bytes.Clone(data)
		d[i] ^= 0x5A
		parquetRows(d) // an error, or values that the damage made: the format has no checksum of its own
	}
}
