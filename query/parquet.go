package query

import (
	"context"
	"fmt"
	"io"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// parquet gives the footer of a parquet block, which says where its frames are
// and how they are read.
func (q *ask) parquet(ctx context.Context, b blockOf) (*block.Parquet, error) {
	return q.e.footers.Get(ctx, b.part("footer"), func() (*block.Parquet, int64, error) {
		raw, err := q.e.kept(ctx, b.part("footer"), func() ([]byte, error) {
			at := objstore.NewAt(ctx, q.store, b.key(), b.Bytes, false)
			return block.ReadParquetFooter(at, b.Bytes)
		})
		if err != nil {
			return nil, 0, err
		}
		p, err := block.OpenParquet(raw, b.Bytes)
		if err == nil {
			err = checkFrames(b.Block, p.Frames())
		}
		if err != nil {
			if q.e.disk != nil {
				q.e.disk.Drop(b.part("footer"))
			}
			return nil, 0, err
		}
		return p, p.Weight(), nil
	})
}

// openRows gives the rows of the n-th frame of a block, whose bytes are in body.
func (q *ask) openRows(ctx context.Context, b blockOf, n int, body io.Reader) (block.Stream[dataset.Row], error) {
	if !dataset.IsParquetBlock(b.File) {
		return block.NewReader(body, nil), nil
	}
	p, err := q.parquet(ctx, b)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("read frame %d: %w", n, err)
	}
	rows, err := p.Frame(n, raw)
	return &rowList{rows}, err
}

// rowList is rows that are in memory.
type rowList struct{ rows []dataset.Row }

// Next gives the next row.
func (l *rowList) Next() (dataset.Row, error) {
	if len(l.rows) == 0 {
		return dataset.Row{}, io.EOF
	}
	row := l.rows[0]
	l.rows = l.rows[1:]
	return row, nil
}
