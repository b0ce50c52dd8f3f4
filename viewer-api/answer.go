package viewerapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v3"
)

// gzipFrom is the size from which compressing an answer is worth its time.
const gzipFrom = 2 << 10

var gzips = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	return w
}}

// answer sends a value as JSON.
func answer(c fiber.Ctx, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return sendJSON(c, b.Bytes())
}

// sendJSON sends encoded JSON, compressed where the client takes that.
func sendJSON(c fiber.Ctx, body []byte) error {
	c.Set(fiber.HeaderContentType, "application/json")
	c.Set(fiber.HeaderVary, fiber.HeaderAcceptEncoding)
	if len(body) < gzipFrom || !accepts(c.Get(fiber.HeaderAcceptEncoding), "gzip") {
		return c.Send(body)
	}
	var b bytes.Buffer
	w := gzips.Get().(*gzip.Writer) //nolint:forcetypeassert // the pool holds nothing else
	defer gzips.Put(w)
	w.Reset(&b)
	if _, err := w.Write(body); err != nil {
		return fmt.Errorf("compress the answer: %w", err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("compress the answer: %w", err)
	}
	c.Set(fiber.HeaderContentEncoding, "gzip")
	return c.Send(b.Bytes())
}

// accepts tells whether an Accept-Encoding header takes a coding.
func accepts(header, coding string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, q, _ := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(name), coding) {
			continue
		}
		q = strings.TrimPrefix(strings.ReplaceAll(q, " ", ""), "q=")
		return strings.Trim(q, "0.") != "" || q == ""
	}
	return false
}

// known is a number that may be unknown: then it is null, and not a number that
// could be taken for one.
func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// moment is a time that may be none.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// list is never null.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
