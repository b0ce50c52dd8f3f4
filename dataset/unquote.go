package dataset

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// appendUnquoted appends what a JSON string means. The string must be valid
// JSON. Halves of surrogate pairs that stand alone are kept apart (WTF-8: three
// bytes each), where other decoders would turn them all into U+FFFD.
func appendUnquoted(dst, quoted []byte) []byte {
	s := quoted[1 : len(quoted)-1]
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 || i+1 >= len(s) {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		c := s[i+1]
		s = s[i+2:]
		if short := shortEscapes[c]; short != 0 {
			dst = append(dst, short)
			continue
		}
		r, ok := hex4(s)
		if !ok {
			return dst
		}
		s = s[4:]
		if !utf16.IsSurrogate(r) {
			dst = utf8.AppendRune(dst, r)
			continue
		}
		if len(s) >= 6 && s[0] == '\\' && s[1] == 'u' {
			if low, ok := hex4(s[2:]); ok {
				if full := utf16.DecodeRune(r, low); full != utf8.RuneError {
					dst = utf8.AppendRune(dst, full)
					s = s[6:]
					continue
				}
			}
		}
		dst = append(dst, 0xE0|byte(r>>12), 0x80|byte(r>>6&0x3F), 0x80|byte(r&0x3F))
	}
}

// shortEscapes has what a byte means behind a backslash, and 0 where that is
// not one byte.
var shortEscapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func hex4(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range s[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// Text appends what the JSON string raw means to dst. The string must be valid
// JSON. Half of a surrogate pair that stands alone gives bytes that are no UTF-8.
func Text(dst, raw []byte) []byte { return appendUnquoted(dst, raw) }
