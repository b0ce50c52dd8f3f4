package viewerapi

import (
	"context"
	"iter"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v3"
)

// Leases tells who has which lease.
type Leases interface {
	Leases(ctx context.Context) iter.Seq2[Lease, error]
}

// Lease is a lease that somebody has, or had and did not renew. Times are the
// store's.
type Lease struct {
	Name       string     `json:"name"`
	State      string     `json:"state"` // held or expired
	Owner      string     `json:"owner"`
	Token      int64      `json:"token"`
	AcquiredAt *time.Time `json:"acquired_at"`
	RenewedAt  time.Time  `json:"renewed_at"`
	ExpiresAt  *time.Time `json:"expires_at"`
	ExpiresIn  float64    `json:"expires_in_s"` // below 0 when it has ended
	Waiting    int        `json:"waiting"`      // on one lockd
}

// maxLocks bounds the answer, as maxJobs does.
const maxLocks = 1000

// locks answers GET /api/locks.
func (s *Server) locks(c fiber.Ctx) error {
	if _, err := values(c); err != nil {
		return err
	}
	if s.cfg.Leases == nil {
		return refuse(http.StatusNotImplemented, "this viewer is not told of leases")
	}
	ctx, leave, err := s.within(c)
	if err != nil {
		return err
	}
	defer leave()
	out := struct {
		Locks []Lease `json:"locks"`
		More  bool    `json:"more"` // there are more than were listed
	}{Locks: []Lease{}}
	for l, err := range s.cfg.Leases.Leases(ctx) {
		if err != nil {
			return err
		}
		if len(out.Locks) == maxLocks {
			out.More = true
			break
		}
		out.Locks = append(out.Locks, l)
	}
	return answer(c, out)
}
