package producers

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Kind is what kept a row from being annotated.
type Kind string

// The kinds of failure.
const (
	KindError     Kind = "error"     // the annotator said so
	KindPanic     Kind = "panic"     // a function did
	KindTimeout   Kind = "timeout"   // a call took too long
	KindDied      Kind = "died"      // the process ended before it answered
	KindGarbage   Kind = "garbage"   // the answer is no JSON object with data or an error
	KindOversized Kind = "oversized" // the answer is longer than a row may be
	KindInvalid   Kind = "invalid"   // the answer cannot be stored
)

// CallError says why a row was not annotated.
type CallError struct {
	Kind Kind
	Text string
}

func (e *CallError) Error() string {
	if e.Kind == KindError {
		return e.Text
	}
	return string(e.Kind) + ": " + e.Text
}

func callErrorf(k Kind, format string, args ...any) *CallError {
	return &CallError{k, fmt.Sprintf(format, args...)}
}

// Reason is why rows were not annotated, and which was the first of them.
type Reason struct {
	Kind  Kind   `json:"kind"`
	Text  string `json:"text"` // of the first; "" for those beyond the first hundred texts
	Rows  int64  `json:"rows"`
	ID    string `json:"id"`
	Batch string `json:"batch"`
}

const (
	maxReasons    = 100 // texts that are told apart
	maxReasonText = 300
)

// reasons counts failures. Texts that differ in numbers alone are one reason:
// most of them hold an offset, a status or a time.
type reasons struct {
	mu   sync.Mutex
	seen map[string]*Reason
}

func (r *reasons) add(batch, id string, err error) {
	var call *CallError
	if !errors.As(err, &call) {
		call = &CallError{KindError, err.Error()}
	}
	text := reasonText(call.Text)
	key := string(call.Kind) + "\x00" + withoutNumbers(text)
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.seen[key]
	if at == nil && len(r.seen) >= maxReasons {
		key, text = string(call.Kind), ""
		at = r.seen[key]
	}
	if at == nil {
		at = &Reason{Kind: call.Kind, Text: text, ID: id, Batch: batch}
		r.seen[key] = at
	}
	at.Rows++
}

// list gives the reasons, those of the most rows first.
func (r *reasons) list() []Reason {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []Reason{}
	for _, at := range r.seen {
		out = append(out, *at)
	}
	slices.SortFunc(out, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Text, b.Text))
	})
	return out
}

// reasonText is the first line of a text, cut where it is long.
func reasonText(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) > maxReasonText {
		cut := maxReasonText
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return strings.Clone(strings.TrimRight(s, "\r"))
}

func withoutNumbers(s string) string {
	var b strings.Builder
	last := false
	for _, c := range s {
		digit := c >= '0' && c <= '9'
		switch {
		case !digit:
			b.WriteRune(c)
		case !last:
			b.WriteByte('0')
		}
		last = digit
	}
	return b.String()
}
