package duck

import (
	"fmt"

	"github.com/duckdb/duckdb-go/v2"
)

// source gives the rows of a group to one statement: their numbers, and those of
// their values that are not null.
type source struct {
	number int64
	infos  []duckdb.ColumnInfo
	places []int // for each column behind the first: which value it is

	g        *group
	from, to int
}

// columnName is what a column is called in SQL: names that people give could be
// those of other things there.
func columnName(i int) string { return fmt.Sprintf("c%d", i) }

func newSource(number int64, types []valueType) (*source, error) {
	n, err := duckdb.NewTypeInfo(duckdb.TYPE_BIGINT)
	if err != nil {
		return nil, err
	}
	s := &source{number: number, infos: []duckdb.ColumnInfo{{Name: "n", T: n}}}
	for i, t := range types {
		if t.kind == kindNull {
			continue
		}
		info, err := t.info()
		if err != nil {
			return nil, err
		}
		s.infos = append(s.infos, duckdb.ColumnInfo{Name: columnName(i), T: info})
		s.places = append(s.places, i)
	}
	return s, nil
}

// give sets the rows of the next run.
func (s *source) give(g *group, from, to int) { s.g, s.from, s.to = g, from, to }

// ColumnInfos tells DuckDB the columns.
func (s *source) ColumnInfos() []duckdb.ColumnInfo { return s.infos }

// Cardinality is not known when a statement is prepared.
func (s *source) Cardinality() *duckdb.CardinalityInfo { return nil }

// Init has nothing to do: the rows are given before each run.
func (s *source) Init() {}

// chunkRows is how many rows DuckDB gets at once. Between two of them it sees
// that it was interrupted.
const chunkRows = 256

// FillChunk gives the next rows.
func (s *source) FillChunk(chunk duckdb.DataChunk) error {
	n := min(s.to-s.from, chunkRows)
	for i := range n {
		row := s.from + i
		if err := duckdb.SetChunkValue(chunk, 0, i, int64(row)); err != nil {
			return err
		}
	}
	for c, place := range s.places {
		if _, err := chunk.GetVector(c + 1); err != nil {
			continue // the expression does not need it: DuckDB found it to be without effect
		}
		col := &s.g.columns[place]
		for i := range n {
			if err := col.set(chunk, c+1, i, s.from+i); err != nil {
				return err
			}
		}
	}
	s.from += n
	return chunk.SetSize(n)
}
