package block

import (
	"bytes"
	"errors"
	"strings"
)

// ErrKey reports a sort key that does not start with an id.
var ErrKey = errors.New("bad sort key")

// AppendID appends an id to a sort key so that keys order like ids, whatever
// follows: 0x00 becomes 00 FF, and the id ends with 00 01.
func AppendID(dst []byte, id string) []byte {
	if strings.IndexByte(id, 0) < 0 {
		return append(append(dst, id...), 0, 1)
	}
	for i := 0; i < len(id); i++ {
		dst = append(dst, id[i])
		if id[i] == 0 {
			dst = append(dst, 0xFF)
		}
	}
	return append(dst, 0, 1)
}

// CutID takes the id from the front of a key.
func CutID(key []byte) (id string, rest []byte, err error) {
	var text []byte
	rest = key
	for {
		i := bytes.IndexByte(rest, 0)
		if i < 0 || i+1 >= len(rest) {
			return "", nil, ErrKey
		}
		mark := rest[i+1]
		switch {
		case mark == 1 && text == nil:
			return string(rest[:i]), rest[i+2:], nil
		case mark == 1:
			return string(append(text, rest[:i]...)), rest[i+2:], nil
		case mark != 0xFF:
			return "", nil, ErrKey
		}
		text = append(text, rest[:i+1]...)
		rest = rest[i+2:]
	}
}
