package block

import (
	"fmt"

	"github.com/parquet-go/parquet-go"
)

// parquetRows are the values of some rows, by column of the file.
type parquetRows struct {
	columns []parquetColumn
	values  [][]parquet.Value
}

// appendLine writes a row's line from its columns.
func (p *parquetRows) appendLine(dst []byte, row int) ([]byte, error) {
	dst = append(dst, '{')
	from := len(dst)
	for i := range p.columns {
		c := &p.columns[i]
		v := p.values[c.At][row]
		if v.IsNull() && !c.Null {
			continue
		}
		if len(dst) > from {
			dst = append(dst, ',')
		}
		dst = append(dst, c.Key...)
		if v.IsNull() {
			dst = append(dst, "null"...)
			continue
		}
		var err error
		if dst, err = c.appendCell(dst, v); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// parquetSchema gives the columns of the file: id first, because engines that
// do not tell ID from id rename what comes later, then _created_at, and last the
// lines. It sets where each column is.
func parquetSchema(columns []parquetColumn) *parquet.Schema {
	group := parquet.Group{rawColumn: parquet.Optional(parquet.String())}
	order := make([]string, 0, len(columns)+1)
	for _, front := range []bool{true, false} {
		for i := range columns {
			c := &columns[i]
			if isFront := c.Name == idColumn || c.Name == createdColumn; isFront != front {
				continue
			}
			group[c.Name] = c.node()
			order = append(order, c.Name)
		}
	}
	if len(order) > 1 && order[1] == idColumn {
		order[0], order[1] = order[1], order[0]
	}
	order = append(order, rawColumn)
	at := make(map[string]int, len(order))
	for i, name := range order {
		at[name] = i
	}
	for i := range columns {
		columns[i].At = at[columns[i].Name]
	}
	return parquet.NewSchema("block", orderedGroup{group, order})
}

func (c *parquetColumn) node() parquet.Node {
	switch c.Type {
	case typeBool:
		return parquet.Optional(parquet.Leaf(parquet.BooleanType))
	case typeInt64:
		return parquet.Optional(parquet.Encoded(parquet.Int(64), &parquet.DeltaBinaryPacked))
	case typeDouble:
		return parquet.Optional(parquet.Leaf(parquet.DoubleType))
	case typeJSON:
		return parquet.Optional(parquet.JSON())
	}
	if c.Name == idColumn {
		return parquet.Encoded(parquet.String(), &parquet.DeltaByteArray)
	}
	return parquet.Optional(parquet.String())
}

// orderedGroup is a group whose columns are not sorted by name.
type orderedGroup struct {
	parquet.Group
	order []string
}

// Fields gives the columns in order.
func (g orderedGroup) Fields() []parquet.Field {
	fields := g.Group.Fields()
	at := make(map[string]parquet.Field, len(fields))
	for _, f := range fields {
		at[f.Name()] = f
	}
	for i, name := range g.order {
		fields[i] = at[name]
	}
	return fields
}

// sameSchema compares the columns of a file with those of its table.
func sameSchema(columns []parquetColumn, s *parquet.Schema) error {
	leaves := s.Columns()
	if len(leaves) != len(columns)+1 {
		return fmt.Errorf("%w: %d columns in the file, %d in its table", ErrDamaged, len(leaves), len(columns))
	}
	for _, c := range columns {
		if c.At < 0 || c.At >= len(leaves) || len(leaves[c.At]) != 1 || leaves[c.At][0] != c.Name {
			return fmt.Errorf("%w: column %q is not where its table says", ErrDamaged, c.Name)
		}
	}
	if last := leaves[len(leaves)-1]; last[0] != rawColumn {
		return fmt.Errorf("%w: the last column is %q", ErrDamaged, last)
	}
	return nil
}
