package block

import (
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
// arrays, maps objects. A *LineError stands for one row (Line is its number);
// any other error is the last.
func ParquetLines(r io.ReaderAt, size int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		p, err := openParquet(r, size)
		if err != nil {
			yield(nil, fmt.Errorf("parquet: %w", err))
			return
		}
		defer p.close()
		for {
			more, err := p.fill()
			if err != nil {
				yield(nil, fmt.Errorf("parquet: after row %d: %w", p.number, err))
				return
			}
			if !more {
				return
			}
			for _, row := range p.batch[:p.n] {
				p.number++
				line, err := p.line(row)
				if err != nil {
					line, err = nil, &LineError{Line: int(p.number), Reason: err.Error()}
				}
				if !yield(line, err) {
					return
				}
			}
		}
	}
}

// parquetFile reads a file a few rows at a time.
type parquetFile struct {
	groups []parquet.RowGroup
	rows   parquet.Rows // of the present group
	batch  [16]parquet.Row
	n      int
	number int64
	root   *parquetNode
	values parquetValues
	out    []byte
}

func openParquet(r io.ReaderAt, size int64) (p *parquetFile, err error) {
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
	return &parquetFile{
		groups: f.RowGroups(), root: root,
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

// fill reads the next rows of the present group, or of the next one.
func (p *parquetFile) fill() (more bool, err error) {
	defer recovered(&err)
	for {
		if p.rows == nil {
			if len(p.groups) == 0 {
				return false, nil
			}
			p.rows = p.groups[0].Rows()
			p.groups = p.groups[1:]
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

func (p *parquetFile) line(row parquet.Row) (line []byte, err error) {
	defer recovered(&err)
	if err := p.values.load(row); err != nil {
		return nil, err
	}
	p.out, err = p.root.appendBody(p.out[:0], &p.values)
	return p.out, err
}

func (p *parquetFile) close() {
	var err error
	defer recovered(&err)
	if p.rows != nil {
		_ = p.rows.Close() // only read
	}
}
