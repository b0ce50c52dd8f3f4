package block

import (
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

func timestampWriter(l *format.TimestampType) leafWriter {
	zone := ""
	if l.IsAdjustedToUTC {
		zone = "Z" // a local time gets no offset: nobody knows it
	}
	return func(dst []byte, v parquet.Value) ([]byte, error) {
		var t time.Time
		switch n := v.Int64(); unitOf(l.Unit) {
		case time.Millisecond:
			t = time.UnixMilli(n)
		case time.Microsecond:
			t = time.UnixMicro(n)
		default:
			t = time.Unix(0, n)
		}
		return appendTime(dst, t.UTC(), "2006-01-02T15:04:05", l.Unit, zone), nil
	}
}

// appendTime writes a time with all the digits that its unit has. A year past
// 9999 has a sign, as in ISO 8601.
func appendTime(dst []byte, t time.Time, layout string, unit format.TimeUnit, zone string) []byte {
	dst = append(dst, '"')
	if t.Year() > 9999 && layout[0] == '2' {
		dst = append(dst, '+')
	}
	switch unitOf(unit) {
	case time.Millisecond:
		layout += ".000"
	case time.Microsecond:
		layout += ".000000"
	default:
		layout += ".000000000"
	}
	dst = append(t.AppendFormat(dst, layout), zone...)
	return append(dst, '"')
}

func unitOf(u format.TimeUnit) time.Duration {
	switch u.Value.(type) {
	case *format.MilliSeconds:
		return time.Millisecond
	case *format.MicroSeconds:
		return time.Microsecond
	}
	return time.Nanosecond
}

// unitsOf is the number in a TIME, whose width depends on its unit.
func unitsOf(v parquet.Value) int64 {
	if v.Kind() == parquet.Int32 {
		return int64(v.Int32())
	}
	return v.Int64()
}

func appendDate(dst []byte, v parquet.Value) ([]byte, error) {
	t := time.Unix(int64(v.Int32())*86400, 0).UTC()
	dst = append(dst, '"')
	if t.Year() > 9999 {
		dst = append(dst, '+')
	}
	return append(t.AppendFormat(dst, time.DateOnly), '"'), nil
}

// appendInt96 writes a timestamp of the older kind: nanoseconds of the day,
// then the Julian day. By convention it is in UTC.
func appendInt96(dst []byte, i deprecated.Int96) []byte {
	nanos := int64(uint64(i[1])<<32 | uint64(i[0]))
	const unixEpoch = 2440588 // as a Julian day
	t := time.Unix((int64(i[2])-unixEpoch)*86400, nanos).UTC()
	return appendTime(dst, t, "2006-01-02T15:04:05", format.TimeUnit{}, "Z")
}
