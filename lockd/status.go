package lockd

import (
	"encoding/json"
	"time"
)

// What a lease can be.
const (
	Held    = held      // somebody has it
	Expired = "expired" // somebody had it, and did not renew it: it can be taken
	Free    = free      // it was released
)

// Status describes a lease. Times are the store's.
type Status struct {
	Name       string          `json:"name"`
	State      string          `json:"state"`
	Owner      string          `json:"owner"` // who has it, or had it last
	Token      int64           `json:"token"`
	AcquiredAt *time.Time      `json:"acquired_at,omitempty"`
	RenewedAt  time.Time       `json:"renewed_at"` // when the object was written last
	ExpiresAt  *time.Time      `json:"expires_at,omitempty"`
	TTL        Seconds         `json:"ttl_s"`
	ExpiresIn  Seconds         `json:"expires_in_s"` // below 0 when it has ended
	Waiting    int             `json:"waiting"`      // on this lockd
	Meta       json.RawMessage `json:"meta,omitempty"`
	Forced     []Forced        `json:"forced,omitempty"` // who took it from whom by force, oldest first
	ForcedMore int64           `json:"forced_more,omitempty"`
}

// Left is how long the lease has, below 0 when it has ended.
func (s Status) Left() time.Duration { return time.Duration(s.ExpiresIn) }

// seen is what the store said of a lease at one moment.
type seen struct {
	name string
	rec  *record // nil: there is no object
	etag string
	at   time.Time // when the object was written, by the store's clock
	date time.Time // when the store said so, by the same clock
}

// slack is what the store's readings of its clock may be apart: they are cut to
// whole seconds, and a store is many machines.
const slack = 2 * time.Second

// ends is when the lease ends, by the store's clock; zero for one that nobody has.
func (s seen) ends() time.Time {
	if s.rec == nil || s.rec.State == free {
		return time.Time{}
	}
	return s.at.Add(time.Duration(s.rec.TTL))
}

// left is how long it has.
func (s seen) left() time.Duration {
	if s.ends().IsZero() {
		return 0
	}
	return s.ends().Sub(s.date)
}

// held is the error of one who wants it.
func (s seen) held() error {
	e := &HeldError{Name: s.name, HeldBy: "one of many others", ExpiresAt: s.ends(), In: s.left()}
	if !e.ExpiresAt.IsZero() {
		e.HeldBy = s.rec.Owner
	}
	return e
}

// takeable tells that nobody can believe to have the lease any more.
func (s seen) takeable() bool {
	return s.rec == nil || s.rec.State == free || s.date.Sub(s.ends()) >= slack
}

func (s seen) status(waiting int) Status {
	r := s.rec
	st := Status{
		Name: s.name, State: r.State, Owner: r.Owner, Token: r.Token, AcquiredAt: r.AcquiredAt, RenewedAt: s.at.UTC(),
		TTL: r.TTL, Waiting: waiting, Meta: r.Meta, Forced: r.Forced, ForcedMore: r.ForcedMore,
	}
	if r.State == free {
		st.AcquiredAt = nil
		return st
	}
	end := s.ends().UTC()
	st.ExpiresAt, st.ExpiresIn = &end, Seconds(s.left())
	if s.takeable() {
		st.State = Expired
	}
	if st.AcquiredAt == nil && r.Renewals == 0 {
		at := s.at.UTC()
		st.AcquiredAt = &at
	}
	return st
}
