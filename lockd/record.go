package lockd

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// recordVersion is the version of the objects that this package writes.
const recordVersion = 1

// record is what the object of a lease holds; docs/formats.md describes it. When
// it was written, and with that when the lease ends, the store knows.
type record struct {
	Version    int             `json:"version"`
	State      string          `json:"state"` // held or free
	Token      int64           `json:"token"`
	Owner      string          `json:"owner"` // who has it, or had it last
	TTL        Seconds         `json:"ttl_s"`
	Lease      string          `json:"lease"` // of this acquisition alone
	Write      string          `json:"write"` // of this version alone
	AcquiredAt *time.Time      `json:"acquired_at,omitempty"`
	Renewals   int64           `json:"renewals"`
	Freed      string          `json:"freed,omitempty"` // how it became free
	Meta       json.RawMessage `json:"meta,omitempty"`
	Forced     []Forced        `json:"forced,omitempty"`
	ForcedMore int64           `json:"forced_more,omitempty"` // older ones, no longer told one by one
}

const (
	held = "held"
	free = "free"

	byRelease = "release"
	byForce   = "force"
)

// keepForced is how many forced releases an object tells one by one.
const keepForced = 50

// Forced is one release by force.
type Forced struct {
	At    time.Time `json:"at"` // by the store's clock
	By    string    `json:"by"`
	Owner string    `json:"owner"` // who lost it
	Token int64     `json:"token"`
}

// next is the record of a new acquisition over this one, which is nil where
// nobody has had the lease. Its first token is taken from the clock, so that
// tokens grow even over an object that somebody has deleted.
func (r *record) next(first int64) *record {
	n := &record{Token: max(first, 1)}
	if r != nil {
		n.Token, n.Forced, n.ForcedMore = r.Token+1, r.Forced, r.ForcedMore
	}
	n.State = held
	return n
}

// encode gives the bytes of a new version. Its write id makes them unlike those
// of any other: else two versions could share an ETag, and a swap could take the
// one for the other.
func (r *record) encode() ([]byte, error) {
	r.Version, r.Write = recordVersion, rand.Text()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("encode a lease: %w", err)
	}
	return b.Bytes(), nil
}

func decodeRecord(b []byte) (*record, error) {
	alien := func(format string, args ...any) (*record, error) {
		return nil, fmt.Errorf("%w: "+format, append([]any{ErrAlien}, args...)...)
	}
	var r record
	dec := json.NewDecoder(bytes.NewReader(b))
	if err := dec.Decode(&r); err != nil {
		return alien("%w", err)
	}
	if _, err := dec.Token(); err != io.EOF { //nolint:errorlint // as documented
		return alien("something follows it")
	}
	switch {
	case r.Version > recordVersion:
		return nil, fmt.Errorf("%w: it has version %d, and this build knows %d", ErrNewer, r.Version, recordVersion)
	case r.Version < 1:
		return alien("it has no version")
	case r.State != held && r.State != free:
		return alien("its state is %q", r.State)
	case r.Token < 1:
		return alien("its token is %d", r.Token)
	case r.State == held && (r.TTL <= 0 || r.Lease == ""):
		return alien("it is held without end or without an id")
	case r.Freed == byForce && len(r.Forced) == 0:
		return alien("it was freed by force, and does not tell by whom")
	case r.Write == "":
		return alien("it has no write id")
	}
	return &r, nil
}
