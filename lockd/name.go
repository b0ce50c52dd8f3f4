package lockd

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrName says that a name is none that a lease can have.
var ErrName = errors.New("no name of a lease")

const (
	locksDir    = "_locks/"
	selfTestDir = locksDir + ".selftest/"
	maxElement  = 200 // bytes; file systems take no more than 255
	maxName     = 900 // bytes; S3 takes 1024, a prefix of the bucket included
)

// CheckName refuses what is neither "_locks/…" nor an annotator's
// "D/annotations/A/.temp/.lock". Leases are objects: any other name could be
// that of somebody's data.
func CheckName(name string) error {
	bad := func(why string) error {
		return fmt.Errorf("%w: %q: %s; it is _locks/NAME, or D/annotations/A/.temp/.lock of an annotator", ErrName, name, why)
	}
	if len(name) > maxName {
		return fmt.Errorf("%w: it has %d bytes, and at most %d are allowed", ErrName, len(name), maxName)
	}
	parts := strings.Split(name, "/")
	for _, p := range parts {
		switch {
		case p == "":
			return bad("a part of it is empty")
		case len(p) > maxElement:
			return bad(fmt.Sprintf("a part of it has more than %d bytes", maxElement))
		case !utf8.ValidString(p):
			return bad("it is no UTF-8")
		case strings.ContainsFunc(p, func(r rune) bool { return unicode.IsControl(r) || r == '\\' }):
			return bad("it has a control character or a backslash")
		}
	}
	if rest, ok := strings.CutPrefix(name, locksDir); ok {
		if rest[0] == '.' || strings.Contains(rest, "/.") {
			return bad("a part of it starts with a dot")
		}
		return nil
	}
	if isAnnotatorLock(parts) {
		return nil
	}
	return bad("it lies elsewhere")
}

func isAnnotatorLock(parts []string) bool {
	return len(parts) == 5 && parts[1] == "annotations" && parts[3] == ".temp" && parts[4] == ".lock" &&
		isPlain(parts[0]) && isPlain(parts[2])
}

// isPlain tells names of datasets and annotators from what siltstone keeps
// beside them.
func isPlain(part string) bool { return part != "" && part[0] != '_' && part[0] != '.' }

// annotatorLock is the lease of an annotator; dir ends in a slash, as does its
// dataset's.
func annotatorLock(dataset, dir string) string {
	return dataset + "annotations/" + dir + ".temp/.lock"
}
