package block

import (
	"bytes"
	"errors"
)

// memberAt is where a top-level member of a line lies. Its key is all from the
// brace or comma before it to its value, white space included.
type memberAt struct {
	key         int // line[key:value] is the key
	name, colon int // line[name:colon] is the quoted name
	value, end  int // line[value:end] is the value
}

var errNoObject = errors.New("it is no JSON object")

// appendMembers finds the members of a row's line. It checks no more than it
// must to stay inside the line: lines were parsed when they became rows.
func appendMembers(dst []memberAt, line []byte) ([]memberAt, error) {
	if len(line) < 2 || line[0] != '{' || line[len(line)-1] != '}' {
		return dst, errNoObject
	}
	last := len(line) - 1
	i := skipSpace(line, 1)
	if i == last {
		return dst, nil
	}
	for at := 1; ; at = i + 1 {
		m := memberAt{key: at, name: skipSpace(line, at)}
		if m.name >= last || line[m.name] != '"' {
			return dst, errNoObject
		}
		if m.colon = stringEnd(line, m.name); m.colon < 0 {
			return dst, errNoObject
		}
		i = skipSpace(line, m.colon)
		if i >= last || line[i] != ':' {
			return dst, errNoObject
		}
		m.value = skipSpace(line, i+1)
		if m.end = valueEnd(line, m.value); m.end <= m.value || m.end > last {
			return dst, errNoObject
		}
		dst = append(dst, m)
		switch i = skipSpace(line, m.end); {
		case i == last:
			return dst, nil
		case i > last || line[i] != ',':
			return dst, errNoObject
		}
	}
}

func skipSpace(line []byte, i int) int {
	for i < len(line) && (line[i] == ' ' || line[i] == '\t' || line[i] == '\r' || line[i] == '\n') {
		i++
	}
	return i
}

// stringEnd is the index past the string that begins at i, -1 if it does not
// end.
func stringEnd(line []byte, i int) int {
	for at := i + 1; ; {
		n := bytes.IndexByte(line[at:], '"')
		if n < 0 {
			return -1
		}
		quote := at + n
		escapes := quote
		for escapes > i+1 && line[escapes-1] == '\\' {
			escapes--
		}
		if (quote-escapes)%2 == 0 {
			return quote + 1
		}
		at = quote + 1
	}
}

// valueEnd is the index past the value that begins at i, -1 if there is none.
func valueEnd(line []byte, i int) int {
	if i >= len(line) {
		return -1
	}
	switch line[i] {
	case '"':
		return stringEnd(line, i)
	case '{', '[':
		return nestedEnd(line, i)
	}
	for i < len(line) && line[i] != ',' && line[i] != '}' && line[i] > ' ' {
		i++
	}
	return i
}

func nestedEnd(line []byte, i int) int {
	for depth := 0; i < len(line); i++ {
		switch line[i] {
		case '"':
			if i = stringEnd(line, i) - 1; i < 0 {
				return -1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}
