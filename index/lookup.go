package index

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"sort"
	"time"

	"github.com/parquet-go/parquet-go"
)

// Place is where a row is.
type Place struct {
	Row   int64 // its number in the block, from 0
	Frame int   // the frame that holds it
}

// Lookup finds a row by its id, with two reads at most: the bloom filter, where
// it was not read with the footer, and one page of ids.
func (x *Index) Lookup(ctx context.Context, id string) (p Place, ok bool, err error) {
	defer recovered(&err)
	if _, ok := x.t.holding(id); !ok || len(x.chunks) == 0 {
		return Place{}, false, nil
	}
	c, at := x.chunks[x.id], x.remote.during(ctx)
	filter, err := c.BloomFilterFrom(at)
	if err != nil {
		return Place{}, false, damaged(err)
	}
	if filter != nil {
		if maybe, err := filter.Check(parquet.ByteArrayValue([]byte(id))); err != nil {
			return Place{}, false, damaged(err)
		} else if !maybe {
			return Place{}, false, nil
		}
	}
	bounds, err := c.ColumnIndexFrom(at)
	if err != nil {
		return Place{}, false, damaged(err)
	}
	pages, err := c.OffsetIndexFrom(at)
	if err != nil {
		return Place{}, false, damaged(err)
	}
	if bounds == nil || pages == nil {
		return Place{}, false, fmt.Errorf("%w: no page index", ErrDamaged)
	}
	n := sort.Search(bounds.NumPages(), func(i int) bool { return string(bounds.MaxValue(i).ByteArray()) >= id })
	if n == bounds.NumPages() || n >= pages.NumPages() {
		return Place{}, false, nil
	}
	first := pages.FirstRowIndex(n)
	if err := x.remote.load(ctx, pages.Offset(n), pages.CompressedPageSize(n)); err != nil {
		return Place{}, false, err
	}
	ids, err := onePage(c, at, first)
	if err != nil {
		return Place{}, false, damaged(err)
	}
	i := sort.Search(len(ids), func(i int) bool { return string(ids[i].ByteArray()) >= id })
	if i == len(ids) || string(ids[i].ByteArray()) != id {
		return Place{}, false, nil
	}
	row := first + int64(i)
	if row >= x.Rows() {
		return Place{}, false, fmt.Errorf("%w: row %d of %d", ErrDamaged, row, x.Rows())
	}
	return Place{Row: row, Frame: x.FrameOf(row)}, true, nil
}

// onePage reads the page of a column that starts with the given row.
func onePage(c *parquet.FileColumnChunk, at io.ReaderAt, row int64) ([]parquet.Value, error) {
	pages := c.PagesFrom(at)
	defer pages.Close()
	if err := pages.SeekToRow(row); err != nil {
		return nil, err
	}
	p, err := pages.ReadPage()
	if err != nil {
		return nil, err
	}
	defer parquet.Release(p)
	values := make([]parquet.Value, p.NumValues())
	n, err := p.Values().ReadValues(values)
	if err != nil && err != io.EOF {
		return nil, err
	}
	values = values[:n]
	for i, v := range values {
		values[i] = v.Clone() // the page's memory goes back to a pool
	}
	return values, nil
}

// Entry is one row of an index.
type Entry struct {
	ID        string
	CreatedAt time.Time // zero: unknown
	Frame     int
}

// Entries gives all rows of the index in id order, with one read per column.
func (x *Index) Entries(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := x.entries(ctx, func(e Entry) bool { return yield(e, nil) }); err != nil {
			yield(Entry{}, err)
		}
	}
}

func (x *Index) entries(ctx context.Context, yield func(Entry) bool) error {
	if len(x.chunks) == 0 {
		return nil
	}
	var readers [3]*columnReader
	for i, col := range []int{x.id, x.created, x.frame} {
		r, err := x.column(ctx, col)
		if err != nil {
			return err
		}
		defer r.close()
		readers[i] = r
	}
	for range x.Rows() {
		var v [3]parquet.Value
		for i, r := range readers {
			var err error
			if v[i], err = r.next(); err != nil {
				return damaged(err)
			}
		}
		e := Entry{ID: string(v[0].ByteArray()), Frame: int(v[2].Int32())}
		if !v[1].IsNull() {
			e.CreatedAt = time.UnixMicro(v[1].Int64()).UTC()
		}
		if !yield(e) {
			return nil
		}
	}
	return nil
}

// column reads a whole column chunk into memory: it is the compressed part of
// a file that Build held in memory too.
func (x *Index) column(ctx context.Context, n int) (_ *columnReader, err error) {
	defer recovered(&err)
	c := x.chunks[n]
	pages, err := c.OffsetIndexFrom(x.remote.during(ctx))
	if err != nil {
		return nil, damaged(err)
	}
	if pages == nil || pages.NumPages() == 0 {
		return nil, fmt.Errorf("%w: no page index", ErrDamaged)
	}
	from, last := pages.Offset(0), pages.NumPages()-1
	to := pages.Offset(last) + pages.CompressedPageSize(last)
	if from < 0 || to > x.remote.size || from > to {
		return nil, fmt.Errorf("%w: pages at %d to %d of %d bytes", ErrDamaged, from, to, x.remote.size)
	}
	raw := x.remote.find(from, to-from)
	if raw == nil {
		if raw, err = x.remote.get(ctx, from, to-from); err != nil {
			return nil, err
		}
	}
	return &columnReader{pages: c.PagesFrom(&shifted{bytes.NewReader(raw), from})}, nil
}

// shifted is a part of a file under the offsets of the whole.
type shifted struct {
	r  *bytes.Reader
	at int64
}

// ReadAt reads at an offset of the whole file.
func (s *shifted) ReadAt(p []byte, at int64) (int, error) { return s.r.ReadAt(p, at-s.at) }

// columnReader gives the values of a column one by one.
type columnReader struct {
	pages  *parquet.FilePages
	page   parquet.Page
	values []parquet.Value
}

func (r *columnReader) next() (parquet.Value, error) {
	for len(r.values) == 0 {
		if err := r.nextPage(); err != nil {
			return parquet.Value{}, err
		}
	}
	v := r.values[0]
	r.values = r.values[1:]
	return v, nil
}

func (r *columnReader) nextPage() (err error) {
	defer recovered(&err)
	r.release()
	p, err := r.pages.ReadPage()
	if err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	r.page = p
	values := make([]parquet.Value, p.NumValues())
	n, err := p.Values().ReadValues(values)
	if err != nil && err != io.EOF {
		return err
	}
	r.values = values[:n]
	return nil
}

func (r *columnReader) release() {
	if r.page != nil {
		parquet.Release(r.page)
		r.page = nil
	}
}

func (r *columnReader) close() {
	r.release()
	r.pages.Close()
}
