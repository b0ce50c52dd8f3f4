package viewerapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/gofiber/fiber/v3"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/query"
)

// Problem is the body of every answer that is an error (RFC 9457).
type Problem struct {
	Type   string `json:"type"` // "about:blank": the title says it all
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Nearest is the existing name that may have been meant.
	Nearest string `json:"nearest,omitempty"`
	// Request names the request in the server's log.
	Request string `json:"request,omitempty"`
}

// requestError is an error of the caller, told in full.
type requestError struct {
	status int
	detail string
}

func (e *requestError) Error() string { return e.detail }

func refuse(status int, format string, args ...any) error {
	return &requestError{status, fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) error {
	return refuse(http.StatusBadRequest, format, args...)
}

// errBusy: as much is under way as this process can carry.
var errBusy = errors.New("too many requests are under way, try again in a moment")

// statuses says what an error is to the caller: the first row that matches
// holds. Where a row has no text of its own, the error's is shown: it is about
// what the caller wrote.
var statuses = []struct {
	is     error
	status int
	detail string
}{
	{query.ErrNotFound, http.StatusNotFound, ""},
	{query.ErrCursor, http.StatusBadRequest, "the cursor is not of this dataset and order; begin without one"},
	{dataset.ErrName, http.StatusBadRequest, ""},
	{dataset.ErrFilter, http.StatusBadRequest, ""},
	{query.ErrAmbiguous, http.StatusBadRequest, ""},
	{dataset.ErrNotMerged, http.StatusConflict, ""},
	{bus.ErrNoLetter, http.StatusNotFound, "there is no dead letter of this id; it may have been tried again already"},
	{errBusy, http.StatusServiceUnavailable, errBusy.Error()},
	{errors.ErrUnsupported, http.StatusNotImplemented, "this server cannot do that yet"},
	{query.ErrDamaged, http.StatusInternalServerError, "stored data is damaged; `siltstone verify` names the object"},
	{bus.ErrTopology, http.StatusServiceUnavailable, "NATS has no streams for this store; `siltstone topology` creates them"},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, "it took too long; the store or NATS may be slow or away"},
	{context.Canceled, http.StatusServiceUnavailable, "the server is shutting down"},
}

// problemOf gives the document for an error.
func problemOf(err error) Problem {
	var (
		own    *requestError
		http5  *fiber.Error
		absent *query.NotFoundError
	)
	switch {
	case errors.As(err, &own):
		return problem(own.status, own.detail)
	case errors.As(err, &absent):
		p := problem(http.StatusNotFound, absent.Error())
		p.Nearest = absent.Nearest
		return p
	case errors.As(err, &http5):
		return problem(http5.Code, "")
	}
	for _, row := range statuses {
		if !errors.Is(err, row.is) {
			continue
		}
		if row.detail == "" {
			return problem(row.status, err.Error())
		}
		return problem(row.status, row.detail)
	}
	return problem(http.StatusInternalServerError, "something went wrong; the server's log tells more")
}

func problem(status int, detail string) Problem {
	return Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}
}

// body encodes the document.
func (p Problem) body() []byte {
	b, err := json.Marshal(p)
	if err != nil {
		return []byte(`{"type":"about:blank","status":500}`) // strings and a number always encode
	}
	return b
}

// retryAfter is the number of seconds after which a client may try again, for
// what passes by itself.
func (p Problem) retryAfter() string {
	if p.Status == http.StatusServiceUnavailable {
		return "2"
	}
	return ""
}

// fail answers with a problem. It is the one place where errors become answers.
func (s *Server) fail(c fiber.Ctx, err error) error {
	p := problemOf(err)
	if p.Status >= http.StatusInternalServerError && !errors.Is(err, errBusy) {
		p.Request = newRequestID()
		s.log.Error("a request failed", keyRequest, p.Request, keyMethod, c.Method(), keyPath, c.Path(), keyStatus, p.Status, keyErr, err)
	}
	if s.cfg.BasePath != "" && p.Status == http.StatusNotFound && p.Detail == "" {
		p.Detail = "the viewer is at " + s.cfg.BasePath + "/"
	}
	if r := p.retryAfter(); r != "" {
		c.Set(fiber.HeaderRetryAfter, r)
	}
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderContentType, "application/problem+json")
	return c.Status(p.Status).Send(p.body())
}
