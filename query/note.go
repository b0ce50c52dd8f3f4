package query

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/siltstone-data/siltstone/dataset"
)

// ErrAmbiguous reports a row that has a column of the name that a field of a
// layer has.
var ErrAmbiguous = errors.New("ambiguous column")

// The members of an annotation, as it lies in a layer.
const (
	dataMember     = "data"
	metadataMember = "metadata"
	// metadataField is the column that an annotation's metadata becomes.
	metadataField = "_metadata"
)

// appendNote adds the fields of an annotation to the line of a row, as columns
// named A.field, in the order in which they stand. note is the annotation's
// line, nil where there is none.
func appendNote(line []byte, row Row, annotator string, note []byte, meta bool) ([]byte, error) {
	if note == nil {
		return line, nil
	}
	if err := ambiguous(row, annotator); err != nil {
		return nil, err
	}
	end := bytes.LastIndexByte(line, '}')
	if end < 0 {
		return nil, fmt.Errorf("%w: row %q of batch %s is no JSON object", ErrDamaged, row.ID, row.Batch)
	}
	line = line[:end]
	add := func(field string, value []byte) {
		line = append(appendName(append(line, ','), annotator, field), value...) // a row is never empty: it has an id
	}
	for name, value := range (dataset.Row{Raw: note}).Fields() {
		switch {
		case name == dataMember && value[0] == '{':
			for field, v := range (dataset.Row{Raw: value}).Fields() {
				if field != metadataField { // the name stands for the annotation's own
					add(field, v)
				}
			}
		case name == metadataMember && meta:
			add(metadataField, value)
		}
	}
	return append(line, '}'), nil
}

// appendName appends the name of a layer's column and a colon.
func appendName(dst []byte, annotator, field string) []byte {
	if plain(annotator) && plain(field) {
		dst = append(append(append(append(dst, '"'), annotator...), '.'), field...)
		return append(dst, '"', ':')
	}
	return append(append(dst, quote(annotator+"."+field)...), ':')
}

// plain reports whether a text is written in JSON as it is.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// ambiguous refuses a row with a column that could be meant for a field of the
// annotator's.
func ambiguous(row Row, annotator string) error {
	if !bytes.Contains(row.Raw, []byte(`"`+annotator+`.`)) && bytes.IndexByte(row.Raw, '\\') < 0 {
		return nil // as nearly always
	}
	for name := range row.Fields() {
		if strings.HasPrefix(name, annotator+".") {
			return fmt.Errorf("%w: row %q of batch %s has a column %q, which is also what a field of the layer %s is called: leave the layer out, or run it under another name", ErrAmbiguous, row.ID, row.Batch, name, annotator)
		}
	}
	return nil
}
