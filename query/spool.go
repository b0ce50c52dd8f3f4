package query

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/siltstone-data/siltstone/dataset"
)

// spool keeps rows in a file until the columns of all are known.
type spool struct {
	columnSet
	file  *os.File
	w     *bufio.Writer
	stays bool // the file has a name still
}

func newSpool(dir string) (*spool, error) {
	f, err := os.CreateTemp(dir, "csv-*.ndjson")
	if err != nil {
		return nil, fmt.Errorf("keep rows for CSV: %w", err)
	}
	// Where a file can go while it is open, a killed process leaves nothing.
	stays := os.Remove(f.Name()) != nil
	return &spool{columnSet: columnSet{known: map[string]bool{}}, file: f, w: bufio.NewWriterSize(f, 256<<10), stays: stays}, nil
}

func (s *spool) add(r Row) error {
	if err := s.columnSet.add(r.Row); err != nil {
		return err
	}
	_, err := s.w.Write(r.Raw)
	if err == nil {
		err = s.w.WriteByte('\n')
	}
	if err != nil {
		return fmt.Errorf("keep rows for CSV: %w", err)
	}
	return nil
}

// rows gives back what was added, without the batch: nobody named a column.
func (s *spool) rows() iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		err := s.w.Flush()
		if err == nil {
			_, err = s.file.Seek(0, io.SeekStart)
		}
		in := bufio.NewReaderSize(s.file, 256<<10)
		for err == nil {
			var line []byte
			if line, err = in.ReadBytes('\n'); err == nil && !yield(Row{Row: dataset.Row{Raw: line}}, nil) {
				return
			}
		}
		if err != io.EOF {
			yield(Row{}, fmt.Errorf("read rows kept for CSV: %w", err))
		}
	}
}

func (s *spool) close() {
	s.file.Close()
	if s.stays {
		_ = os.Remove(s.file.Name())
	}
}
