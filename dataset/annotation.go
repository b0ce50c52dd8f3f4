package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Annotation is what an annotator says of a row. Both parts are JSON objects:
// raw JSON ([]byte, json.RawMessage), or any value that encodes to one. The
// fields of Data are columns in views, named annotator.field; Metadata tells how
// they came about (model, cost, time) and may be nil.
type Annotation struct {
	Data     any
	Metadata any
}

// The members of a stored annotation, besides those of every row.
const (
	DataMember     = "data"
	MetadataMember = "metadata"
	// MetadataField is the column of a layer that the metadata is reachable as;
	// no field may be called so.
	MetadataField = "_metadata"
)

// ErrAnnotation reports data or metadata that cannot be stored as an annotation.
var ErrAnnotation = errors.New("bad annotation")

// LeaseKey is the key of the lease that an annotator's worker holds.
func LeaseKey(dataset, annotator string) string {
	return OldChunkDir(dataset, annotator) + ".lock"
}

// AppendAnnotation appends the stored line of an annotation, without a newline.
// data and metadata are JSON objects; metadata may be nil. What no row may have
// (names that occur twice, invalid UTF-8, nesting without end) is refused here,
// and not when the line is merged.
func AppendAnnotation(dst []byte, batch string, r Row, at time.Time, data, metadata []byte) ([]byte, error) {
	data, metadata = bytes.Trim(data, jsonSpace), bytes.Trim(metadata, jsonSpace)
	if len(metadata) == 0 || string(metadata) == "null" {
		metadata = []byte("{}")
	}
	switch {
	case len(data) == 0 || string(data) == "null":
		return dst, fmt.Errorf("%w: it has no data; an empty object {} says that there is nothing to say", ErrAnnotation)
	case data[0] != '{':
		return dst, fmt.Errorf("%w: the data is %s, which is no JSON object", ErrAnnotation, clip(data))
	case metadata[0] != '{':
		return dst, fmt.Errorf("%w: the metadata is %s, which is no JSON object", ErrAnnotation, clip(metadata))
	}
	from := len(dst)
	dst = appendIDAndBatch(append(dst, `{"id":`...), r.ID, `,"_batch":`, batch)
	dst = append(dst, `,"_created_at":"`...)
	dst = at.UTC().AppendFormat(dst, createdLayout)
	dst = append(dst, `","data":`...)
	dst = appendOneLine(dst, data)
	dst = append(dst, `,"metadata":`...)
	dst = append(appendOneLine(dst, metadata), '}')
	if err := checkAnnotation(dst[from:], data, metadata); err != nil {
		return dst[:from], err
	}
	return dst, nil
}

// annotationScanners read what is about to be stored.
var annotationScanners = sync.Pool{New: func() any { return NewScanner([]string{DataMember, MetadataMember}) }}

// checkAnnotation reads a whole line, and looks for what would be lost in views.
func checkAnnotation(line, data, metadata []byte) error {
	s := annotationScanners.Get().(*Scanner)
	defer func() {
		s.release(nil)
		annotationScanners.Put(s)
	}()
	if _, err := s.Scan(line); err != nil {
		return fmt.Errorf("%w: %w", ErrAnnotation, err)
	}
	// {"a":1},"b":2 would be one member more of the line.
	if len(s.Value(0)) != len(data) || len(s.Value(1)) != len(metadata) {
		return fmt.Errorf("%w: data or metadata is not one JSON object", ErrAnnotation)
	}
	if !bytes.Contains(data, []byte(`"_`)) && bytes.IndexByte(data, '\\') < 0 {
		return nil // as nearly always
	}
	for name := range (Row{Raw: s.Value(0)}).Fields() {
		if name == MetadataField || strings.HasPrefix(name, ReservedPrefix) {
			return fmt.Errorf("%w: the field name %q is reserved; rename it (for example %q)", ErrAnnotation, name, strings.TrimLeft(name, "_"))
		}
	}
	return nil
}

// AppendQuestion appends what a filter process is told of a row, as one line
// with its newline: {"id":…,"batch":…,"data":{the row}}.
func AppendQuestion(dst []byte, batch string, r Row) []byte {
	dst = appendIDAndBatch(append(dst, `{"id":`...), r.ID, `,"batch":`, batch)
	dst = append(append(append(dst, `,"data":`...), r.Raw...), '}', '\n')
	return dst
}

func appendIDAndBatch(dst []byte, id, name, batch string) []byte {
	dst = appendString(dst, id)
	return appendString(append(dst, name...), batch)
}

// appendString appends a JSON string. Ids and names are valid UTF-8.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			out, err := jsontext.AppendQuote(dst, s)
			if err != nil { // it has half of a surrogate pair, which no id has
				out, _ = jsontext.AppendQuote(dst, strings.ToValidUTF8(s, "\ufffd"))
			}
			return out
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}

// appendOneLine appends JSON with spaces for the line breaks between its parts.
func appendOneLine(dst, text []byte) []byte {
	from := len(dst)
	dst = append(dst, text...)
	if bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 {
		for i := from; i < len(dst); i++ {
			if dst[i] == '\n' || dst[i] == '\r' { // only ever white space: strings have escapes
				dst[i] = ' '
			}
		}
	}
	return dst
}
