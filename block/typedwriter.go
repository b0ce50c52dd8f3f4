package block

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/siltstone-data/siltstone/dataset"
)

// restColumn holds what has no column of its own, as a JSON object.
const restColumn = dataset.ReservedPrefix + "rest"

// A row group of a typed file is closed by so many bytes of rows or so many
// cells: both are in memory until then.
const (
	typedGroupBytes = 32 << 20
	typedGroupCells = 2 << 20
)

// TypedWriter writes rows as a parquet file for other tools: a column for each
// name, of the type that all its values have. Unlike a block it may hold rows in
// any order, and does not give their lines back: the order of members, how a
// number or a string was written, and the difference between null and no value
// are lost, and no value is changed.
//
// It holds the rows, on disk when they are many, until Close: only all of them
// tell the columns and their types. The same rows give the same bytes.
type TypedWriter struct {
	w     io.Writer
	spool rowSpool
	at    map[string]*typedFacts
	order []*typedFacts
	rest  bool // a member has no column
	err   error

	out     *parquet.GenericWriter[any]
	columns []*parquet.ColumnWriter
	values  [][]parquet.Value // of the open row group
	count   int               // its rows
	raw     int               // its bytes
	arena   []byte
	extra   []byte // members without a column, of the row at hand
	members []memberAt
	name    []byte
}

// NewTypedWriter writes to w, with a spill file in dir. The columns named come
// first, in that order, whether rows have them or not.
func NewTypedWriter(w io.Writer, dir string, columns ...string) *TypedWriter {
	t := &TypedWriter{w: w, spool: rowSpool{dir: dir}, at: map[string]*typedFacts{}}
	for _, name := range append([]string{idColumn, createdColumn}, columns...) {
		if t.at[name] == nil && isTypedName([]byte(name)) {
			t.order = append(t.order, &typedFacts{name: name, asked: true})
			t.at[name] = t.order[len(t.order)-1]
		}
	}
	return t
}

// isTypedName refuses what engines cannot take as the name of a column.
func isTypedName(name []byte) bool {
	return string(name) == idColumn || string(name) == createdColumn || isColumnName(name)
}

// Add takes a row. It keeps nothing of r.
func (t *TypedWriter) Add(r dataset.Row) error {
	if t.err != nil {
		return t.err
	}
	if t.members, t.err = appendMembers(t.members[:0], r.Raw); t.err != nil {
		return t.fail(r, t.err)
	}
	var before *typedFacts
	for _, m := range t.members {
		f := t.column(r.Raw, m, before)
		if f == nil {
			t.rest = true
			continue
		}
		before = f
		f.add(r.Raw[m.value:m.end])
	}
	if r.ID == "" {
		return t.fail(r, errNoID)
	}
	t.err = t.spool.add(r)
	return t.err
}

func (t *TypedWriter) fail(r dataset.Row, err error) error {
	t.err = fmt.Errorf("write parquet: row %q: %w", r.ID, err)
	return t.err
}

// column finds the column of a member, or puts a new one behind the one that
// comes before it in this row; nil: it gets none.
func (t *TypedWriter) column(line []byte, m memberAt, before *typedFacts) *typedFacts {
	var ok bool
	if t.name, ok = memberName(t.name[:0], line, m); !ok {
		return nil
	}
	if f := t.at[string(t.name)]; f != nil {
		return f
	}
	if len(t.at) >= maxSurveyed || !isTypedName(t.name) {
		return nil
	}
	f := &typedFacts{name: string(t.name)}
	t.at[f.name] = f
	at := len(t.order)
	if before != nil && !before.asked {
		at = slices.Index(t.order, before) + 1
	}
	t.order = slices.Insert(t.order, at, f)
	return f
}

// Discard lets go of the rows of a file that is given up.
func (t *TypedWriter) Discard() {
	t.spool.close()
	if t.err == nil {
		t.err = errClosed
	}
}

// Close writes the file and gives its columns. It does not close the underlying
// writer.
func (t *TypedWriter) Close() ([]TypedColumn, error) {
	defer t.spool.close()
	if t.err != nil {
		return nil, t.err
	}
	t.err = errClosed
	if err := t.write(); err != nil {
		return nil, fmt.Errorf("write parquet: %w", err)
	}
	var out []TypedColumn
	for _, f := range t.order {
		out = append(out, TypedColumn{f.name, f.typ})
	}
	return out, nil
}

func (t *TypedWriter) write() (err error) {
	defer recovered(&err)
	t.pick()
	t.open()
	err = t.spool.each(func(id string, raw []byte) error {
		if err := t.row(id, raw); err != nil {
			return fmt.Errorf("row %q: %w", id, err)
		}
		if t.raw >= typedGroupBytes || t.count*len(t.order) >= typedGroupCells {
			return t.flush()
		}
		return nil
	})
	if err == nil {
		err = t.flush()
	}
	if err != nil {
		return err
	}
	return t.out.Close()
}

// pick decides which names get a column: of too many those that were asked for,
// and those that most rows have.
func (t *TypedWriter) pick() {
	if len(t.order) > maxParquetColumns {
		ranked := slices.Clone(t.order)
		slices.SortStableFunc(ranked, func(a, b *typedFacts) int {
			if a.asked != b.asked {
				return map[bool]int{true: -1, false: 1}[a.asked]
			}
			return cmp.Compare(b.present, a.present)
		})
		for _, f := range ranked[maxParquetColumns:] {
			delete(t.at, f.name)
		}
		t.order = slices.DeleteFunc(t.order, func(f *typedFacts) bool { return t.at[f.name] == nil })
		t.rest = true
	}
	for i, f := range t.order {
		f.at = i
		f.decide()
	}
	if t.rest {
		t.order = append(t.order, &typedFacts{name: restColumn, at: len(t.order), typ: typeText})
	}
}

func (t *TypedWriter) open() {
	group := parquet.Group{}
	names := make([]string, len(t.order))
	options := []parquet.WriterOption{
		parquet.CreatedBy("siltstone", "1", "export"),
		parquet.Compression(&parquet.Zstd),
		parquet.MaxRowsPerRowGroup(1 << 40), // groups end where flush says
		parquet.WriteBufferSize(0),
		parquet.PageBufferSize(4 << 20), // pages end where writePages says, or where one value is larger
		parquet.ColumnIndexSizeLimit(func([]string) int { return dataset.MaxIDBytes }),
	}
	for i, f := range t.order {
		group[f.name], names[i] = f.node(), f.name
		if !f.bounds() {
			options = append(options, parquet.SkipPageBounds(f.name))
		}
	}
	options = append(options, parquet.NewSchema("rows", orderedGroup{group, names}))
	t.out = parquet.NewGenericWriter[any](t.w, options...)
	t.columns = t.out.ColumnWriters()
	t.values = make([][]parquet.Value, len(t.order))
}

// row puts a row into the open row group.
func (t *TypedWriter) row(id string, raw []byte) (err error) {
	n := t.count
	for i := range t.values {
		t.values[i] = append(t.values[i], parquet.NullValue())
	}
	if t.members, err = appendMembers(t.members[:0], raw); err != nil {
		return err
	}
	t.extra = t.extra[:0]
	for _, m := range t.members {
		var f *typedFacts
		var ok bool
		if t.name, ok = memberName(t.name[:0], raw, m); ok {
			f = t.at[string(t.name)]
		}
		if f != nil {
			t.values[f.at][n] = f.cell(raw[m.value:m.end], &t.arena)
			continue
		}
		t.extra = append(append(append(t.extra, ','), raw[m.name:m.colon]...), ':')
		t.extra = append(t.extra, raw[m.value:m.end]...)
	}
	if len(t.extra) > 0 {
		t.extra[0] = '{'
		t.values[len(t.values)-1][n] = parquet.ByteArrayValue(append(bytes.Clone(t.extra), '}'))
	}
	t.values[0][n] = parquet.ByteArrayValue([]byte(id))
	t.count++
	t.raw += len(raw)
	return nil
}

// flush writes the open row group.
func (t *TypedWriter) flush() error {
	if t.count == 0 {
		return nil
	}
	for i, c := range t.columns {
		if err := writePages(c, t.values[i], i, i == 0); err != nil {
			return err
		}
		t.values[i] = t.values[i][:0]
	}
	t.count, t.raw, t.arena = 0, 0, nil
	return t.out.Flush()
}

// writePages writes the values of a column, as many in a page as parquetPageBytes
// hold, so that no page comes near the 2 GiB that its header can say.
func writePages(c *parquet.ColumnWriter, values []parquet.Value, at int, required bool) error {
	from, size := 0, 0
	for i := range values {
		v := &values[i]
		if required || v.IsNull() {
			*v = v.Level(0, 0, at)
		} else {
			*v = v.Level(0, 1, at)
		}
		if size += 8; v.Kind() == parquet.ByteArray {
			size += len(v.ByteArray())
		}
		if size < parquetPageBytes && i+1 < len(values) {
			continue
		}
		if _, err := c.WriteRowValues(values[from : i+1]); err != nil {
			return err
		}
		if err := c.Flush(); err != nil {
			return err
		}
		from, size = i+1, 0
	}
	return nil
}
