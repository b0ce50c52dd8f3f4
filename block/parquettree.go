package block

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/siltstone-data/siltstone/dataset"
)

// parquetNode is a node of a file's schema and knows how to write what is
// under it as JSON. Definition and repetition levels are parquet's way to say
// how deep a value is there at all, and which list it goes on.
type parquetNode struct {
	name     []byte // as JSON, with the colon
	shape    parquetShape
	optional bool
	repeated bool
	def, rep int
	from, to int // the leaves under it
	children []*parquetNode
	write    leafWriter
}

type parquetShape int

const (
	shapeLeaf parquetShape = iota
	shapeStruct
	shapeList // its one child is repeated
	shapeMap
	shapeWrapper // a repeated group around the element of a list
)

// parquetTree builds the tree of a file.
func parquetTree(f *parquet.File) (*parquetNode, error) {
	b := treeBuilder{elements: f.Metadata().Schema}
	root, err := b.node(f.Root(), nil, 0)
	if err != nil {
		return nil, err
	}
	root.shape = shapeStruct
	return root, nil
}

type treeBuilder struct {
	elements []format.SchemaElement // depth first, as the tree is walked
	leaves   int
}

func (b *treeBuilder) node(c *parquet.Column, path []string, depth int) (*parquetNode, error) {
	if len(b.elements) == 0 || depth > parquet.MaxColumnDepth {
		return nil, errors.New("the schema is damaged")
	}
	element := b.elements[0]
	b.elements = b.elements[1:]
	quoted, err := jsontext.AppendQuote(nil, c.Name())
	if err != nil {
		return nil, fmt.Errorf("column %q: %w", path, err)
	}
	n := &parquetNode{
		name: append(quoted, ':'), optional: c.Optional(), repeated: c.Repeated(),
		def: c.MaxDefinitionLevel(), rep: c.MaxRepetitionLevel(), from: b.leaves,
	}
	if c.Leaf() {
		if c.Index() != b.leaves {
			return nil, fmt.Errorf("column %q: the schema is damaged", path)
		}
		b.leaves++
		n.to = b.leaves
		n.write = leafWriterOf(c.Type(), element)
		if l, ok := logicalOf(c.Type(), element).(*format.TimestampType); ok && depth == 1 && c.Name() == dataset.CreatedAtColumn {
			n.write = timestampWriter(&format.TimestampType{IsAdjustedToUTC: true, Unit: l.Unit}) // by its meaning, whatever the file says
		}
		return n, nil
	}
	names := map[string]bool{}
	for _, child := range c.Columns() {
		if names[child.Name()] {
			return nil, fmt.Errorf("two columns are named %q", append(path, child.Name()))
		}
		names[child.Name()] = true
		cn, err := b.node(child, append(path[:len(path):len(path)], child.Name()), depth+1)
		if err != nil {
			return nil, err
		}
		n.children = append(n.children, cn)
	}
	if n.to = b.leaves; n.to == n.from && depth > 0 {
		return nil, fmt.Errorf("group %q has no columns", path)
	}
	n.shape = shapeOf(n, element)
	if n.shape == shapeList {
		if !isElement(c, c.Columns()[0]) {
			n.children[0].shape = shapeWrapper
		}
	}
	return n, nil
}

func shapeOf(n *parquetNode, e format.SchemaElement) parquetShape {
	_, list := e.LogicalType.Value.(*format.ListType)
	_, isMap := e.LogicalType.Value.(*format.MapType)
	if e.ConvertedType.Valid {
		list = list || e.ConvertedType.V == deprecated.List
		isMap = isMap || e.ConvertedType.V == deprecated.Map || e.ConvertedType.V == deprecated.MapKeyValue
	}
	one := len(n.children) == 1 && n.children[0].repeated
	switch {
	case one && list:
		return shapeList
	case one && isMap && len(n.children[0].children) == 2:
		return shapeMap
	}
	return shapeStruct
}

// isElement tells the older two-level lists, whose repeated node is the element
// itself, from those with a group around each element.
func isElement(list, repeated *parquet.Column) bool {
	if repeated.Leaf() || len(repeated.Columns()) != 1 {
		return true
	}
	name := repeated.Name()
	return name == "array" || name == list.Name()+"_tuple" || repeated.Columns()[0].Repeated()
}

var errLevels = errors.New("the file's levels do not fit its schema")

// append writes a member's or element's value.
func (n *parquetNode) append(dst []byte, v *parquetValues) ([]byte, error) {
	if n.repeated {
		return n.appendRepeated(dst, v, '[', ']', (*parquetNode).appendBody)
	}
	if n.optional {
		next, err := v.peek(n.from)
		if err != nil {
			return dst, err
		}
		if next.DefinitionLevel() < n.def {
			return append(dst, "null"...), v.skip(n)
		}
	}
	return n.appendBody(dst, v)
}

// appendRow writes a row. A file can only say by a null that a row has no id.
func (n *parquetNode) appendRow(dst []byte, v *parquetValues) ([]byte, error) {
	dst = append(dst, '{')
	for _, c := range n.children {
		if c.optional && c.shape == shapeLeaf && string(c.name) == `"id":` {
			next, err := v.peek(c.from)
			if err != nil {
				return dst, err
			}
			if next.IsNull() {
				if err := v.skip(c); err != nil {
					return dst, err
				}
				continue
			}
		}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = c.append(append(dst, c.name...), v); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// appendBody writes a value that is there.
func (n *parquetNode) appendBody(dst []byte, v *parquetValues) ([]byte, error) {
	switch {
	case n.shape == shapeWrapper:
		return n.children[0].append(dst, v)
	case n.shape == shapeLeaf:
		value, err := v.take(n.from)
		if err != nil {
			return dst, err
		}
		if value.IsNull() {
			return append(dst, "null"...), nil
		}
		out, err := n.write(dst, value)
		if err != nil && v.lenient {
			return appendAsIs(dst, value, err), nil
		}
		return out, err
	case n.shape == shapeList:
		return n.children[0].appendRepeated(dst, v, '[', ']', (*parquetNode).appendBody)
	case n.shape == shapeMap:
		return n.children[0].appendRepeated(dst, v, '{', '}', (*parquetNode).appendPair)
	}
	dst = append(dst, '{')
	for i, c := range n.children {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = c.append(append(dst, c.name...), v); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

func (n *parquetNode) appendRepeated(dst []byte, v *parquetValues, open, end byte,
	each func(*parquetNode, []byte, *parquetValues) ([]byte, error)) ([]byte, error) {
	next, err := v.peek(n.from)
	if err != nil {
		return dst, err
	}
	dst = append(dst, open)
	if next.DefinitionLevel() < n.def {
		return append(dst, end), v.skip(n)
	}
	for first := true; first || v.goesOn(n); first = false {
		if !first {
			dst = append(dst, ',')
		}
		if dst, err = each(n, dst, v); err != nil {
			return dst, err
		}
	}
	return append(dst, end), nil
}

// appendPair writes an entry of a map as a member. A key that is no string is
// written as the text of its JSON.
func (n *parquetNode) appendPair(dst []byte, v *parquetValues) ([]byte, error) {
	from := len(dst)
	dst, err := n.children[0].append(dst, v)
	if err != nil {
		return dst, err
	}
	if key := string(dst[from:]); key == "" || key[0] != '"' {
		if dst, err = jsontext.AppendQuote(dst[:from], key); err != nil {
			return dst, err
		}
	}
	return n.children[1].append(append(dst, ':'), v)
}

// parquetValues is one row, column by column, with a cursor in each.
type parquetValues struct {
	columns [][]parquet.Value
	at      []int
	lenient bool // values that cannot be told are told as well as they can be
}

func (v *parquetValues) load(row parquet.Row) error {
	clear(v.columns)
	clear(v.at)
	for i := 0; i < len(row); {
		c := row[i].Column()
		if c < 0 || c >= len(v.columns) {
			return errLevels
		}
		j := i + 1
		for j < len(row) && row[j].Column() == c {
			j++
		}
		v.columns[c] = row[i:j]
		i = j
	}
	return nil
}

func (v *parquetValues) peek(column int) (parquet.Value, error) {
	if v.at[column] >= len(v.columns[column]) {
		return parquet.Value{}, errLevels
	}
	return v.columns[column][v.at[column]], nil
}

func (v *parquetValues) take(column int) (parquet.Value, error) {
	value, err := v.peek(column)
	v.at[column]++
	return value, err
}

// skip passes the one value that each leaf has for something that is not there.
func (v *parquetValues) skip(n *parquetNode) error {
	for c := n.from; c < n.to; c++ {
		if _, err := v.take(c); err != nil {
			return err
		}
	}
	return nil
}

// goesOn tells whether the next value belongs to the same list.
func (v *parquetValues) goesOn(n *parquetNode) bool {
	next, err := v.peek(n.from)
	return err == nil && next.RepetitionLevel() >= n.rep
}
