package block_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/block"
)

func TestScanningABlockGivesTheFramesOfItsWriter(t *testing.T) {
	for _, n := range []int{0, 1, 200, 1500} {
		data, info := write(t, 1, someRows(t, n)...)
		got, err := block.ScanFrames(iotest.HalfReader(bytes.NewReader(data)))
		if d := cmp.Diff(info.Frames, got); d != "" || err != nil {
			t.Errorf("%d rows: %v %s", n, err, d)
		}
	}
}

func TestFramesOfAnotherToolStartWhereRowsDo(t *testing.T) {
	line := func(id string) string { return `{"id":"` + id + `","t":"` + strings.Repeat("x", 50) + "\"}\n" }
	a, b, c := line("a"), line("b"), line("c")
	for name, parts := range map[string][]string{
		"one member":               {a + b + c},
		"a member per row":         {a, b, c},
		"a row across members":     {a + b[:9], b[9:] + c},
		"a row across three":       {a + b[:9], b[9:20], b[20:], c},
		"empty members":            {"", "", a, "", b, "", "", c, ""},
		"blank lines":              {"\n\n", a + "\n", "\n" + b, "\n", c + "\n"},
		"no last newline":          {a, b, c[:len(c)-1]},
		"a newline of its own":     {a[:len(a)-1], "\n", b, c},
		"a byte order mark":        {"\xef\xbb\xbf" + a, b + c},
		"a byte order mark, blank": {"\xef\xbb\xbf\r\n", a, b + c},
	} {
		var data []byte
		for _, p := range parts {
			data = append(data, gz(t, p)...)
		}
		data = append(data, 0, 0, 0)
		frames, err := block.ScanFrames(bytes.NewReader(data))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		ids, end := "", int64(0)
		for _, f := range frames {
			if f.Offset < end {
				t.Errorf("%s: frames overlap: %+v", name, frames)
			}
			end = f.Offset + f.Length
			rows, err := block.ReadFrame(data[f.Offset:end])
			if err != nil || int64(len(rows)) != f.Rows || rows[0].ID != f.FirstID {
				t.Errorf("%s: %+v: %d rows, %v", name, f, len(rows), err)
			}
			for _, r := range rows {
				ids += r.ID
			}
		}
		if ids != "abc" {
			t.Errorf("%s: the frames hold %q", name, ids)
		}
	}
}

func TestDamageIsFoundInFrames(t *testing.T) {
	data, info := write(t, 1, someRows(t, 1000)...)
	f := info.Frames[1]
	frame := data[f.Offset : f.Offset+f.Length]
	for name, d := range map[string][]byte{
		"nothing": nil, "cut": frame[:len(frame)-1], "cut early": frame[:100], "a byte more": append(bytes.Clone(frame), 1), "shifted": frame[1:],
		"no rows": gz(t, "x\n"),
	} {
		if _, err := block.ReadFrame(d); !errors.Is(err, block.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := block.ScanFrames(bytes.NewReader(d)); !errors.Is(err, block.ErrDamaged) {
			t.Errorf("scan, %s: %v", name, err)
		}
	}
}
