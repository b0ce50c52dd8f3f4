package block

import (
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/siltstone-data/siltstone/dataset"
)

// Frame gives the rows of the n-th frame from its bytes, which are checked
// first: a checksum of the whole frame is kept beside its place.
func (p *Parquet) Frame(n int, raw []byte) (rows []dataset.Row, err error) {
	if n < 0 || n >= len(p.table.Frames) {
		return nil, fmt.Errorf("frame %d of %d", n, len(p.table.Frames))
	}
	f := p.table.Frames[n]
	if int64(len(raw)) != f.Length {
		return nil, fmt.Errorf("%w: frame %d: %w", ErrDamaged, n, io.ErrUnexpectedEOF)
	}
	if sum := crc32.Checksum(raw, castagnoli); sum != f.sum {
		return nil, fmt.Errorf("%w: frame %d: its CRC-32C is %08x, the footer says %08x", ErrDamaged, n, sum, f.sum)
	}
	defer recoveredBlock(&err)
	in := frameReader{p: p, n: n, at: &part{raw, f.Offset}}
	defer in.release()
	if err := in.read(); err != nil {
		return nil, fmt.Errorf("%w: frame %d: %w", ErrDamaged, n, err)
	}
	if rows, err = in.lines(); err != nil {
		return nil, fmt.Errorf("%w: frame %d: %w", ErrDamaged, n, err)
	}
	return rows, nil
}

// frameReader decodes one frame.
type frameReader struct {
	p      *Parquet
	n      int
	at     io.ReaderAt
	rows   parquetRows
	pages  []parquet.Page // what values point into
	opened []*parquet.FilePages
}

func (r *frameReader) release() {
	for _, p := range r.pages {
		parquet.Release(p)
	}
	for _, p := range r.opened {
		_ = p.Close() // only read
	}
}

// read takes the values of all columns.
func (r *frameReader) read() error {
	r.rows.columns = r.p.table.Columns
	r.rows.values = make([][]parquet.Value, len(r.p.groups[r.n]))
	count := int(r.p.table.Frames[r.n].Rows)
	all := make([]parquet.Value, count*len(r.rows.values))
	for i, chunk := range r.p.groups[r.n] {
		values := all[i*count : (i+1)*count : (i+1)*count]
		if err := r.column(chunk, values); err != nil {
			return fmt.Errorf("column %d: %w", i, err)
		}
		r.rows.values[i] = values
	}
	return nil
}

func (r *frameReader) column(chunk *parquet.FileColumnChunk, values []parquet.Value) error {
	pages := chunk.PagesFrom(r.at)
	r.opened = append(r.opened, pages)
	have := 0
	for {
		page, err := pages.ReadPage()
		if err == io.EOF {
			if have != len(values) {
				return fmt.Errorf("it has %d values, not %d", have, len(values))
			}
			return nil
		}
		if err != nil {
			return err
		}
		r.pages = append(r.pages, page)
		n := page.NumValues()
		if n > int64(len(values)-have) {
			return fmt.Errorf("it has more than %d values", len(values))
		}
		read, err := page.Values().ReadValues(values[have : have+int(n)])
		if err != nil && err != io.EOF {
			return err
		}
		if have += read; int64(read) != n {
			return fmt.Errorf("a page has %d values, not %d", read, n)
		}
	}
}

// lines writes the lines of all rows.
func (r *frameReader) lines() ([]dataset.Row, error) {
	f := r.p.table.Frames[r.n]
	created := -1
	for i, c := range r.rows.columns {
		if c.Name == createdColumn {
			created = i
		}
	}
	lines := r.rows.values[len(r.rows.values)-1]
	rows := make([]dataset.Row, f.Rows)
	ends := make([]int, f.Rows)
	text := make([]byte, 0, r.p.raw[r.n])
	last := ""
	for i := range rows {
		id := string(r.rows.values[0][i].ByteArray())
		if id <= last || i == 0 && id != f.FirstID {
			return nil, fmt.Errorf("%w: %q after %q", ErrOrder, id, last)
		}
		rows[i].ID, last = id, id
		from := len(text)
		var err error
		if v := lines[i]; !v.IsNull() {
			text = append(text, v.ByteArray()...)
			kept, err := dataset.ParseRow(text[from:])
			if err != nil {
				return nil, fmt.Errorf("row %q: %w", id, err)
			}
			rows[i].CreatedAt = kept.CreatedAt
		} else {
			if text, err = r.rows.appendLine(text, i); err != nil {
				return nil, fmt.Errorf("row %q: %w", id, err)
			}
			if created >= 0 {
				if rows[i].CreatedAt, err = r.created(&r.rows.columns[created], i); err != nil {
					return nil, fmt.Errorf("row %q: %w", id, err)
				}
			}
		}
		ends[i] = len(text)
	}
	from := 0
	for i, to := range ends {
		rows[i].Raw = text[from:to:to]
		from = to
	}
	return rows, nil
}

// created is when a row was made, as its column says.
func (r *frameReader) created(c *parquetColumn, row int) (t time.Time, err error) {
	v := r.rows.values[c.At][row]
	if v.IsNull() {
		return t, nil
	}
	var buf [64]byte
	lit, err := c.appendCell(buf[:0], v)
	t, _ = dataset.ParseTime(lit)
	return t, err
}
