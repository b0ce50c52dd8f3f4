package producers

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/siltstone-data/siltstone/dataset"
)

// encode gives the JSON of a row: raw JSON as it is, anything else as
// encoding/json writes it, without its escapes for HTML.
func encode(row any) ([]byte, error) {
	switch v := row.(type) {
	case json.RawMessage:
		return v, nil
	case []byte:
		return v, nil
	case dataset.Row:
		return v.Raw, nil
	case nil:
		return nil, errors.New("nil is no row")
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(row); err != nil {
		return nil, fmt.Errorf("encode a %T: %w", row, err)
	}
	// The encoder replaces invalid UTF-8 without a word, by an escape that it
	// uses for nothing else: a row that has it is looked at again.
	if bytes.Contains(b.Bytes(), []byte(`\ufffd`)) {
		if s, found := invalidString(reflect.ValueOf(row), map[any]bool{}); found {
			return nil, fmt.Errorf("encode a %T: invalid UTF-8 in the string %q", row, clip(s))
		}
	}
	return b.Bytes(), nil
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// invalidString finds a string that is not UTF-8 in what the encoder has
// visited: not in what encodes itself, which the encoder passes on as it is.
// seen holds the pointers on the way, as fields that are left out may form a
// ring.
func invalidString(v reflect.Value, seen map[any]bool) (string, bool) {
	if !v.IsValid() {
		return "", false
	}
	if t := v.Type(); t.Implements(jsonMarshaler) || t.Implements(textMarshaler) {
		return "", false
	}
	switch v.Kind() {
	case reflect.String:
		return v.String(), !utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return "", false
		}
		if v.Kind() == reflect.Pointer {
			at := [2]any{v.Type(), v.Pointer()}
			if seen[at] {
				return "", false
			}
			seen[at] = true
		}
		return invalidString(v.Elem(), seen)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Tag.Get("json") == "-" || !f.IsExported() && !f.Anonymous {
				continue
			}
			if s, found := invalidString(v.Field(i), seen); found {
				return s, true
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if s, found := invalidString(it.Key(), seen); found {
				return s, true
			}
			if s, found := invalidString(it.Value(), seen); found {
				return s, true
			}
		}
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); k == reflect.Uint8 {
			return "", false
		}
		for i := range v.Len() {
			if s, found := invalidString(v.Index(i), seen); found {
				return s, true
			}
		}
	}
	return "", false
}

// clip shortens what stands in a message.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.Clone(s[:most]) + "…"
}
