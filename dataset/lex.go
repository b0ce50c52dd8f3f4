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

// skipPlain passes plain text: all of ASCII but what a string ends with, an
// escape starts with, or that must be escaped. Nearly all bytes of nearly all
// rows are of this kind, so eight are looked at together, and sixteen where
// that is long.
func skipPlain(b []byte, i int) int {
	for ; i+16 <= len(b); i += 16 {
		two := b[i : i+16]
		low, high := stops(binary.LittleEndian.Uint64(two)), stops(binary.LittleEndian.Uint64(two[8:]))
		if low|high == 0 {
			continue
		}
		if low != 0 {
			return i + bits.TrailingZeros64(low)>>3
		}
		return i + 8 + bits.TrailingZeros64(high)>>3
	}
	for i+8 <= len(b) {
		if m := stops(binary.LittleEndian.Uint64(b[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' && b[i] < utf8.RuneSelf {
		i++ // the last bytes of the line
	}
	return i
}

// skipString passes a string, the first byte behind its quote being b[i].
func skipString(b []byte, i int) (end int) {
	for {
		i = skipPlain(b, i)
		if i >= len(b) {
			return refused
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			if i+1 < len(b) && shortEscapes[b[i+1]] != 0 {
				i += 2
				continue
			}
			i = skipLongEscape(b, i)
		case c < ' ':
			return refused
		default:
			i = skipRunes(b, i)
		}
		if i < 0 {
			return refused
		}
	}
}

// skipLongEscape passes an escape with four digits, whose backslash is b[i].
// Half of a surrogate pair that stands alone is legal.
func skipLongEscape(b []byte, i int) int {
	if byteAt(b, i+1) != 'u' {
		return refused
	}
	if _, ok := hex4(b[i+2:]); !ok {
		return refused
	}
	return i + 6
}

// skipRunes passes UTF-8 up to the next byte of ASCII.
func skipRunes(b []byte, i int) int {
	for i < len(b) && b[i] >= utf8.RuneSelf {
		switch c := b[i]; {
		case i+2 < len(b) && 0xC2 <= c && c < 0xE0 && isMore(b[i+1]):
			i += 2
		case i+2 < len(b) && 0xE1 <= c && c < 0xED && isMore(b[i+1]) && isMore(b[i+2]):
			i += 3
		default: // all others have odd rules
			r, n := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && n <= 1 {
				return refused
			}
			i += n
		}
	}
	return i
}

// isMore reports whether c is a byte of a rune, not the first.
func isMore(c byte) bool { return c&0xC0 == 0x80 }

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
