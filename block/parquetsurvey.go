package block

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/siltstone-data/siltstone/dataset"
)

const (
	// maxParquetColumns is how many of a block's names get a column: those that
	// most rows have. Rows with other names keep their line.
	maxParquetColumns = 1000
	// maxSurveyed bounds the names that are counted.
	maxSurveyed = 16 * maxParquetColumns
	// maxColumnName is the longest name, in bytes, that becomes a column's.
	maxColumnName = 256
	// styleSample is how many strings of a column choose its style. A wrong
	// choice costs space alone.
	styleSample = 2000
	// boundedText is the longest string that a column's bounds are kept of: they
	// are in the footer, once for each row group.
	boundedText = 64
)

// survey learns the columns of a block from its rows, before any is written.
type survey struct {
	at      map[string]*surveyed
	order   []*surveyed // as the rows have them
	rows    int64
	members []memberAt
	name    []byte
	lit     []byte
}

// surveyed is what the rows say of one name.
type surveyed struct {
	name           string
	key            string // of the first row that has it
	present, nulls int64
	bools, strings int64
	nested         int64

	ints, fractions int64
	wide            bool // an integer that a double has not
	lossy           bool // a number that a double has not
	numbers         [len(numberStyles)]int64
	sampled         int64
	texts           [len(stringStyles)]int64
	longest         int
}

func newSurvey() *survey { return &survey{at: map[string]*surveyed{}} }

// add takes a row; it fails where the line is no object with an id.
func (s *survey) add(line []byte) (err error) {
	if s.members, err = appendMembers(s.members[:0], line); err != nil {
		return err
	}
	s.rows++
	var before *surveyed
	id := false
	for _, m := range s.members {
		c := s.column(line, m, before)
		if c == nil {
			continue
		}
		before = c
		id = id || c.name == dataset.IDColumn
		s.value(c, line[m.value:m.end])
	}
	if !id {
		return errNoID
	}
	return nil
}

// column finds the name of a member, or puts it behind the one that comes
// before it in this row; nil: it gets no column.
func (s *survey) column(line []byte, m memberAt, before *surveyed) *surveyed {
	var ok bool
	if s.name, ok = memberName(s.name[:0], line, m); !ok {
		return nil
	}
	if c := s.at[string(s.name)]; c != nil {
		return c
	}
	known := string(s.name) == dataset.IDColumn || string(s.name) == dataset.CreatedAtColumn
	if !known && (len(s.at) >= maxSurveyed || !isColumnName(s.name)) {
		return nil
	}
	c := &surveyed{name: string(s.name), key: string(line[m.key:m.value])}
	s.at[c.name] = c
	at := 0
	if before != nil {
		at = slices.Index(s.order, before) + 1
	}
	s.order = slices.Insert(s.order, at, c)
	return c
}

// memberName appends the unescaped name of a member; one with half of a
// surrogate pair is none that a parquet file can have.
func memberName(dst, line []byte, m memberAt) ([]byte, bool) {
	quoted := line[m.name:m.colon]
	if bytes.IndexByte(quoted, '\\') < 0 {
		return append(dst, quoted[1:len(quoted)-1]...), true
	}
	dst, err := jsontext.AppendUnquote(dst, quoted)
	return dst, err == nil
}

// isColumnName refuses the names that engines cannot take as a column's, and
// those with a meaning of their own.
func isColumnName(name []byte) bool {
	if len(name) == 0 || len(name) > maxColumnName || !utf8.Valid(name) ||
		bytes.HasPrefix(name, []byte(dataset.ReservedPrefix)) {
		return false
	}
	return bytes.IndexFunc(name, func(r rune) bool { return r < ' ' || r == 0x7F }) < 0
}

func (s *survey) value(c *surveyed, v []byte) {
	c.present++
	switch v[0] {
	case 'n':
		c.nulls++
	case 't', 'f':
		c.bools++
	case '"':
		c.strings++
		c.longest = max(c.longest, len(v))
		if c.sampled < styleSample {
			s.text(c, v)
		}
	case '{', '[':
		c.nested++
	default:
		if c.strings+c.nested+c.bools == 0 {
			s.number(c, v)
		} else {
			c.fractions++ // the column is JSON anyhow
		}
	}
}

func (s *survey) text(c *surveyed, v []byte) {
	value, err := jsontext.AppendUnquote(s.name[:0], v)
	if s.name = value; err != nil {
		return // half of a surrogate pair: its row keeps its line in any style
	}
	c.sampled++
	for i, style := range stringStyles {
		s.lit = appendQuoted(s.lit[:0], value, style)
		if bytes.Equal(s.lit, v) {
			c.texts[i]++
		}
	}
}

func (s *survey) number(c *surveyed, v []byte) {
	if n, ok := isInt64(v); ok {
		c.ints++
		c.wide = c.wide || n > 1<<53 || n < -1<<53
		return
	}
	c.fractions++
	f := double(v)
	if math.IsInf(f, 0) || math.IsNaN(f) {
		c.lossy = true
		return
	}
	same := false
	for i, style := range numberStyles {
		s.lit = appendDouble(s.lit[:0], f, style)
		if bytes.Equal(s.lit, v) {
			c.numbers[i]++
			same = true
		}
	}
	if same || c.lossy {
		return
	}
	is, err := dataset.Canonical(nil, s.lit)
	was, err2 := dataset.Canonical(nil, v)
	c.lossy = err != nil || err2 != nil || !bytes.Equal(is, was)
}

// columns decides which names get a column, and of which type.
func (s *survey) columns() []parquetColumn {
	picked := s.order
	if len(picked) > maxParquetColumns {
		picked = slices.Clone(s.order)
		slices.SortStableFunc(picked, func(a, b *surveyed) int { return cmp.Compare(s.weight(b), s.weight(a)) })
		keep := map[*surveyed]bool{}
		for _, c := range picked[:maxParquetColumns] {
			keep[c] = true
		}
		picked = slices.DeleteFunc(slices.Clone(s.order), func(c *surveyed) bool { return !keep[c] })
	}
	columns := make([]parquetColumn, len(picked))
	for i, c := range picked {
		columns[i] = c.column(s.rows)
	}
	return columns
}

func (s *survey) weight(c *surveyed) int64 {
	if c.name == dataset.IDColumn || c.name == dataset.CreatedAtColumn {
		return math.MaxInt64
	}
	return c.present
}

func (c *surveyed) column(rows int64) parquetColumn {
	p := parquetColumn{Name: c.name, Key: c.key, Type: typeJSON, Null: c.nulls > rows-c.present, bounds: true}
	numbers := c.ints + c.fractions
	switch values := c.present - c.nulls; {
	case c.name == dataset.IDColumn:
		p.Type, p.Style = typeString, styleBare
		if c.strings >= numbers {
			p.Style = c.textStyle()
		}
	case c.bools == values: // also where it is always null: a boolean is the least type for engines that join files
		p.Type = typeBool
	case c.strings == values:
		p.Type, p.Style = typeString, c.textStyle()
		p.bounds = c.longest <= boundedText
	case c.ints == values:
		p.Type = typeInt64
	case numbers == values && !c.wide && !c.lossy:
		// A column that mostly has another way to write numbers keeps their text
		// rather than most lines twice.
		if style, n := c.numberStyle(); n >= values-values/2 {
			p.Type, p.Style = typeDouble, style
		}
	}
	if p.Type == typeJSON {
		p.bounds = false
	}
	return p
}

func (c *surveyed) textStyle() string {
	best := 0
	for i, n := range c.texts {
		if n > c.texts[best] {
			best = i
		}
	}
	return stringStyles[best]
}

func (c *surveyed) numberStyle() (string, int64) {
	count := c.numbers
	count[0] += c.ints // the others write 1 as 1.0
	best := 0
	for i, n := range count {
		if n > count[best] {
			best = i
		}
	}
	return numberStyles[best], count[best]
}
