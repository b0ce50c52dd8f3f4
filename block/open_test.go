package block_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/siltstone-data/siltstone/block"
)

func zst(t testing.TB, text string) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll([]byte(text), nil)
}

func openAll(data []byte) (string, error) {
	r, err := block.Open(iotest.HalfReader(bytes.NewReader(data)))
	if err != nil {
		return "", err
	}
	defer r.Close()
	out, err := io.ReadAll(r)
	return string(out), err
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func TestAFileIsOpenedByItsFirstBytes(t *testing.T) {
	const text = "{\"id\":\"a\"}\n"
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"plain (B027)":            {[]byte(text), text},
		"nothing":                 {nil, ""},
		"one byte":                {[]byte{0x1f}, "\x1f"},
		"gzip":                    {gz(t, text), text},
		"members (B024)":          {join(gz(t, text), gz(t, ""), gz(t, text)), text + text},
		"zero padding (B026)":     {join(gz(t, text), make([]byte, 1000)), text},
		"gzip in gzip (B027)":     {gz(t, string(gz(t, text))), string(gz(t, text))},
		"zstd":                    {zst(t, text), text},
		"zstd frames":             {join(zst(t, text), zst(t, text)), text + text},
		"zstd, a skippable frame": {join([]byte{0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3}, zst(t, text)), text},
	} {
		if got, err := openAll(tc.data); got != tc.want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestACutFileEndsWithAnError(t *testing.T) { // B025
	text := strings.Repeat("some text that is long enough\n", 100)
	for name, data := range map[string][]byte{"gzip": gz(t, text), "zstd": zst(t, text)} {
		for n := 4; n < len(data); n++ {
			if _, err := openAll(data[:n]); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s cut at %d of %d: %v", name, n, len(data), err)
			}
		}
		if _, err := openAll(join(data, []byte("junk"))); err == nil {
			t.Errorf("%s with junk after it ends well", name)
		}
		broken := bytes.Clone(data)
		broken[len(broken)-2] ^= 0x40
		if _, err := openAll(broken); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s with a wrong checksum: %v", name, err)
		}
	}
	boom := errors.New("boom")
	r, err := block.Open(io.MultiReader(bytes.NewReader(gz(t, text)[:30]), iotest.ErrReader(boom)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
}
