package dataset

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func joinOptions(opts ...jsontext.Options) jsontext.Options { return json.JoinOptions(opts...) }

// checkStart finds the opening brace of a row, or says what stands there.
func checkStart(line []byte) (open int, err error) {
	if len(line) > MaxLineBytes {
		return 0, rowErrorf(MaxLineBytes, "longer than %d MiB", MaxLineBytes>>20)
	}
	for open < len(line) && strings.IndexByte(jsonSpace, line[open]) >= 0 {
		open++
	}
	rest := line[open:]
	switch {
	case len(rest) == 0:
		return 0, rowErrorf(open, "an empty line")
	case rest[0] == '{':
		return open, nil
	case bytes.HasPrefix(rest, []byte("\xEF\xBB\xBF")):
		return 0, rowErrorf(open, "a byte order mark, which only the start of a file may have (files put together with cat?)")
	case bytes.HasPrefix(rest, []byte{0x1f, 0x8b}):
		return 0, rowErrorf(open, "gzip data, not JSON")
	}
	what := "a JSON array" // one that breaks off is one as well: it may be that of a whole file
	if rest[0] != '[' {
		what = map[jsontext.Kind]string{
			'"': "a JSON string", '0': "a JSON number", 'n': "null", 't': "a JSON boolean", 'f': "a JSON boolean",
		}[jsontext.Value(rest).Kind()]
		if !jsontext.Value(rest).IsValid(strictNames) {
			what = ""
		}
	}
	if what == "" {
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n <= 1 {
			return 0, rowErrorf(open, "invalid UTF-8: byte 0x%02X", rest[0])
		}
		return 0, rowErrorf(open, "not JSON: it starts with %q; siltstone reads one object per line", r)
	}
	return 0, rowErrorf(open, "%s: siltstone reads one object per line", what)
}

// checkLineBreak refuses a line break, but at the end: a stored row is one line.
func checkLineBreak(line []byte) error {
	if i := bytes.IndexByte(line, '\n'); i >= 0 && len(bytes.Trim(line[i:], jsonSpace)) > 0 {
		return rowErrorf(i, "a line break inside a row")
	}
	return nil
}

// checkRest refuses anything but white space after the object.
func checkRest(line []byte, from int) error {
	for i := from; i < len(line); i++ {
		switch c := line[i]; {
		case strings.IndexByte(jsonSpace, c) >= 0:
		case c == '{' || c == '[' || c == '"':
			return rowErrorf(i, "two JSON values on one line")
		case c == ',':
			return rowErrorf(i, "a comma after the object: siltstone reads one object per line, not the inside of an array")
		default:
			return rowErrorf(i, "text after the JSON object")
		}
	}
	return nil
}

// invalidUTF8 is the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return -1
}

func isDuplicateName(err error) bool { return errors.Is(err, jsontext.ErrDuplicateName) }

func hasSurrogateEscape(line []byte) bool {
	return bytes.Contains(line, []byte(`\ud`)) || bytes.Contains(line, []byte(`\uD`))
}

// lineError names the real cause of what the decoder stumbled over.
func lineError(line []byte, err error) error {
	var re *RowError
	if errors.As(err, &re) {
		return re
	}
	var se *jsontext.SyntacticError
	if !errors.As(err, &se) {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return rowErrorf(len(line), "the line ends inside the object: cut off, or one object over several lines")
		}
		return rowErrorf(0, "%v", err)
	}
	at := int(min(max(se.ByteOffset, 0), int64(len(line))))
	rest := line[at:]
	before := bytes.TrimRight(line[:at], jsonSpace)
	switch {
	case isDuplicateName(err):
		return rowErrorf(at, "the key %q occurs twice in one object", se.JSONPointer.LastToken())
	case errors.Is(err, io.ErrUnexpectedEOF):
		return rowErrorf(len(line), "the line ends inside the object: cut off, or one object over several lines")
	case hasAnyPrefix(rest, "NaN", "Infinity", "-Infinity", "nan", "inf", "-inf", "-nan"),
		hasAnyPrefix(rest, "I", "i") && bytes.HasSuffix(before, []byte("-")):
		return rowErrorf(at, "NaN and Infinity are not JSON; write null or a string")
	case hasAnyPrefix(rest, ",") && hasAnyPrefix(bytes.TrimLeft(rest[1:], jsonSpace), "}", "]"):
		return rowErrorf(at, "a comma too many at the end of an object or array")
	case hasAnyPrefix(rest, "'"):
		return rowErrorf(at, "a single quote: JSON strings stand in double quotes")
	}
	return rowErrorf(at, "not JSON: %v", se.Err)
}

func hasAnyPrefix(b []byte, prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(string(b[:min(len(b), len(p))]), p) {
			return true
		}
	}
	return false
}
