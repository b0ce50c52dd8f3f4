package lockd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/siltstone-data/siltstone/objstore"
)

// What is sent to a Server.
type (
	acquireBody struct {
		Owner string          `json:"owner"`
		TTL   Seconds         `json:"ttl_s"`
		Wait  Seconds         `json:"wait_s"`
		Meta  json.RawMessage `json:"meta,omitempty"`
		// ID makes a request that is sent again, for want of an answer, the same
		// one: it gets the lease that the first one got.
		ID string `json:"id,omitempty"`
	}
	renewBody struct {
		Token int64   `json:"token"`
		TTL   Seconds `json:"ttl_s"`
	}
	releaseBody struct {
		Token int64 `json:"token"`
	}
	forceBody struct {
		By string `json:"by"`
	}
)

// grant is the answer to who has a lease now.
type grant struct {
	Name      string    `json:"name"`
	Owner     string    `json:"owner"`
	Token     int64     `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
	TTL       Seconds   `json:"ttl_s"`
	// Waited is how long after the request came the lease began: a holder may
	// count from there.
	Waited Seconds `json:"waited_s"`
}

// problem is any other answer (RFC 9457), with what there is to say of the lease.
type problem struct {
	Type      string     `json:"type"`
	Title     string     `json:"title"`
	Status    int        `json:"status"`
	Detail    string     `json:"detail"`
	Name      string     `json:"name,omitempty"`
	Owner     string     `json:"owner,omitempty"` // who asked
	Token     int64      `json:"token,omitempty"`
	HeldBy    string     `json:"held_by,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	ExpiresIn *Seconds   `json:"expires_in_s,omitempty"`
}

// statuses says what an error is to the caller: the first row that matches
// holds.
var statuses = []struct {
	is     error
	status int
}{
	{ErrHeld, http.StatusConflict},
	{ErrLost, http.StatusConflict},
	{errTooLarge, http.StatusRequestEntityTooLarge}, // before what it is a case of
	{ErrName, http.StatusBadRequest},
	{ErrInvalid, http.StatusBadRequest},
	{ErrNoLease, http.StatusNotFound},
	{ErrAlien, http.StatusUnprocessableEntity},
	{ErrNewer, http.StatusUnprocessableEntity},
	{ErrNoClock, http.StatusNotImplemented},
	{objstore.ErrNoConditions, http.StatusNotImplemented},
}

func problemOf(err error, name string) problem {
	p := problem{Type: "about:blank", Status: http.StatusServiceUnavailable, Detail: err.Error(), Name: name}
	for _, s := range statuses {
		if errors.Is(err, s.is) {
			p.Status = s.status
			break
		}
	}
	p.Title = http.StatusText(p.Status)
	var h *HeldError
	if errors.As(err, &h) {
		p.HeldBy = h.HeldBy
		if !h.ExpiresAt.IsZero() {
			at, in := h.ExpiresAt.UTC(), Seconds(h.In)
			p.ExpiresAt, p.ExpiresIn = &at, &in
		}
	}
	var lost *LostError
	if errors.As(err, &lost) {
		p.Token, p.Detail = lost.Token, lost.Why
	}
	return p
}

var errTooLarge = fmt.Errorf("%w: the body is too large", ErrInvalid)

// maxBody is the size of the largest request.
const maxBody = 64 << 10

// decodeBody reads one JSON object and nothing else, of the fields of v.
func decodeBody(r io.Reader, v any) error {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return fmt.Errorf("%w: a body has at most %d bytes", errTooLarge, large.Limit)
	}
	if err != nil {
		return invalid("the body is not what is expected: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF { //nolint:errorlint // as documented
		return invalid("something follows the body's JSON object")
	}
	return nil
}
