package viewerapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/objstore/mem"
	viewerapi "github.com/siltstone-data/siltstone/viewer-api"
)

// leases are n of them, and then an error, if there is one.
type leases struct {
	n   int
	err error
}

func (l leases) Leases(context.Context) iter.Seq2[viewerapi.Lease, error] {
	return func(yield func(viewerapi.Lease, error) bool) {
		at := time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC)
		end := at.Add(time.Minute)
		for i := range l.n {
			if !yield(viewerapi.Lease{Name: fmt.Sprintf("_locks/%d", i), State: "held", Owner: "me@here", Token: 7, AcquiredAt: &at, RenewedAt: at, ExpiresAt: &end, ExpiresIn: 41.5}, nil) {
				return
			}
		}
		if l.err != nil {
			yield(viewerapi.Lease{}, l.err)
		}
	}
}

func TestLocksAreToldInABoundedAnswer(t *testing.T) {
	golden(t, "locks.json", serve(t, nil, mem.New(), viewerapi.Config{Leases: leases{n: 2}}).get("/api/locks").body)
	for _, c := range []struct {
		what         string
		leases       viewerapi.Leases
		status, rows int
		more         bool
	}{
		{"none", leases{}, http.StatusOK, 0, false},
		{"as many as fit", leases{n: 1000}, http.StatusOK, 1000, false},
		{"one more", leases{n: 1001}, http.StatusOK, 1000, true},
		{"a part is not the whole", leases{n: 3, err: errors.New("gone")}, http.StatusInternalServerError, 0, false},
		{"nobody tells of leases", nil, http.StatusNotImplemented, 0, false},
	} {
		a := serve(t, nil, mem.New(), viewerapi.Config{Leases: c.leases}).get("/api/locks")
		var out struct {
			Locks []viewerapi.Lease
			More  bool
		}
		if err := json.Unmarshal([]byte(a.body), &out); err != nil || a.status != c.status || len(out.Locks) != c.rows || out.More != c.more {
			t.Errorf("%s: %d, %d locks, more %t, %v", c.what, a.status, len(out.Locks), out.More, err)
		}
	}
}
