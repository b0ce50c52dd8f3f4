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
	if t, ok := parseStored(text); ok {
		return t, true
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

// parseStored reads a time as FormatTime writes it, with any number of digits
// to a second up to nine: nearly all times are, and one comes with every row.
// It leaves all others, and what is no time, to the library.
func parseStored(text []byte) (time.Time, bool) {
	const seconds = len("2006-01-02T15:04:05")
	if len(text) <= seconds || len(text) > len("2006-01-02T15:04:05.000000000Z") || text[len(text)-1] != 'Z' ||
		text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':' {
		return time.Time{}, false
	}
	var n [7]int
	for i, at := range [...]int{0, 2, 5, 8, 11, 14, 17} { // the year in two halves
		a, b := text[at]-'0', text[at+1]-'0'
		if a > 9 || b > 9 {
			return time.Time{}, false
		}
		n[i] = int(a)*10 + int(b)
	}
	year, month, day := n[0]*100+n[1], time.Month(n[2]), n[3]
	nanos := 0
	if fraction := text[seconds : len(text)-1]; len(fraction) > 0 {
		if fraction[0] != '.' || len(fraction) == 1 {
			return time.Time{}, false
		}
		unit := 1_000_000_000
		for _, c := range fraction[1:] {
			if c -= '0'; c > 9 {
				return time.Time{}, false
			}
			unit /= 10
			nanos += int(c) * unit
		}
	}
	if n[4] > 23 || n[5] > 59 || n[6] > 59 {
		return time.Time{}, false
	}
	t := time.Date(year, month, day, n[4], n[5], n[6], nanos, time.UTC)
	y, m, d := t.Date()
	return t, y == year && m == month && d == day // a 30th of February is a day of March
}
