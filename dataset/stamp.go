package dataset

import (
	"bytes"
	"crypto/rand"
	"io"
	"sync"
	"time"
)

// Stamper turns users' rows into rows that can be stored: it gives an id and
// _created_at where they are missing, puts both first and keeps every other
// byte. One Stamper serves one writer, whose new ids grow strictly. It is safe
// for use from several goroutines.
type Stamper struct {
	now func() time.Time

	mu  sync.Mutex
	ids idClock
}

// StampOption changes how a Stamper works.
type StampOption func(*Stamper)

// Random sets where the random bits of new ids come from, for runs that must
// repeat. The default is crypto/rand.
func Random(r io.Reader) StampOption { return func(s *Stamper) { s.ids.random = r } }

// NewStamper makes a Stamper that takes the time from now.
func NewStamper(now func() time.Time, opts ...StampOption) *Stamper {
	s := &Stamper{now: now, ids: idClock{random: rand.Reader}}
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// Stamp checks a user's row, by the rules of ParseRow, and completes it. It
// refuses names that only siltstone writes. Line breaks between the parts of
// the object become spaces, as a row is one line. A refusal is a *RowError.
// The row does not alias line.
func (s *Stamper) Stamp(line []byte) (Row, error) {
	scanner := scanners.Get().(*Scanner)
	defer scanner.free()
	if err := scanner.read(line); err != nil {
		return Row{}, err
	}
	return s.StampScanned(scanner)
}

// StampScanned is Stamp of the line that the scanner has read last, without an
// error: it is not read again.
func (s *Stamper) StampScanned(scanner *Scanner) (Row, error) {
	line, found := scanner.walk.line, &scanner.found
	if name, at := found.reserved(false); name != "" {
		return Row{}, reservedError(name, at)
	}
	var r Row
	var err error
	if found.id.found {
		if r.ID, err = parseID(line, found.id); err != nil {
			return Row{}, err
		}
	}
	var created []byte
	if found.created.found && string(found.created.value(line)) != "null" {
		created = found.created.value(line)
		var ok bool
		if r.CreatedAt, ok = ParseTime(created); !ok {
			return Row{}, rowErrorf(found.created.from, "_created_at is %s, which is no RFC 3339 time (2006-01-02T15:04:05Z) and no "+
				"integer of seconds, milliseconds or microseconds; correct it, leave it out or rename the column", clip(created))
		}
	}
	if r.ID == "" || created == nil {
		if err := s.complete(&r, created == nil); err != nil {
			return Row{}, err
		}
	}
	r.Raw = found.stamped(line, r, created)
	if len(r.Raw) > MaxLineBytes {
		return Row{}, rowErrorf(MaxLineBytes, "longer than %d MiB with its id and _created_at", MaxLineBytes>>20)
	}
	return r, nil
}

func (s *Stamper) complete(r *Row, created bool) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if created {
		r.CreatedAt = now.UTC().Truncate(time.Microsecond)
	}
	if r.ID == "" {
		r.ID, err = s.ids.next(now)
	}
	return err
}

// stamped writes the row: id, _created_at, then every other segment between
// commas as it came.
func (found *rowScan) stamped(line []byte, r Row, created []byte) []byte {
	raw := make([]byte, 0, len(line)+len(r.ID)+96)
	raw = append(raw, `{"id":`...)
	if v := found.id.value(line); found.id.found && v[0] == '"' {
		raw = append(raw, v...)
	} else {
		raw = append(raw, '"') // digits or a UUID: nothing to escape
		raw = append(raw, r.ID...)
		raw = append(raw, '"')
	}
	raw = append(raw, `,"_created_at":`...)
	if created != nil {
		raw = append(raw, created...)
	} else {
		raw = append(raw, '"')
		raw = r.CreatedAt.AppendFormat(raw, createdLayout)
		raw = append(raw, '"')
	}
	first, second := found.id, found.created
	if first.found && second.found && second.segment < first.segment {
		first, second = second, first
	}
	at := found.open + 1
	rest := len(raw)
	for _, m := range []member{first, second} {
		if m.found {
			raw = appendSegments(raw, line[at:max(at, m.segment-1)])
			at = min(m.after+1, found.end)
		}
	}
	raw = appendSegments(raw, line[at:found.end])
	if bytes.IndexByte(line, '\n') >= 0 || bytes.IndexByte(line, '\r') >= 0 {
		for i := rest; i < len(raw); i++ {
			if raw[i] == '\n' || raw[i] == '\r' { // only ever white space: strings have escapes
				raw[i] = ' '
			}
		}
	}
	return append(raw, '}')
}

// appendSegments appends segments with the comma before them.
func appendSegments(raw, segments []byte) []byte {
	if len(bytes.Trim(segments, jsonSpace)) == 0 {
		return raw
	}
	return append(append(raw, ','), segments...)
}

func clip(b []byte) string {
	if len(b) > 60 {
		return string(b[:60]) + "…"
	}
	return string(b)
}
