package index

import (
	"bytes"
	"fmt"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/siltstone-data/siltstone/dataset"
)

// frameColumn holds the number of the frame that a row is in.
const frameColumn = dataset.ReservedPrefix + "frame"

// pageRows is how many rows one page of every column holds: what a lookup
// reads.
const pageRows = 4096

// schema is the columns of an index. A parquet group orders them by name.
func schema() *parquet.Schema {
	return parquet.NewSchema("index", parquet.Group{
		dataset.IDColumn:        parquet.Encoded(parquet.String(), &parquet.DeltaByteArray),
		dataset.CreatedAtColumn: parquet.Optional(parquet.Encoded(parquet.Timestamp(parquet.Microsecond), &parquet.DeltaBinaryPacked)),
		frameColumn:             parquet.Encoded(parquet.Int(32), &parquet.DeltaBinaryPacked),
	})
}

// columnsOf finds the columns in a schema that may have more.
func columnsOf(s *parquet.Schema) (id, created, frame int, err error) {
	at := func(name string) int {
		leaf, ok := s.Lookup(name)
		if !ok {
			err = fmt.Errorf("%w: no column %s", ErrDamaged, name)
			return -1
		}
		return leaf.ColumnIndex
	}
	id, created, frame = at(dataset.IDColumn), at(dataset.CreatedAtColumn), at(frameColumn)
	return id, created, frame, err
}

// columns writes an index. Values go to the columns directly: writers of whole
// rows cost twice as much, and the one for maps turns 0 into null.
type columns struct {
	out                *bytes.Buffer
	w                  *parquet.GenericWriter[any]
	id, created, frame *parquet.ColumnWriter
	idAt, createdAt    int // positions in the schema
	frameAt            int

	ids, times []parquet.Value // one page
	text       []byte          // what ids point to: the rows' own bytes are used again
	spans      []int           // ends of the ids in text
	rows       int64
}

func newColumns() (*columns, error) {
	s := schema()
	c := &columns{out: new(bytes.Buffer)}
	var err error
	if c.idAt, c.createdAt, c.frameAt, err = columnsOf(s); err != nil {
		return nil, err
	}
	c.w = parquet.NewGenericWriter[any](c.out, s,
		parquet.CreatedBy("siltstone", fmt.Sprint(Version), "index"),
		parquet.Compression(&parquet.Zstd),
		parquet.BloomFilters(parquet.SplitBlockFilter(10, dataset.IDColumn)),
		parquet.SortingWriterConfig(parquet.SortingColumns(parquet.Ascending(dataset.IDColumn))),
		parquet.MaxRowsPerRowGroup(MaxRows+1),
		// A page of the longest ids; pages end where flush says, alike in all columns.
		parquet.PageBufferSize(2*pageRows*dataset.MaxIDBytes),
		// Whole ids as bounds of pages: cut ones would make neighbours overlap.
		parquet.ColumnIndexSizeLimit(func([]string) int { return dataset.MaxIDBytes }),
	)
	writers := c.w.ColumnWriters()
	c.id, c.created, c.frame = writers[c.idAt], writers[c.createdAt], writers[c.frameAt]
	return c, nil
}

// add writes one row; its frame comes at the end, with finish.
func (c *columns) add(id string, created time.Time) error {
	c.text = append(c.text, id...)
	c.spans = append(c.spans, len(c.text))
	at := parquet.NullValue().Level(0, 0, c.createdAt)
	if !created.IsZero() {
		at = parquet.Int64Value(created.UnixMicro()).Level(0, 1, c.createdAt)
	}
	c.times = append(c.times, at)
	c.rows++
	if len(c.spans) == pageRows {
		return c.flush()
	}
	return nil
}

func (c *columns) flush() error {
	from := 0
	for _, to := range c.spans { // only now: text does not move any more
		c.ids = append(c.ids, parquet.ByteArrayValue(c.text[from:to:to]).Level(0, 0, c.idAt))
		from = to
	}
	if err := page(c.id, c.ids); err != nil {
		return err
	}
	if err := page(c.created, c.times); err != nil {
		return err
	}
	c.ids, c.times, c.text, c.spans = c.ids[:0], c.times[:0], c.text[:0], c.spans[:0]
	return nil
}

func page(w *parquet.ColumnWriter, values []parquet.Value) error {
	if len(values) == 0 {
		return nil
	}
	if _, err := w.WriteRowValues(values); err != nil {
		return err
	}
	return w.Flush()
}

// finish writes the frame column and the metadata and gives the file.
func (c *columns) finish(t table) ([]byte, error) {
	if err := c.flush(); err != nil {
		return nil, err
	}
	values := make([]parquet.Value, 0, pageRows)
	for n, f := range t.Frames {
		for range f.Rows {
			if len(values) == pageRows {
				if err := page(c.frame, values); err != nil {
					return nil, err
				}
				values = values[:0]
			}
			values = append(values, parquet.Int32Value(int32(n)).Level(0, 0, c.frameAt))
		}
	}
	if err := page(c.frame, values); err != nil {
		return nil, err
	}
	text, err := t.encode()
	if err != nil {
		return nil, err
	}
	c.w.SetKeyValueMetadata(tableKey, text)
	if err := c.w.Close(); err != nil {
		return nil, err
	}
	return c.out.Bytes(), nil
}
