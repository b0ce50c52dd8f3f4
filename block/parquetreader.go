package block

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"github.com/siltstone-data/siltstone/dataset"
)

// ParquetReader reads the rows of a parquet block in order, frame by frame, each
// with one read. What Reader says of the rows it has given holds here too.
type ParquetReader struct {
	r    io.ReaderAt
	size int64
	want *Want

	p      *Parquet
	footer []byte
	sum    hash.Hash
	frame  int // the next one
	rows   []dataset.Row
	given  int64
	whole  bool // from the first row on
	from   string
	err    error
}

// NewParquetReader reads a parquet block of the given size. Its footer and each
// frame have a checksum; with want, rows, bytes and SHA-256 of the whole are
// checked too. Only an error of r is not ErrDamaged.
func NewParquetReader(r io.ReaderAt, size int64, want *Want) *ParquetReader {
	return &ParquetReader{r: r, size: size, want: want, whole: want != nil}
}

// From lets reading begin with the first row whose id is id or comes after it.
// It must be called before Next; then only what is read is checked.
func (r *ParquetReader) From(id string) { r.from, r.whole = id, false }

// Frames gives the frame table, once Next was called.
func (r *ParquetReader) Frames() []Frame {
	if r.p == nil {
		return nil
	}
	return r.p.Frames()
}

// Next gives the next row, which is valid until the next call. It returns
// io.EOF only after everything has proved right.
func (r *ParquetReader) Next() (dataset.Row, error) {
	if r.err == nil && r.p == nil {
		r.err = r.open()
	}
	for r.err == nil && len(r.rows) == 0 {
		r.err = r.next()
	}
	if r.err != nil {
		return dataset.Row{}, r.err
	}
	row := r.rows[0]
	r.rows = r.rows[1:]
	r.given++
	return row, nil
}

func (r *ParquetReader) open() (err error) {
	if r.want != nil && r.size != r.want.Bytes {
		return fmt.Errorf("%w: it has %d bytes, the commit record says %d", ErrDamaged, r.size, r.want.Bytes)
	}
	if r.footer, err = ReadParquetFooter(r.r, r.size); err != nil {
		return err
	}
	p, err := OpenParquet(r.footer, r.size)
	if err != nil {
		return err
	}
	if r.want != nil && p.Rows() != r.want.Rows {
		return fmt.Errorf("%w: it has %d rows, the commit record says %d", ErrDamaged, p.Rows(), r.want.Rows)
	}
	r.p = p
	if !r.whole {
		for r.frame+1 < len(p.table.Frames) && p.table.Frames[r.frame+1].FirstID <= r.from {
			r.frame++
		}
		r.footer = nil
		return nil
	}
	r.sum = sha256.New()
	head, err := readAt(r.r, 0, int64(len(parquetMagic)))
	if err != nil {
		return err
	}
	r.sum.Write(head)
	return nil
}

func (r *ParquetReader) next() error {
	if r.frame == len(r.p.table.Frames) {
		return r.finish()
	}
	f := r.p.table.Frames[r.frame]
	raw, err := readAt(r.r, f.Offset, f.Length)
	if err != nil {
		return err
	}
	if r.sum != nil {
		r.sum.Write(raw)
	}
	rows, err := r.p.Frame(r.frame, raw)
	if err != nil {
		return err
	}
	if n := r.frame + 1; n < len(r.p.table.Frames) && rows[len(rows)-1].ID >= r.p.table.Frames[n].FirstID {
		return fmt.Errorf("%w: %w: frame %d goes to %q", ErrDamaged, ErrOrder, r.frame, rows[len(rows)-1].ID)
	}
	r.frame++
	for len(rows) > 0 && rows[0].ID < r.from {
		rows = rows[1:]
	}
	r.rows = rows
	return nil
}

// finish compares the whole with the commit record.
func (r *ParquetReader) finish() error {
	if !r.whole {
		return io.EOF
	}
	end := int64(len(parquetMagic))
	if n := len(r.p.table.Frames); n > 0 {
		end = r.p.table.Frames[n-1].Offset + r.p.table.Frames[n-1].Length
	}
	between, err := readAt(r.r, end, r.size-int64(len(r.footer))-end) // the page index
	if err != nil {
		return err
	}
	r.sum.Write(between)
	r.sum.Write(r.footer)
	if sum := hex.EncodeToString(r.sum.Sum(nil)); sum != r.want.SHA256 {
		return fmt.Errorf("%w: its SHA-256 is %s, the commit record says %s", ErrDamaged, sum, r.want.SHA256)
	}
	return io.EOF
}
