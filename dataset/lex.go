package dataset

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// What this file has are the words of RFC 8259. Each function takes the offset
// where a word starts and gives the one behind it, or refused where there is no
// such word. None says why: a line that is refused is looked at again by the
// decoder, which does.
const refused = -1

// lanes has c in each byte of a word.
const (
	lanes     = 0x0101010101010101
	highBits  = 0x80 * lanes
	quotes    = '"' * lanes
	slashes   = '\\' * lanes
	firstText = ' ' * lanes
)

// stops marks, with the high bit, bytes of a word that end a run of plain text:
// quote, backslash, control characters and all beyond ASCII. Only the lowest
// mark is to be trusted: a byte that is marked may borrow from the next.
func stops(word uint64) uint64 {
	return (((word ^ quotes) - lanes) | ((word ^ slashes) - lanes) | (word - firstText) | word) & highBits
}

// skipString passes a string, the first byte behind its quote being b[i]. It
// looks at eight bytes at a time, since nearly all bytes of nearly all rows are
// plain text in strings.
func skipString(b []byte, i int) (end int) {
	for {
		for i+8 <= len(b) {
			if m := stops(binary.LittleEndian.Uint64(b[i:])); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' && b[i] < utf8.RuneSelf {
			i++ // the last bytes of the line
		}
		if i >= len(b) {
			return refused
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			if i = skipEscape(b, i); i < 0 {
				return refused
			}
		case c < ' ':
			return refused
		default:
			if i = skipRunes(b, i); i < 0 {
				return refused
			}
		}
	}
}

// skipEscape passes an escape, whose backslash is b[i]. Half of a surrogate
// pair that stands alone is legal.
func skipEscape(b []byte, i int) int {
	if i+1 >= len(b) {
		return refused
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		if _, ok := hex4(b[i+2:]); ok {
			return i + 6
		}
	}
	return refused
}

// skipRunes passes UTF-8 up to the next byte of ASCII.
func skipRunes(b []byte, i int) int {
	for i < len(b) && b[i] >= utf8.RuneSelf {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n <= 1 {
			return refused
		}
		i += n
	}
	return i
}

// skipNumber passes a number.
func skipNumber(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	switch {
	case i >= len(b):
		return refused
	case b[i] == '0':
		i++ // and no digit may follow, which the caller sees
	default:
		if i = skipDigits(b, i); i < 0 {
			return refused
		}
	}
	if i < len(b) && b[i] == '.' {
		if i = skipDigits(b, i+1); i < 0 {
			return refused
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '-' || b[i] == '+') {
			i++
		}
		return skipDigits(b, i)
	}
	return i
}

// skipDigits passes one digit or more.
func skipDigits(b []byte, i int) int {
	from := i
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == from {
		return refused
	}
	return i
}

// skipScalar passes a value that is no object and no array.
func skipScalar(b []byte, i int) int {
	if i >= len(b) {
		return refused
	}
	switch b[i] {
	case '"':
		return skipString(b, i+1)
	case 't':
		return skipLiteral(b, i, "true")
	case 'f':
		return skipLiteral(b, i, "false")
	case 'n':
		return skipLiteral(b, i, "null")
	}
	return skipNumber(b, i)
}

func skipLiteral(b []byte, i int, literal string) int {
	if end := i + len(literal); end <= len(b) && string(b[i:end]) == literal {
		return end
	}
	return refused
}

// skipSpace passes white space, of which there may be none.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// byteAt is b[i], or 0 where b has ended: no word of JSON starts with it.
func byteAt(b []byte, i int) byte {
	if i < len(b) {
		return b[i]
	}
	return 0
}
