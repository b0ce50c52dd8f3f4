package block

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// ParquetVersion is the version of parquet blocks that this code writes.
const ParquetVersion = 1

// parquetTableKey is the key of the table in the parquet file's metadata, and
// rawColumn the column of whole lines.
const (
	parquetTableKey = "siltstone"
	rawColumn       = "_silt_raw"
)

// maxFrameRows is far past the 50,000 rows of the largest block.
const maxFrameRows = 1 << 20

// Types of columns.
const (
	typeBool   = "bool"
	typeInt64  = "int64"
	typeDouble = "double"
	typeString = "string"
	typeJSON   = "json" // the value as it was written
)

// parquetTable is what the metadata of a parquet block says: how to write its
// lines again, and where its frames are.
type parquetTable struct {
	Version int             `json:"version"`
	Rows    int64           `json:"rows"`
	Columns []parquetColumn `json:"columns"` // in the order of lines
	Frames  []parquetFrame  `json:"frames"`
}

// parquetColumn is a column of a parquet block.
type parquetColumn struct {
	Name  string `json:"name"`
	Key   string `json:"key"` // all from the comma before it to its value
	Type  string `json:"type"`
	Style string `json:"style,omitempty"`
	Null  bool   `json:"null,omitempty"` // null stands for null, else for a name that is not there
	At    int    `json:"at"`             // which column of the file it is

	bounds bool // the bounds of its pages are kept
}

// parquetFrame is written as [offset, length, rows, "first id", CRC-32C]. It is
// a row group, with all that lies between it and the next one.
type parquetFrame struct {
	Frame
	sum uint32
}

// MarshalJSON writes the short form.
func (f parquetFrame) MarshalJSON() ([]byte, error) {
	return plainText([]any{f.Offset, f.Length, f.Rows, f.FirstID, f.sum})
}

// UnmarshalJSON reads the short form.
func (f *parquetFrame) UnmarshalJSON(b []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	if len(parts) < 5 {
		return fmt.Errorf("a frame of %d parts", len(parts))
	}
	for i, to := range []any{&f.Offset, &f.Length, &f.Rows, &f.FirstID, &f.sum} {
		if err := json.Unmarshal(parts[i], to); err != nil {
			return err
		}
	}
	return nil
}

// plainText leaves <, > and & as they are.
func plainText(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// check compares the table with itself and with the size of its file. Frames
// lie one behind the other from the first byte after the magic on.
func (t parquetTable) check(size int64) error {
	if t.Version > ParquetVersion {
		return fmt.Errorf("parquet block has version %d, this build knows %d: use a newer siltstone", t.Version, ParquetVersion)
	}
	end, rows, first := int64(len(parquetMagic)), int64(0), ""
	for i, f := range t.Frames {
		switch {
		case f.Offset != end || f.Length <= 0 || f.Length > size-end:
			return fmt.Errorf("%w: frame %d is at %d+%d, after %d of %d bytes", ErrDamaged, i, f.Offset, f.Length, end, size)
		case f.Rows <= 0 || f.Rows > t.Rows-rows || f.Rows > maxFrameRows:
			return fmt.Errorf("%w: frame %d has %d rows, after %d of %d", ErrDamaged, i, f.Rows, rows, t.Rows)
		case f.FirstID <= first:
			return fmt.Errorf("%w: frame %d starts with %q, the one before with %q", ErrDamaged, i, f.FirstID, first)
		}
		end, rows, first = end+f.Length, rows+f.Rows, f.FirstID
	}
	if rows != t.Rows {
		return fmt.Errorf("%w: %d rows in all frames, %d in the block", ErrDamaged, rows, t.Rows)
	}
	return nil
}
