package block

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/siltstone-data/siltstone/dataset"
)

const (
	idColumn      = dataset.IDColumn
	createdColumn = dataset.CreatedAtColumn

	parquetMagic = "PAR1"
	// footerMark comes before the CRC-32C of the footer, both before the footer.
	footerMark = "SILT"

	// parquetFrameBytes of raw rows close a row group, and so many more for each
	// column: each costs a piece of the footer in each row group.
	parquetFrameBytes  = 1 << 20
	parquetColumnBytes = 16 << 10
	// parquetPageBytes close a page of a column.
	parquetPageBytes = 256 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ParquetWriter writes a parquet block. The same rows give the same bytes. It
// holds the rows, on disk when they are many, until Close: only all of them
// tell the columns.
type ParquetWriter struct {
	out    *markedSink
	spool  rowSpool
	survey *survey
	info   Info
	err    error

	w       *parquet.GenericWriter[any]
	columns []*parquet.ColumnWriter
	at      map[string]int // into rows.columns
	rows    parquetRows    // of the open frame; the last column is that of lines
	from    string         // first id of the open frame
	raw     int64          // its bytes
	count   int            // its rows
	members []memberAt
	arena   []byte
	line    []byte
	name    []byte
	frames  []parquetFrame
}

// NewParquetWriter writes a parquet block to w, with a spill file in dir.
func NewParquetWriter(w io.Writer, dir string) *ParquetWriter {
	return &ParquetWriter{
		out:   &markedSink{sink: sink{w: w, sum: sha256.New()}},
		spool: rowSpool{dir: dir}, survey: newSurvey(),
	}
}

var errNoID = errors.New("it has no id")

// Add takes a row. Ids must ascend strictly. It keeps nothing of r.
func (w *ParquetWriter) Add(r dataset.Row) error {
	if w.err != nil {
		return w.err
	}
	if err := checkNext(r, w.info); err != nil {
		return err
	}
	if err := w.survey.add(r.Raw); err != nil {
		return fmt.Errorf("write block: row %q: %w", r.ID, err)
	}
	if w.info.Rows == 0 {
		w.info.FirstID = r.ID
	}
	w.info.LastID = r.ID
	w.info.Rows++
	w.info.RawBytes += int64(len(r.Raw)) + 1
	w.err = w.spool.add(r)
	return w.err
}

// checkNext refuses a row that cannot follow in a block.
func checkNext(r dataset.Row, info Info) error {
	switch {
	case r.ID == "":
		return errors.New("write block: a row without an id")
	case len(r.Raw) > dataset.MaxLineBytes:
		return fmt.Errorf("write block: row %q is longer than %d MiB", r.ID, dataset.MaxLineBytes>>20)
	case len(r.Raw) == 0 || bytes.IndexByte(r.Raw, '\n') >= 0:
		return fmt.Errorf("write block: row %q is not one line", r.ID)
	case info.Rows > 0 && r.ID <= info.LastID:
		return fmt.Errorf("write block: %w: %q after %q", ErrOrder, r.ID, info.LastID)
	}
	return nil
}

// Discard lets go of the rows of a block that is given up.
func (w *ParquetWriter) Discard() {
	w.spool.close()
	if w.err == nil {
		w.err = errClosed
	}
}

// Close writes the block and says what it holds. Frames are its row groups. It
// does not close the underlying writer.
func (w *ParquetWriter) Close() (Info, error) {
	defer w.spool.close()
	if w.err != nil {
		return Info{}, w.err
	}
	w.err = errClosed
	if err := w.write(); err != nil {
		return Info{}, fmt.Errorf("write block: %w", err)
	}
	w.info.Bytes = w.out.n
	w.info.SHA256 = hex.EncodeToString(w.out.sum.Sum(nil))
	for _, f := range w.frames {
		w.info.Frames = append(w.info.Frames, f.Frame)
	}
	return w.info, nil
}

func (w *ParquetWriter) write() (err error) {
	defer recovered(&err)
	w.open()
	most := int64(parquetFrameBytes + parquetColumnBytes*len(w.rows.columns))
	err = w.spool.each(func(id string, raw []byte) error {
		if w.count == 0 {
			w.from = id
		}
		if err := w.row(id, raw); err != nil {
			return fmt.Errorf("row %q: %w", id, err)
		}
		if w.raw >= most {
			return w.flush()
		}
		return nil
	})
	if err == nil {
		err = w.flush()
	}
	if err != nil {
		return err
	}
	table, err := plainText(parquetTable{
		Version: ParquetVersion, Rows: w.info.Rows, Columns: w.rows.columns, Frames: append([]parquetFrame{}, w.frames...),
	})
	if err != nil {
		return err
	}
	w.w.SetKeyValueMetadata(parquetTableKey, string(table))
	w.out.hold()
	if err := w.w.Close(); err != nil {
		return err
	}
	return w.out.finish()
}

// open sets the file up, now that the columns are known.
func (w *ParquetWriter) open() {
	columns := w.survey.columns()
	if len(columns) == 0 { // no rows
		columns = []parquetColumn{{Name: idColumn, Key: `"id":`, Type: typeString, Style: stylePlain, bounds: true}}
	}
	w.survey = nil
	s := parquetSchema(columns)
	w.rows.columns = columns
	w.rows.values = make([][]parquet.Value, len(columns)+1)
	w.at = make(map[string]int, len(columns))
	options := []parquet.WriterOption{s,
		parquet.CreatedBy("siltstone", fmt.Sprint(ParquetVersion), "block"),
		parquet.Compression(&parquet.Zstd),
		parquet.BloomFilters(parquet.SplitBlockFilter(10, idColumn)),
		parquet.SortingWriterConfig(parquet.SortingColumns(parquet.Ascending(idColumn))),
		parquet.MaxRowsPerRowGroup(1 << 40), // frames end where flush says
		parquet.WriteBufferSize(0),          // and must be out when it has returned
		parquet.PageBufferSize(4 << 20),     // pages end where page says, or where one value is larger
		parquet.SkipPageBounds(rawColumn),   // bounds of long texts would fill the footer
		parquet.ColumnIndexSizeLimit(func([]string) int { return dataset.MaxIDBytes }),
	}
	for i, c := range columns {
		w.at[c.Name] = i
		if !c.bounds {
			options = append(options, parquet.SkipPageBounds(c.Name))
		}
	}
	w.w = parquet.NewGenericWriter[any](w.out, options...)
	w.columns = w.w.ColumnWriters()
}

// row puts a row into the open frame: its columns, and the line itself where
// they would not give it back byte for byte.
func (w *ParquetWriter) row(id string, raw []byte) (err error) {
	n := w.count
	for i := range w.rows.values {
		w.rows.values[i] = append(w.rows.values[i], parquet.NullValue())
	}
	if w.members, err = appendMembers(w.members[:0], raw); err != nil {
		return err
	}
	for _, m := range w.members {
		var ok bool
		if w.name, ok = memberName(w.name[:0], raw, m); !ok {
			continue
		}
		if i, ok := w.at[string(w.name)]; ok {
			c := &w.rows.columns[i]
			w.rows.values[c.At][n] = c.cell(raw[m.value:m.end], &w.arena)
		}
	}
	w.rows.values[0][n] = parquet.ByteArrayValue([]byte(id))
	if w.line, err = w.rows.appendLine(w.line[:0], n); err != nil {
		return err
	}
	if !bytes.Equal(w.line, raw) {
		w.rows.values[len(w.columns)-1][n] = parquet.ByteArrayValue(raw)
	}
	w.count++
	w.raw += int64(len(raw)) + 1
	return nil
}

// flush writes the open frame.
func (w *ParquetWriter) flush() error {
	if w.count == 0 {
		return nil
	}
	frame := parquetFrame{Frame: Frame{Offset: max(w.out.n, int64(len(parquetMagic))), Rows: int64(w.count), FirstID: w.from}}
	w.out.part = 0
	for i, c := range w.columns {
		if err := writePages(c, w.rows.values[i], i, i == 0); err != nil {
			return err
		}
		w.rows.values[i] = w.rows.values[i][:0]
	}
	if err := w.w.Flush(); err != nil {
		return err
	}
	frame.Length = w.out.n - frame.Offset
	frame.sum = w.out.part
	w.frames = append(w.frames, frame)
	w.count, w.raw, w.arena = 0, 0, nil
	if cap(w.line) > 4<<20 {
		w.line = nil
	}
	return nil
}

// markedSink is a sink that sums up the bytes of a frame, and puts a checksum
// before the footer.
type markedSink struct {
	sink
	part uint32 // of the frame at hand
	held bool
	tail bytes.Buffer
}

// Write passes bytes on, but for those that are held.
func (s *markedSink) Write(p []byte) (int, error) {
	if s.held {
		return s.tail.Write(p)
	}
	if skip := int64(len(parquetMagic)) - s.n; skip > 0 { // the magic is in no frame
		s.part = crc32.Update(s.part, castagnoli, p[min(skip, int64(len(p))):])
	} else {
		s.part = crc32.Update(s.part, castagnoli, p)
	}
	return s.sink.Write(p)
}

// hold keeps what is written from now on: the page index and the footer.
func (s *markedSink) hold() { s.held = true }

// finish writes what was held, with the mark before the footer. No offset in a
// parquet file points past that place.
func (s *markedSink) finish() error {
	s.held = false
	tail := s.tail.Bytes()
	ends := len(tail) - 8
	if ends < 0 {
		return errors.New("the parquet footer is missing")
	}
	starts := ends - int(binary.LittleEndian.Uint32(tail[ends:]))
	if starts < 0 {
		return errors.New("the parquet footer is cut")
	}
	mark := binary.LittleEndian.AppendUint32([]byte(footerMark), crc32.Checksum(tail[starts:ends], castagnoli))
	for _, part := range [][]byte{tail[:starts], mark, tail[starts:]} {
		if _, err := s.sink.Write(part); err != nil {
			return err
		}
	}
	return nil
}
