package merger

import (
	"bytes"
	"strings"

	"github.com/siltstone-data/siltstone/dataset"
)

var (
	batchName  = []byte(dataset.BatchColumn)
	siltPrefix = []byte(dataset.ReservedPrefix)
	anEscape   = []byte(`\u`)
)

// reservedName is the first name of a row that only siltstone may write; the
// rows of layers have a _batch.
func reservedName(r dataset.Row, layer bool) string {
	if !bytes.Contains(r.Raw, batchName) && !bytes.Contains(r.Raw, siltPrefix) && !bytes.Contains(r.Raw, anEscape) {
		return "" // as nearly always; an escape may hide a name
	}
	for name := range r.Fields() {
		if name == dataset.BatchColumn && !layer || strings.HasPrefix(name, dataset.ReservedPrefix) {
			return name
		}
	}
	return ""
}
