package dataset

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// MaxNameBytes is the longest name of a dataset, batch or annotator.
const MaxNameBytes = 200

// ErrName reports a name that breaks a rule; the error says which.
var ErrName = errors.New("bad name")

// ErrNotMerged is returned for reads that need merged rows of a dataset whose
// rows all still lie in live chunks.
var ErrNotMerged = errors.New("nothing of this dataset is merged yet")

// CheckDataset reports whether s can name a dataset.
func CheckDataset(s string) error { return checkName("dataset", s) }

// CheckBatch reports whether s can name a batch.
func CheckBatch(s string) error {
	if s == annotationsDir {
		return nameError("batch", s, "is reserved for layers")
	}
	return checkName("batch", s)
}

// CheckAnnotator reports whether s can name an annotator. A dot is refused
// because annotation columns are named annotator.field.
func CheckAnnotator(s string) error {
	if strings.Contains(s, ".") {
		return nameError("annotator", s, "must not contain a dot")
	}
	return checkName("annotator", s)
}

func checkName(kind, s string) error {
	switch {
	case s == "":
		return nameError(kind, s, "is empty")
	case len(s) > MaxNameBytes:
		return nameError(kind, s[:32]+"…", fmt.Sprintf("is %d bytes long, %d are allowed", len(s), MaxNameBytes))
	case !utf8.ValidString(s):
		return nameError(kind, s, "is not valid UTF-8")
	case !norm.NFC.IsNormalString(s):
		return nameError(kind, s, "is not in Unicode normal form NFC (write it as "+fmt.Sprintf("%q", norm.NFC.String(s))+")")
	case s == "." || s == "..":
		return nameError(kind, s, "is a path element")
	case strings.HasPrefix(s, "_") || strings.HasPrefix(s, "."):
		return nameError(kind, s, "must not start with _ or .")
	case strings.ContainsAny(s, `/\`):
		return nameError(kind, s, `must not contain / or \`)
	case strings.IndexFunc(s, unicode.IsControl) >= 0:
		return nameError(kind, s, "contains a control character")
	case strings.TrimSpace(s) != s:
		return nameError(kind, s, "starts or ends with a space")
	}
	return nil
}

func nameError(kind, s, rule string) error {
	return fmt.Errorf("%w: %s %q %s", ErrName, kind, s, rule)
}
