package block

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/parquet-go/parquet-go"
)

// ParquetLines gives the rows of a parquet file of any schema as JSON objects,
// one line each, valid until the next. Nothing loses precision: integers and
// decimals are exact, NaN and infinities are the strings "NaN", "Infinity" and
// "-Infinity", timestamps are RFC 3339 (without an offset where the file says
// that they are local), bytes without a text type are base64. Lists become
// arrays, maps objects; docs/formats.md §2 has the whole table. A parquet block
// of siltstone gives its lines as they were written. A *LineError
// stands for one row (Line is its number); any other error is the last.
func ParquetLines(r io.ReaderAt, size int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		p, err := OpenParquetFile(r, size)
		if err != nil {
			yield(nil, err)
			return
		}
		defer p.Close()
		for {
			line, err := p.Next()
			if err == io.EOF {
				return
			}
			var one *LineError
			if !yield(line, err) || err != nil && !errors.As(err, &one) {
				return
			}
		}
	}
}

// Windowed is a reader that is told which bytes are read next. A parquet file is
// read to and fro within one row group, then within the next: a reader for which
// each call is a request can get a row group in one.
type Windowed interface {
	io.ReaderAt
	Window(from, to int64) error
}

// ParquetFile reads the rows of a parquet file of any schema, a few at a time.
type ParquetFile struct {
	own    *ParquetReader // not nil: it is a block of siltstone, and what follows is not used
	src    io.ReaderAt
	file   *parquet.File
	group  int // the next one
	rows   parquet.Rows
	batch  [16]parquet.Row
	n, at  int // rows of the batch, and the next of them
	number int64
	root   *parquetNode
	values parquetValues
	out    []byte
	err    error
}

// OpenParquetFile reads the footer of a file.
func OpenParquetFile(r io.ReaderAt, size int64) (*ParquetFile, error) {
	p, err := openOwn(r, size)
	if p == nil && err == nil {
		p, err = openParquet(r, size)
	}
	if err != nil {
		return nil, fmt.Errorf("parquet: %w", err)
	}
	return p, nil
}

// openOwn opens a block of siltstone, whose lines are more than its columns; it
// gives nil for another file, and for what is damaged past knowing.
func openOwn(r io.ReaderAt, size int64) (*ParquetFile, error) {
	footer, err := ReadParquetFooter(r, size)
	if errors.Is(err, ErrDamaged) {
		return nil, nil
	}
	if err == nil {
		_, err = OpenParquet(footer, size)
	}
	if errors.Is(err, ErrNoBlock) {
		return nil, nil
	}
	p := &ParquetFile{own: NewParquetReader(r, size, nil)}
	if err == nil {
		err = p.own.open()
	}
	return p, err
}

func openParquet(r io.ReaderAt, size int64) (p *ParquetFile, err error) {
	defer recovered(&err)
	f, err := parquet.OpenFile(r, size,
		parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(64<<10))
	if err != nil {
		return nil, err
	}
	root, err := parquetTree(f)
	if err != nil {
		return nil, err
	}
	return &ParquetFile{
		src: r, file: f, root: root,
		values: parquetValues{at: make([]int, root.to), columns: make([][]parquet.Value, root.to)},
	}, nil
}

// recovered turns a panic of the parquet library, which is how it answers some
// damaged files, into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("damaged file: %v", p)
	}
}

// Rows is the number of rows that the footer tells.
func (p *ParquetFile) Rows() int64 {
	if p.own != nil {
		return p.own.p.Rows()
	}
	return p.file.NumRows()
}

// Next gives the next row as the line of a JSON object, valid until the next
// call, and io.EOF after the last. A *LineError stands for one row that is none;
// the line is then what can be told of it all the same, which is no valid JSON
// text where a text is not valid UTF-8. Any other error is the last.
func (p *ParquetFile) Next() ([]byte, error) {
	if p.err != nil {
		return nil, p.err
	}
	if p.own != nil {
		row, err := p.own.Next()
		if err != nil && err != io.EOF {
			err = fmt.Errorf("parquet: after row %d: %w", p.own.given, err)
		}
		p.err = err
		return row.Raw, err
	}
	if p.at == p.n {
		more, err := p.fill()
		if err == nil && !more {
			err = io.EOF
		} else if err != nil {
			err = fmt.Errorf("parquet: after row %d: %w", p.number, err)
		}
		if err != nil {
			p.err = err
			return nil, err
		}
	}
	row := p.batch[p.at]
	p.at++
	p.number++
	line, err := p.line(row)
	if err != nil {
		return line, &LineError{Line: int(p.number), Reason: err.Error()}
	}
	return line, nil
}

// fill reads the next rows of the present group, or of the next one.
func (p *ParquetFile) fill() (more bool, err error) {
	defer recovered(&err)
	p.at, p.n = 0, 0
	for {
		if p.rows == nil {
			groups := p.file.RowGroups()
			if p.group == len(groups) {
				return false, nil
			}
			if err := p.window(p.group); err != nil {
				return false, err
			}
			p.rows = groups[p.group].Rows()
			p.group++
		}
		p.n, err = p.rows.ReadRows(p.batch[:])
		if p.n > 0 && (err == nil || err == io.EOF) {
			return true, nil
		}
		if err == nil {
			err = io.ErrNoProgress
		}
		if err != io.EOF {
			return false, err
		}
		rows := p.rows
		p.rows = nil
		if err := rows.Close(); err != nil {
			return false, err
		}
	}
}

// window tells the reader where a row group lies.
func (p *ParquetFile) window(group int) error {
	w, ok := p.src.(Windowed)
	columns := p.file.Metadata().RowGroups[group].Columns
	if !ok || len(columns) == 0 {
		return nil
	}
	from, to := int64(-1), int64(-1)
	for _, c := range columns {
		m := c.MetaData
		at := m.DataPageOffset
		if d := m.DictionaryPageOffset; d > 0 && d < at {
			at = d
		}
		if from < 0 || at < from {
			from = at
		}
		to = max(to, at+m.TotalCompressedSize)
	}
	if from >= to {
		return nil // no rows
	}
	return w.Window(from, to)
}

func (p *ParquetFile) line(row parquet.Row) (line []byte, err error) {
	defer recovered(&err)
	if err := p.values.load(row); err != nil {
		return nil, err
	}
	p.out, err = p.root.appendRow(p.out[:0], &p.values)
	if err == nil {
		return p.out, nil
	}
	if p.values.load(row) == nil {
		p.values.lenient = true
		raw, failed := p.root.appendRow(p.out[:0], &p.values)
		p.values.lenient = false
		if p.out = raw; failed == nil {
			return raw, err
		}
	}
	return nil, err
}

// Close lets go of what reading holds.
func (p *ParquetFile) Close() {
	var err error
	defer recovered(&err)
	if p.rows != nil {
		_ = p.rows.Close() // only read
		p.rows = nil
	}
}
