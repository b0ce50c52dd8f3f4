package main

import (
	"fmt"
	"strings"
)

// count is a number of things, for people: 1 row, 2 rows.
func count[N int | int64](n N, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "ch"), strings.HasSuffix(noun, "x"):
		noun += "es"
	default:
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// are is the verb after count.
func are[N int | int64](n N) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// few names the first of many.
func few(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}
