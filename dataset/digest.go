package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Digest stands for a list of values: equal lists have equal digests.
type Digest [16]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// ErrNoColumns is returned for a digest of nothing, by which every row would
// be a duplicate of every other.
var ErrNoColumns = errors.New("a digest needs at least one column")

// DigestOf is the digest of the row's values in the given columns, in that
// order: the first 16 bytes of SHA-256 over the canonical form of the list. A
// missing column counts as null.
func DigestOf(r Row, columns []string) (Digest, error) {
	if len(columns) == 0 {
		return Digest{}, ErrNoColumns
	}
	s := scratches.Get().(*scratch)
	defer s.free()
	s.values = append(s.values[:0], make([][]byte, len(columns))...)
	missing := len(columns)
	err := r.fields(func(name, value []byte) bool {
		for i, c := range columns {
			if string(name) == c && s.values[i] == nil {
				s.values[i] = value
				missing--
			}
		}
		return missing > 0
	})
	if err != nil {
		return Digest{}, fmt.Errorf("digest of row %q: %w", r.ID, err)
	}
	form := append(s.form[:0], '[')
	for i, v := range s.values {
		if form, err = appendValid(form, v); err != nil {
			return Digest{}, fmt.Errorf("digest of row %q: column %q: %w", r.ID, columns[i], err)
		}
	}
	s.form = append(form, ']')
	return digest(s.form), nil
}

// ContentDigest is the digest of the whole row but _created_at. Two rows of
// one id with different content are a conflict; with equal content, one is a
// repeated write of the other.
func ContentDigest(r Row) Digest {
	s := scratches.Get().(*scratch)
	defer s.free()
	form := append(s.form[:0], '{')
	var fields []field
	var broken error
	err := r.fields(func(name, value []byte) bool {
		if string(name) == CreatedAtColumn || string(name) == IDColumn {
			return true
		}
		f := field{key: slices.Clone(name), from: len(form)}
		form = appendText(form, f.key)
		form, broken = appendValid(form, value)
		f.to = len(form)
		fields = append(fields, f)
		return broken == nil
	})
	if err != nil || broken != nil {
		return digest(r.Raw) // no row of ours: its bytes are its content
	}
	// Equal keys cannot be in a checked row; in any other they only differ.
	_ = sortFields(form, fields)
	form = append(form, '}')
	s.form = append(form, r.ID...)
	return digest(s.form)
}

// appendValid appends the form of a value that a decoder has already checked.
func appendValid(form, v []byte) ([]byte, error) {
	switch {
	case v == nil:
		return append(form, tagNull), nil
	case v[0] == '{' || v[0] == '[':
		return Canonical(form, v)
	}
	return appendScalar(form, v), nil
}

func digest(form []byte) (d Digest) {
	sum := sha256.Sum256(form)
	copy(d[:], sum[:])
	return d
}

// scratch holds the buffers of one digest.
type scratch struct {
	values [][]byte
	form   []byte
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func (s *scratch) free() {
	clear(s.values)
	if cap(s.form) <= 1<<20 { // one huge row must not cost memory for ever
		scratches.Put(s)
	}
}
