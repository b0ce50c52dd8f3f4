package duck

import (
	"fmt"
	"math/big"

	"github.com/duckdb/duckdb-go/v2"
)

// group are the rows of a batch whose values have the same types.
type group struct {
	types   []valueType
	rows    []int // their numbers in the batch
	columns []column
}

// column are the values of a group in one column, in the slice of their kind.
type column struct {
	kind    kind
	yes     []bool
	wholes  []int64
	doubles []float64
	bigs    []*big.Int
	texts   [][]byte
}

func newGroup(values []value) *group {
	g := &group{types: make([]valueType, len(values)), columns: make([]column, len(values))}
	for i, v := range values {
		g.types[i], g.columns[i].kind = v.valueType, v.kind
	}
	return g
}

func (g *group) add(row int, values []value) {
	g.rows = append(g.rows, row)
	for i := range values {
		g.columns[i].add(&values[i])
	}
}

func (c *column) add(v *value) {
	switch c.kind {
	case kindBoolean:
		c.yes = append(c.yes, v.yes)
	case kindBigint:
		c.wholes = append(c.wholes, v.whole)
	case kindDouble:
		c.doubles = append(c.doubles, v.double)
	case kindHugeint, kindDecimal:
		c.bigs = append(c.bigs, v.big)
	case kindText:
		c.texts = append(c.texts, v.text)
	}
}

// set writes the value of a row into a chunk.
func (c *column) set(chunk duckdb.DataChunk, col, at, row int) error {
	switch c.kind {
	case kindBoolean:
		return duckdb.SetChunkValue(chunk, col, at, c.yes[row])
	case kindBigint:
		return duckdb.SetChunkValue(chunk, col, at, c.wholes[row])
	case kindDouble:
		return duckdb.SetChunkValue(chunk, col, at, c.doubles[row])
	case kindHugeint, kindDecimal:
		return duckdb.SetChunkValue(chunk, col, at, c.bigs[row])
	case kindText:
		return duckdb.SetChunkValue(chunk, col, at, c.texts[row])
	}
	return fmt.Errorf("column %d has values of no type", col)
}
