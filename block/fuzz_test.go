package block_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/block"
)

func FuzzLines(f *testing.F) {
	for _, s := range []string{"", "\n", "{\"id\":\"a\"}\r\n\r\n  \n{\"id\":\"b\"}", "\xef\xbb\xbf{\"id\":\"a\"}\n\xef\xbb\xbf{}\n", "{\"id\":\"a\"}\n{\"id\":\"b\",\"t\":\"hel",
		"[{\"id\":\"a\"},\n{\"id\":\"b\"}]", "\r\r\n\x00\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		want, err := lines(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		got, err := lines(iotest.OneByteReader(bytes.NewReader(data)))
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Fatal(err, d)
		}
		blank := 0
		text := strings.TrimPrefix(string(data), "\xef\xbb\xbf")
		for _, l := range strings.Split(text, "\n") {
			if strings.Trim(l, " \t\r") == "" {
				blank++
			}
		}
		if n := strings.Count(text, "\n") + 1 - blank; n != len(want) {
			t.Fatalf("%d lines of %d", len(want), n)
		}
	})
}

func FuzzReader(f *testing.F) {
	data, info := write(f, 1, row(f, `{"id":"a","t":"some text"}`), row(f, `{"id":"b"}`))
	f.Add(data)
	f.Add(data[:len(data)-3])
	f.Add(append(gz(f, "{\"id\":\"a\"}\n"), gz(f, "{\"id\":\"b\"}")...))
	f.Add(append(gz(f, "{}\n"), 0, 0))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		rows, err := read(bytes.NewReader(b), wantOf(info))
		if same := bytes.Equal(b, data); same != (err == nil) || err != nil && !errors.Is(err, block.ErrDamaged) {
			t.Fatalf("%d rows, %v, the same bytes: %v", len(rows), err, same)
		}
		rows, err = read(bytes.NewReader(b), nil)
		if err != nil && !errors.Is(err, block.ErrDamaged) {
			t.Fatal(err)
		}
		frames, ferr := block.ScanFrames(bytes.NewReader(b))
		if err == nil && ferr != nil {
			t.Fatalf("a block that reads has no frames: %v", ferr)
		}
		if err != nil {
			return
		}
		var again []string
		for _, fr := range frames {
			got, err := block.ReadFrame(b[fr.Offset : fr.Offset+fr.Length])
			if err != nil || int64(len(got)) != fr.Rows || got[0].ID != fr.FirstID {
				t.Fatalf("frame %+v: %d rows, %v", fr, len(got), err)
			}
			again = append(again, raws(got)...)
		}
		if d := cmp.Diff(rows, again); d != "" {
			t.Fatal(d)
		}
	})
}

func FuzzReadFrame(f *testing.F) {
	data, _ := write(f, 1, row(f, `{"id":"a"}`), row(f, `{"id":"b"}`))
	f.Add(data)
	f.Add(data[1:])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if rows, err := block.ReadFrame(b); err != nil && (rows != nil || !errors.Is(err, block.ErrDamaged)) {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
	})
}

func FuzzCutID(f *testing.F) {
	for _, id := range []string{"", "a", "a\x00b", "\x00\xff"} {
		f.Add(append(block.AppendID(nil, id), "rest"...))
	}
	f.Add([]byte("a\x00\x02"))
	f.Fuzz(func(t *testing.T, key []byte) {
		id, rest, err := block.CutID(key)
		if err != nil {
			if !errors.Is(err, block.ErrKey) {
				t.Fatal(err)
			}
			id = string(key)
			if got, rest, err := block.CutID(block.AppendID(nil, id)); got != id || len(rest) > 0 || err != nil {
				t.Fatalf("%q reads back as %q, %q, %v", id, got, rest, err)
			}
			return
		}
		if again := append(block.AppendID(nil, id), rest...); !bytes.Equal(again, key) {
			t.Fatalf("%q is %q and %q, which is %q", key, id, rest, again)
		}
	})
}

func FuzzRunKeys(f *testing.F) {
	f.Add(block.EncodeKeys("a", "", "b"), int64(3))
	f.Add(block.EncodeKeys("a", strings.Repeat("long", 500)), int64(2))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0}, int64(1))
	f.Add(block.EncodeKeys("a", "x")[:3], int64(1))
	f.Fuzz(func(t *testing.T, data []byte, n int64) {
		got, err := block.DecodeKeys(data, n, 1<<16)
		if err != nil {
			return
		}
		size := 0
		for _, k := range got {
			size += len(k)
		}
		if int64(len(got)) < n || size > len(data) {
			t.Fatalf("%d records of %d, %d bytes of %d", len(got), n, size, len(data))
		}
	})
}

func FuzzCSVLines(f *testing.F) {
	for _, s := range []string{"id,a\n1,\"x\r\ny\"\r\n2\n", "\xef\xbb\xbf\"a\"\"b\",c\n\"\n", "a\n\"b\"c\nd\n", "", "a,a\n", "id,_created_at\n1,\n", "a\r\r\n\"\r\r\n\"\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for line, err := range block.CSVLines(bytes.NewReader(data)) {
			var m map[string]*string
			if err == nil && (json.Unmarshal(line, &m) != nil || bytes.IndexByte(line, '\n') >= 0) {
				t.Fatalf("%q gave %q", data, line)
			}
		}
	})
}

func FuzzParquetLines(f *testing.F) {
	data, err := os.ReadFile("testdata/types.parquet")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("PAR1PAR1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for line, err := range block.ParquetLines(bytes.NewReader(b), int64(len(b))) {
			if err == nil && !json.Valid(line) {
				t.Fatalf("%q", line)
			}
		}
	})
}

func FuzzOpen(f *testing.F) {
	f.Add(gz(f, "text"))
	f.Add(zst(f, "text"))
	f.Add([]byte("text"))
	f.Add([]byte{0x1f, 0x8b})
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := block.Open(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		_, _ = io.Copy(io.Discard, io.LimitReader(r, 1<<24))
	})
}
