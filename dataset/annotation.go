package dataset

import (
	"fmt"
	"time"
)

// Annotation is what an annotator says of a row. Both are values that encode to
// a JSON object, or raw JSON; Metadata may be nil. The fields of Data become
// columns of the row; Metadata says how they came about: a model, its cost.
type Annotation struct {
	Data     any
	Metadata any
}

// LeaseKey is the key of the lease that an annotator works under.
func LeaseKey(d, annotator string) string { return LayersDir(d) + annotator + "/.temp/.lock" }

// AnnotationRow gives the row of a layer that holds an annotation: that of the
// row id of a batch. data and metadata are JSON objects; an empty metadata is
// written as {}.
func AnnotationRow(batch, id string, at time.Time, data, metadata []byte) (Row, error) {
	if len(metadata) == 0 {
		metadata = []byte("{}")
	}
	for _, part := range []struct {
		name string
		raw  []byte
	}{{"data", data}, {"metadata", metadata}} {
		if classOf(part.raw) != classOther || part.raw[0] != '{' {
			return Row{}, fmt.Errorf("%q is not a JSON object", part.name)
		}
	}
	line := appendQuoted([]byte(`{"id":`), id)
	line = appendQuoted(append(line, `,"_batch":`...), batch)
	line = appendQuoted(append(line, `,"_created_at":`...), FormatTime(at))
	line = append(append(line, `,"data":`...), data...)
	line = append(append(line, `,"metadata":`...), metadata...)
	return ParseRow(append(line, '}'))
}
