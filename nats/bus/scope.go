package bus

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

const maxScope = 64

var (
	scopePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)
	scopePart    = regexp.MustCompile(`^[A-Za-z0-9-]+$`)
)

// Scope names one bucket and prefix inside NATS. It is legal in stream names,
// KV bucket names and subjects, differs for different places, and stays
// readable: "lake" and "lake_data_v2" for s3://lake and s3://lake/data/v2. A
// place that cannot be spelled like that gets a hash behind a double
// underscore, which no plain scope contains.
func Scope(bucket, prefix string) string {
	place := bucket
	if p := strings.Trim(prefix, "/"); p != "" {
		place += "/" + p
	}
	plain := true
	for part := range strings.SplitSeq(place, "/") {
		plain = plain && scopePart.MatchString(part)
	}
	s := strings.Map(func(r rune) rune {
		switch {
		case r == '/':
			return '_'
		case r < 128 && scopePart.MatchString(string(r)):
			return r
		}
		return '-'
	}, place)
	if plain && len(s) <= maxScope {
		return s
	}
	sum := sha256.Sum256([]byte(place))
	s = strings.Trim(s[:min(len(s), maxScope)], "_-")
	if s == "" {
		s = "bucket"
	}
	return strings.ReplaceAll(s, "__", "_") + "__" + hex.EncodeToString(sum[:5])
}

func checkScope(s string) error {
	if !scopePattern.MatchString(s) {
		return fmt.Errorf("bus: scope %q: letters, digits, - and _ are allowed, at most 80; take it from bus.Scope", s)
	}
	return nil
}
