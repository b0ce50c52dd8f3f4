package dataset

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// fold appends text as a search compares it: in normal form C (Unicode Standard
// Annex 15), each rune replaced by the least of those that simple case folding
// makes equal. Bytes that are no UTF-8 stay as they are.
func fold(dst, text []byte) []byte {
	if !norm.NFC.IsNormal(text) {
		text = norm.NFC.Bytes(text)
	}
	from := len(dst)
	for len(text) > 0 {
		if c := text[0]; c < utf8.RuneSelf {
			if 'a' <= c && c <= 'z' {
				c -= 'a' - 'A'
			}
			dst, text = append(dst, c), text[1:]
			continue
		}
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			dst, text = append(dst, text[0]), text[1:]
			continue
		}
		dst, text = utf8.AppendRune(dst, leastFold(r)), text[n:]
	}
	if norm.NFC.IsNormal(dst[from:]) {
		return dst
	}
	return append(dst[:from], norm.NFC.Bytes(dst[from:])...)
}

// leastFold is the smallest rune among those that differ from r by case alone.
func leastFold(r rune) rune {
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return least
}

// contains reports whether text has folded, which is folded already, in it.
func contains(text, folded []byte) bool {
	var small [512]byte
	return bytes.Contains(fold(small[:0], text), folded)
}
