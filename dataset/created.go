package dataset

import (
	"bytes"
	"strconv"
	"time"
)

const createdLayout = "2006-01-02T15:04:05.000000Z"

// FormatTime writes a time as siltstone stores it: RFC 3339, UTC, microseconds.
func FormatTime(t time.Time) string { return t.UTC().Format(createdLayout) }

// ParseTime reads the JSON value of a _created_at: an RFC 3339 string with any
// offset, or an integer of seconds, milliseconds or microseconds since 1970,
// told apart by size (below 1e11, 1e14 and 1e17). The result is in UTC.
func ParseTime(raw []byte) (time.Time, bool) {
	raw = bytes.Trim(raw, jsonSpace)
	if len(raw) == 0 {
		return time.Time{}, false
	}
	if raw[0] == '"' {
		return parseRFC3339(raw)
	}
	n, err := strconv.ParseInt(string(raw[:min(len(raw), 20)]), 10, 64)
	if err != nil || raw[0] == '+' || len(raw) > 20 {
		return time.Time{}, false
	}
	switch {
	case -1e11 < n && n < 1e11:
		return inYears(time.Unix(n, 0))
	case -1e14 < n && n < 1e14:
		return inYears(time.UnixMilli(n))
	case -1e17 < n && n < 1e17:
		return inYears(time.UnixMicro(n))
	}
	return time.Time{}, false
}

func parseRFC3339(raw []byte) (time.Time, bool) {
	const longest = 128 // far more digits of a second than anyone writes
	if len(raw) < 2 || len(raw) > longest || raw[len(raw)-1] != '"' {
		return time.Time{}, false
	}
	text := raw[1 : len(raw)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		text = appendUnquoted(nil, raw)
	}
	text = bytes.ToUpper(text) // the RFC allows t and z
	t, err := time.Parse(time.RFC3339, string(text))
	if err != nil || !isStrict(text) {
		return time.Time{}, false
	}
	return inYears(t)
}

// isStrict refuses what time.Parse takes beyond the RFC: a one-digit hour, a
// comma before the fraction, an offset of 24 hours or 60 minutes.
func isStrict(text []byte) bool {
	const date = len("2006-01-02T")
	if text[date+2] != ':' || bytes.IndexByte(text, ',') >= 0 {
		return false
	}
	n := len(text)
	return text[n-1] == 'Z' || string(text[n-5:n-3]) < "24" && string(text[n-2:]) < "60"
}

// inYears refuses what has no four-digit year in UTC.
func inYears(t time.Time) (time.Time, bool) {
	t = t.UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		return time.Time{}, false
	}
	return t, true
}
