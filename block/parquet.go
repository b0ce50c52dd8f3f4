package block

import (
	"errors"
	"io"
	"iter"
)

var errNoParquet = errors.New("parquet is not supported")

// ParquetLines gives the rows of a parquet file as JSON objects.
func ParquetLines(r io.ReaderAt, size int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) { yield(nil, errNoParquet) }
}
