package block

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf8"
)

// A style is how a column's literals are written, as far as JSON leaves a
// choice: most columns come from one writer, which always writes alike, and so
// need no copy of their lines.

// Styles of strings.
const (
	stylePlain = "plain" // only what must be escaped is: JSON.stringify, json.dumps(ensure_ascii=False)
	styleASCII = "ascii" // all that is not ASCII is escaped too: json.dumps
	styleHTML  = "html"  // <, > and & are escaped too: Go's encoding/json
	styleSlash = "slash" // as ascii, and / is escaped too: PHP
	styleBare  = "bare"  // without quotes: an integer as id
)

var stringStyles = [...]string{stylePlain, styleASCII, styleHTML, styleSlash}

// Styles of doubles.
const (
	styleJS     = "js"     // 1, 0.5, 1e-7, 1e+21
	stylePython = "python" // 1.0, 0.5, 1e-07, 1e+16
	styleGo     = "go"     // 1.0, 0.5, 1e-07, 1e+21
)

var numberStyles = [...]string{styleJS, stylePython, styleGo}

// What a byte of a string costs, in some style.
const (
	mustEscape = 1 << iota
	asciiEscapes
	htmlEscapes
	slashEscapes
)

var escapes = func() (t [256]byte) {
	for c := range t {
		switch {
		case c < 0x20 || c == '"' || c == '\\':
			t[c] = mustEscape
		case c >= 0x7F:
			t[c] = asciiEscapes
		case c == '<' || c == '>' || c == '&':
			t[c] = htmlEscapes
		case c == '/':
			t[c] = slashEscapes
		}
	}
	t[0xE2] |= htmlEscapes // U+2028 and U+2029
	return t
}()

func escapedIn(style string) byte {
	switch style {
	case styleASCII:
		return mustEscape | asciiEscapes
	case styleHTML:
		return mustEscape | htmlEscapes
	case styleSlash:
		return mustEscape | asciiEscapes | slashEscapes
	}
	return mustEscape
}

const lowerHex = "0123456789abcdef"

// appendQuoted writes a string, which must be UTF-8, in a style.
func appendQuoted(dst, s []byte, style string) []byte {
	if style == styleBare {
		return append(dst, s...)
	}
	mask := escapedIn(style)
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		if escapes[s[i]]&mask == 0 {
			i++
			continue
		}
		r, n := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(s[i:])
		}
		if s[i] == 0xE2 && style == styleHTML && r != '\u2028' && r != '\u2029' {
			i += n
			continue
		}
		dst = append(dst, s[from:i]...)
		dst = appendEscape(dst, r)
		i += n
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}

func appendEscape(dst []byte, r rune) []byte {
	switch r {
	case '"', '\\', '/':
		return append(dst, '\\', byte(r))
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	if r > 0xFFFF {
		r -= 0x10000
		dst = appendEscape(dst, 0xD800+r>>10)
		r = 0xDC00 + r&0x3FF
	}
	return append(dst, '\\', 'u', lowerHex[r>>12&15], lowerHex[r>>8&15], lowerHex[r>>4&15], lowerHex[r&15])
}

// appendDouble writes a finite number in a style.
func appendDouble(dst []byte, f float64, style string) []byte {
	size := math.Abs(f)
	small, large := 1e-6, 1e21
	if style == stylePython {
		small, large = 1e-4, 1e16
	}
	if size != 0 && (size < small || size >= large) {
		from := len(dst)
		dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
		if n := len(dst); style == styleJS && dst[n-2] == '0' && bytes.IndexByte(dst[from:], 'e') == n-from-4 {
			dst[n-2] = dst[n-1] // e-07 is e-7
			dst = dst[:n-1]
		}
		return dst
	}
	from := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if style != styleJS && bytes.IndexByte(dst[from:], '.') < 0 {
		dst = append(dst, '.', '0')
	}
	return dst
}

// isInt64 reports whether a JSON number is what an int64 is written as.
func isInt64(lit []byte) (int64, bool) {
	if len(lit) == 0 || len(lit) > 20 || lit[0] == '-' && (len(lit) == 1 || lit[1] == '0') {
		return 0, false
	}
	if lit[0] == '0' && len(lit) > 1 {
		return 0, false
	}
	for i, c := range lit {
		if (c < '0' || c > '9') && (c != '-' || i > 0) {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(string(lit), 10, 64)
	return n, err == nil
}

// double is the number that a literal stands for, -0 being 0, because the
// bounds of pages do not tell them apart for every reader.
func double(lit []byte) float64 {
	f, _ := strconv.ParseFloat(string(lit), 64) // ±Inf with an error
	return f + 0
}
