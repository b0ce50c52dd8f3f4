package query

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/siltstone-data/siltstone/dataset"
)

// What a row that is shown is told besides its batch.
const (
	clippedColumn = dataset.ReservedPrefix + "clipped" // which of its strings were cut
	liveColumn    = dataset.ReservedPrefix + "live"    // true: it is not merged yet
)

// clip appends a row to dst with every string of more than limit characters cut
// to that many, those within objects and arrays too, and, where that happened,
// with _silt_clipped: for each such column the characters that it has. For a
// string these are its code points, an escape being the one that it stands for;
// for an object or array, those of its JSON text. Everything else keeps its
// bytes; id, _created_at and _batch are never cut. row is a valid JSON object.
func clip(dst, row []byte, limit int) []byte {
	c := clipper{row: row, limit: limit, out: dst}
	c.object()
	return c.out
}

type clipper struct {
	row   []byte
	limit int
	out   []byte
	from  int // row[from:] is not copied yet
	at    int
	cuts  []cut
}

// cut is a column with something cut.
type cut struct {
	name  []byte // as it is written, with its quotes
	chars int
}

func (c *clipper) object() {
	c.at = bytes.IndexByte(c.row, '{') + 1
	for c.at < len(c.row) {
		open := c.seek('"', '}')
		if open == '}' || c.at >= len(c.row) {
			break
		}
		name := c.row[c.at : c.at+stringEnd(c.row[c.at:])]
		c.at += len(name)
		c.seek(':', ':')
		c.at++
		c.value(name)
	}
	end := c.at // of the closing brace
	c.out = append(c.out, c.row[c.from:end]...)
	if len(c.cuts) > 0 {
		c.out = append(append(c.out, `,"`+clippedColumn+`":{`...), c.told()...)
		c.out = append(c.out, '}')
	}
	c.out = append(c.out, c.row[end:]...)
}

// seek goes to the next of two bytes outside of strings.
func (c *clipper) seek(a, b byte) byte {
	for ; c.at < len(c.row); c.at++ {
		if x := c.row[c.at]; x == a || x == b {
			return x
		}
	}
	return 0
}

// value passes a member's value and cuts what is long in it.
func (c *clipper) value(name []byte) {
	for c.at < len(c.row) && isSpace(c.row[c.at]) {
		c.at++
	}
	start, had := c.at, len(c.out)+c.from
	spare := spared(name)
	chars := -1
	depth := 0
	for c.at < len(c.row) {
		switch x := c.row[c.at]; x {
		case '"':
			n := stringEnd(c.row[c.at:])
			if !spare {
				if long := c.text(c.at, c.at+n); long > 0 && depth == 0 {
					chars = long
				}
			}
			c.at += n
		case '{', '[':
			depth++
			c.at++
		case '}', ']':
			if depth == 0 { // of the row: a number or a word ends there
				c.note(name, start, chars, had)
				return
			}
			depth--
			c.at++
		case ',':
			if depth == 0 {
				c.note(name, start, chars, had)
				c.at++
				return
			}
			c.at++
		default:
			c.at++
		}
	}
}

// note notes a column that had something cut.
func (c *clipper) note(name []byte, start, chars, had int) {
	if len(c.out)+c.from == had {
		return
	}
	if chars < 0 {
		chars = utf8.RuneCount(bytes.TrimRight(c.row[start:c.at], " \t\r\n"))
	}
	c.cuts = append(c.cuts, cut{name, chars})
}

// text cuts the string row[from:to] if it is long, and then gives its length in
// characters.
func (c *clipper) text(from, to int) int {
	if to-from-2 <= c.limit { // no more bytes than that
		return 0
	}
	chars, end := 0, 0
	for i := from + 1; i < to-1; {
		if chars == c.limit {
			end = i
		}
		i += charLen(c.row[i : to-1])
		chars++
	}
	if chars <= c.limit {
		return 0
	}
	c.out = append(c.out, c.row[c.from:end]...)
	c.from = to - 1
	return chars
}

// told is the inside of _silt_clipped.
func (c *clipper) told() []byte {
	var b []byte
	for i, cut := range c.cuts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, cut.name...), ':')
		b = strconv.AppendInt(b, int64(cut.chars), 10)
	}
	return b
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\r' || b == '\n' }

// stringEnd is the length of the JSON string that b starts with.
func stringEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// charLen is the length of the first character of a string's inside: of a rune,
// an escape, or two that are a surrogate pair.
func charLen(b []byte) int {
	switch {
	case b[0] < utf8.RuneSelf && b[0] != '\\':
		return 1
	case b[0] != '\\':
		_, n := utf8.DecodeRune(b)
		return n
	case len(b) < 6 || b[1] != 'u':
		return min(2, len(b))
	}
	if hi := hex4(b[2:6]); hi >= 0xD800 && hi < 0xDC00 && len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
		if lo := hex4(b[8:12]); lo >= 0xDC00 && lo < 0xE000 {
			return 12
		}
	}
	return 6
}

func hex4(b []byte) int64 {
	v, err := strconv.ParseUint(string(b[:4]), 16, 32)
	if err != nil {
		return -1
	}
	return int64(v)
}

// spared reports whether a column, its name as it is written, is never cut.
func spared(name []byte) bool {
	s := string(name[1 : len(name)-1])
	if bytes.IndexByte(name, '\\') >= 0 && json.Unmarshal(name, &s) != nil {
		return false
	}
	return s == dataset.IDColumn || s == dataset.CreatedAtColumn || s == dataset.BatchColumn
}
