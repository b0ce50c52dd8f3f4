package block

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/parquet-go/parquet-go"
)

const (
	// footerRead is read from the end of a file at first; it holds the footer of
	// most blocks.
	footerRead = 64 << 10
	// maxFooter is far past the footer of the largest block.
	maxFooter = 256 << 20
	markBytes = len(footerMark) + 4
	tailBytes = 8 // the footer's length and the magic
)

// ErrNoBlock reports a parquet file that is no block of siltstone.
var ErrNoBlock = errors.New("it is no parquet block of siltstone")

// ReadParquetFooter reads the footer of a parquet block, with one or two reads:
// all that OpenParquet needs.
func ReadParquetFooter(r io.ReaderAt, size int64) ([]byte, error) {
	n := min(size, footerRead)
	footer, err := readAt(r, size-n, n)
	if err != nil {
		return nil, err
	}
	want, err := footerBytes(footer, size)
	if err != nil {
		return nil, err
	}
	if want > n {
		rest, err := readAt(r, size-want, want-n)
		if err != nil {
			return nil, err
		}
		footer = append(rest, footer...)
	}
	return footer[int64(len(footer))-want:], nil
}

// footerBytes is the length of the footer, all that belongs to it included.
func footerBytes(end []byte, size int64) (int64, error) {
	if len(end) < tailBytes || string(end[len(end)-4:]) != parquetMagic {
		return 0, fmt.Errorf("%w: it does not end as a parquet file does", ErrDamaged)
	}
	want := int64(binary.LittleEndian.Uint32(end[len(end)-tailBytes:])) + int64(tailBytes+markBytes)
	if want > size-int64(len(parquetMagic)) || want > maxFooter {
		return 0, fmt.Errorf("%w: a footer of %d bytes in a file of %d", ErrDamaged, want, size)
	}
	return want, nil
}

func readAt(r io.ReaderAt, at, n int64) ([]byte, error) {
	b := make([]byte, n)
	read, err := r.ReadAt(b, at)
	switch {
	case int64(read) == n:
		return b, nil
	case err == nil || errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: bytes %d to %d are not there: %w", ErrDamaged, at, at+n, cmp.Or(err, io.EOF))
	}
	return nil, fmt.Errorf("read block: %w", err)
}

// Parquet is what the footer of a parquet block says. All methods may be called
// from many goroutines.
type Parquet struct {
	table  parquetTable
	groups [][]*parquet.FileColumnChunk
	raw    []int64 // about the bytes of each group's lines
	size   int64
	footer int64 // bytes of it
}

// OpenParquet reads the footer that ReadParquetFooter gave, of a file of that
// size. ErrNoBlock is an ErrDamaged: a file of another tool, or one whose footer
// is not what was written.
func OpenParquet(footer []byte, size int64) (p *Parquet, err error) {
	defer recoveredBlock(&err)
	want, err := footerBytes(footer, size)
	if err != nil {
		return nil, err
	}
	if want != int64(len(footer)) || string(footer[:len(footerMark)]) != footerMark {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, ErrNoBlock)
	}
	if sum := binary.LittleEndian.Uint32(footer[len(footerMark):]); sum != crc32.Checksum(footer[markBytes:len(footer)-tailBytes], castagnoli) {
		return nil, fmt.Errorf("%w: the footer's checksum is wrong", ErrDamaged)
	}
	f, err := parquet.OpenFile(&part{footer, size - want}, size,
		parquet.SkipMagicBytes(true), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	p = &Parquet{size: size, footer: want}
	text, ok := f.Lookup(parquetTableKey)
	if !ok {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, ErrNoBlock)
	}
	if err := json.Unmarshal([]byte(text), &p.table); err != nil {
		return nil, fmt.Errorf("%w: the table of frames: %w", ErrDamaged, err)
	}
	if err := p.table.check(size - want); err != nil {
		return nil, err
	}
	if err := sameSchema(p.table.Columns, f.Schema()); err != nil {
		return nil, err
	}
	return p, p.open(f)
}

// open takes the row groups, which must be the frames of the table.
func (p *Parquet) open(f *parquet.File) error {
	groups := f.RowGroups()
	if len(groups) != len(p.table.Frames) {
		return fmt.Errorf("%w: %d row groups, and %d frames", ErrDamaged, len(groups), len(p.table.Frames))
	}
	for i, g := range groups {
		if g.NumRows() != p.table.Frames[i].Rows {
			return fmt.Errorf("%w: row group %d has %d rows, its frame %d", ErrDamaged, i, g.NumRows(), p.table.Frames[i].Rows)
		}
		var chunks []*parquet.FileColumnChunk
		for _, c := range g.ColumnChunks() {
			chunk, ok := c.(*parquet.FileColumnChunk)
			if !ok {
				return fmt.Errorf("%w: row group %d has a column that is not in the file", ErrDamaged, i)
			}
			chunks = append(chunks, chunk)
		}
		if len(chunks) != len(p.table.Columns)+1 {
			return fmt.Errorf("%w: row group %d has %d columns", ErrDamaged, i, len(chunks))
		}
		p.groups = append(p.groups, chunks)
		p.raw = append(p.raw, min(max(f.Metadata().RowGroups[i].TotalByteSize, 0), p.size<<6))
	}
	for i, f := range p.table.Frames {
		for _, c := range p.table.Columns {
			p.raw[i] += f.Rows * int64(len(c.Key)+4)
		}
	}
	return nil
}

// Rows is the number of rows in the block.
func (p *Parquet) Rows() int64 { return p.table.Rows }

// Frames says where the row groups are.
func (p *Parquet) Frames() []Frame {
	frames := make([]Frame, len(p.table.Frames))
	for i, f := range p.table.Frames {
		frames[i] = f.Frame
	}
	return frames
}

// Weight is about what p takes in memory.
func (p *Parquet) Weight() int64 {
	return 4096 + 4*p.footer + int64(len(p.groups))*int64(len(p.table.Columns)+1)*512
}

// part is a part of a file under the offsets of the whole.
type part struct {
	b  []byte
	at int64
}

// ReadAt reads at an offset of the whole file.
func (p *part) ReadAt(b []byte, at int64) (int, error) {
	from := at - p.at
	if from < 0 || from >= int64(len(p.b)) {
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(b, p.b[from:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// recoveredBlock turns a panic of the parquet library, which is how it answers
// some damaged files, into ErrDamaged.
func recoveredBlock(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v", ErrDamaged, p)
	}
}
