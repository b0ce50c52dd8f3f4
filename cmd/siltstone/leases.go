package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"

	"github.com/siltstone-data/siltstone/lockd"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/s3"
	viewerapi "github.com/siltstone-data/siltstone/viewer-api"
)

// leaseBook is what commands look leases up in.
type leaseBook interface {
	List(ctx context.Context, prefix string) iter.Seq2[lockd.Status, error]
	Show(ctx context.Context, name string) (lockd.Status, error)
	ForceRelease(ctx context.Context, name, by string) (lockd.Status, error)
}

// leases gives the leases of the lockd that is configured, or those in the store.
func (a *app) leases() (leaseBook, error) {
	if a.LockdURL == "" {
		return lockd.New(a.store, lockd.Config{Log: a.log}), nil
	}
	client, err := lockd.NewClient(lockd.ClientConfig{URL: a.LockdURL, Token: a.LockdToken})
	if err != nil {
		return nil, exit(exitUsage, fmt.Errorf("LOCKD_URL: %w", err))
	}
	return client, nil
}

// lessor is the lease service of this process.
type lessor struct {
	server *lockd.Server
	door   *ops
}

// newLessor tries the store out before anybody is given a lease. One that is
// known to keep none is refused; one that does not answer is tried again at the
// first request.
func newLessor(ctx context.Context, a *app, door *ops, token string) (*lessor, error) {
	leases := lockd.New(a.store, lockd.Config{Log: a.log, Registerer: a.registry})
	switch err := leases.SelfTest(ctx); {
	case errors.Is(err, objstore.ErrNoConditions), errors.Is(err, lockd.ErrNoClock):
		return nil, exit(exitRefused, err)
	case unusable(err) && !errors.Is(err, s3.ErrUnreachable), ctx.Err() != nil:
		return nil, err
	case err != nil:
		a.log.Warn("the store could not be tried out; it will be when the first lease is asked for", "err", err)
	}
	if token == "" && !onlyHere(door.listener.Addr()) {
		a.log.Warn("anybody who reaches lockd may take and release leases; LOCKD_TOKEN lets it ask for a token", "listen", door.url())
	}
	return &lessor{lockd.NewServer(leases, door.routes(), lockd.ServerConfig{Token: token}, a.log), door}, nil
}

func onlyHere(addr net.Addr) bool {
	tcp, is := addr.(*net.TCPAddr)
	return is && tcp.IP.IsLoopback()
}

// Run serves leases until ctx ends.
func (l *lessor) Run(ctx context.Context) error { return l.server.Run(ctx, l.door.listener) }

// shownLeases tells the viewer who has what.
type shownLeases struct{ leaseBook }

// Leases gives all but those that nobody has.
func (s shownLeases) Leases(ctx context.Context) iter.Seq2[viewerapi.Lease, error] {
	return func(yield func(viewerapi.Lease, error) bool) {
		for st, err := range s.List(ctx, "") {
			if err == nil && st.State == lockd.Free {
				continue
			}
			if !yield(viewerapi.Lease{
				Name: st.Name, State: st.State, Owner: st.Owner, Token: st.Token, AcquiredAt: st.AcquiredAt, RenewedAt: st.RenewedAt,
				ExpiresAt: st.ExpiresAt, ExpiresIn: st.Left().Seconds(), Waiting: st.Waiting,
			}, err) || err != nil {
				return
			}
		}
	}
}
