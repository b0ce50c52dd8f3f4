package producers

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
)

// Format is how an input holds its rows.
type Format string

// The formats of inputs.
const (
	Auto    Format = "" // by content, then by name
	NDJSON  Format = "ndjson"
	CSV     Format = "csv"
	Parquet Format = "parquet"
)

// ParseFormat reads the name of a format.
func ParseFormat(s string) (Format, error) {
	switch f := Format(s); f {
	case Auto, NDJSON, CSV, Parquet:
		return f, nil
	}
	return Auto, fmt.Errorf("format %q is none of ndjson, csv, parquet", s)
}

// sniffBytes is how much of the start of an input tells what it is: as far as
// the mark of a tar archive.
const sniffBytes = 512

const parquetMagic = "PAR1"

// foreign are files that cannot be read here, by their first bytes, and what to
// do with them.
var foreign = []struct {
	at    int
	magic string
	is    string
}{
	{0, "PK\x03\x04", "a zip archive; unpack it first"},
	{0, "BZh", "compressed with bzip2; unpack it first (bzip2 -dc)"},
	{0, "\xFD7zXZ\x00", "compressed with xz; unpack it first (xz -dc)"},
	{0, "7z\xBC\xAF\x27\x1C", "a 7z archive; unpack it first"},
	{257, "ustar", "a tar archive; unpack it first (tar -xOf)"},
	{0, "\x1F\x8B", "compressed twice; unpack it once first (gzip -dc)"},
	{0, "\x28\xB5\x2F\xFD", "compressed twice; unpack it once first (zstd -dc)"},
	{0, "\xFF\xFE\x00\x00", "UTF-32; make it UTF-8 first (iconv -f UTF-32 -t UTF-8)"},
	{0, "\x00\x00\xFE\xFF", "UTF-32; make it UTF-8 first (iconv -f UTF-32 -t UTF-8)"},
	{0, "\xFF\xFE", "UTF-16; make it UTF-8 first (iconv -f UTF-16 -t UTF-8)"},
	{0, "\xFE\xFF", "UTF-16; make it UTF-8 first (iconv -f UTF-16 -t UTF-8)"},
	{0, "ARROW1", "an Arrow file; write it as parquet first"},
	{0, "PARE", "an encrypted parquet file"},
}

// sniff tells the format of an input from its first bytes (decompressed), what
// the user says, and its name, in that order of trust: names lie.
func sniff(head []byte, said Format, name string) (Format, error) {
	for _, f := range foreign {
		if len(head) > f.at && bytes.HasPrefix(head[f.at:], []byte(f.magic)) {
			return Auto, fmt.Errorf("it is %s", f.is)
		}
	}
	isParquet := bytes.HasPrefix(head, []byte(parquetMagic))
	named := byName(name)
	switch {
	case isParquet && said != Auto && said != Parquet:
		return Auto, fmt.Errorf("it is a parquet file, not %s", said)
	case isParquet:
		return Parquet, nil
	case said == Parquet, said == Auto && named == Parquet:
		return Auto, fmt.Errorf("it is no parquet file: it does not start with %s", parquetMagic)
	case said != Auto:
		return said, nil
	case named == CSV && bytes.HasPrefix(bytes.TrimPrefix(head, []byte("\xEF\xBB\xBF")), []byte(`{"`)):
		return NDJSON, nil // no CSV starts like this
	case named == CSV:
		return CSV, nil
	}
	return NDJSON, nil
}

// byName is the format that a file name claims, apart from its compression.
func byName(name string) Format {
	name = strings.ToLower(name)
	if ext := filepath.Ext(name); ext == ".gz" || ext == ".zst" {
		name = strings.TrimSuffix(name, ext)
	}
	switch filepath.Ext(name) {
	case ".csv":
		return CSV
	case ".parquet":
		return Parquet
	}
	return Auto
}
