package siltstone_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone"
	"github.com/siltstone-data/siltstone/lockd"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/producers"
)

const leaseKey = "d/annotations/A/.temp/.lock"

var silent = slog.New(slog.DiscardHandler)

// forgetful is a store that takes every write, whatever it was to depend on.
type forgetful struct{ objstore.Store }

func (f forgetful) Put(ctx context.Context, key string, body []byte, _ objstore.Condition) (objstore.Info, error) {
	return f.Store.Put(ctx, key, body, objstore.Condition{})
}

func serveLockd(t *testing.T, store objstore.Store, token string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(lockd.NewServer(lockd.New(store, lockd.Config{}), nil, lockd.ServerConfig{Token: token}, silent).Handler())
	t.Cleanup(s.Close)
	return s
}

func opened(t *testing.T, c siltstone.Config, store objstore.Store) producers.Locker {
	t.Helper()
	l, err := siltstone.OpenLocker(c, store, silent)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestALockerSpeaksToProducersWithAndWithoutLockd(t *testing.T) {
	for _, what := range []string{"direct", "lockd"} {
		t.Run(what, func(t *testing.T) {
			store := mem.New()
			var c siltstone.Config
			if what == "lockd" {
				c.LockdURL, c.LockdToken = serveLockd(t, store, "secret").URL, "secret"
			}
			l := opened(t, c, store)
			a, err := l.Acquire(t.Context(), leaseKey, "a", time.Minute, 0)
			if err != nil {
				t.Fatal(err)
			}
			var held *producers.LeaseHeldError
			if _, err := l.Acquire(t.Context(), leaseKey, "b", time.Minute, 0); !errors.As(err, &held) || held.Owner != "a" || held.Until.Before(time.Now()) {
				t.Errorf("a second: %v", err)
			}
			if _, err := siltstone.NewLocker(store, silent).Acquire(t.Context(), leaseKey, "c", time.Minute, 0); !errors.Is(err, producers.ErrLeaseHeld) {
				t.Errorf("a third, in the store itself: %v", err)
			}
			if err := a.Renew(t.Context(), time.Minute); err != nil {
				t.Error(err)
			}
			if _, err := lockd.New(store, lockd.Config{Trusted: true}).ForceRelease(t.Context(), leaseKey, "admin"); err != nil {
				t.Fatal(err)
			}
			if err := a.Renew(t.Context(), time.Minute); !errors.Is(err, producers.ErrLeaseLost) || errors.Is(err, lockd.ErrUnreachable) {
				t.Errorf("after force: %v", err)
			}
		})
	}
}

func TestALockdThatIsGoneIsNoLostLease(t *testing.T) {
	s := serveLockd(t, mem.New(), "")
	a, err := opened(t, siltstone.Config{LockdURL: s.URL}, nil).Acquire(t.Context(), leaseKey, "a", time.Second, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := a.Renew(t.Context(), time.Second); !errors.Is(err, lockd.ErrUnreachable) || errors.Is(err, producers.ErrLeaseLost) {
		t.Errorf("%v", err)
	}
}

func TestAStoreThatKeepsNoConditionsNeedsLockd(t *testing.T) {
	broken := forgetful{mem.New()}
	_, err := opened(t, siltstone.Config{}, broken).Acquire(t.Context(), leaseKey, "a", time.Minute, 0)
	if !errors.Is(err, objstore.ErrNoConditions) || !strings.Contains(err.Error(), "lockd is required") {
		t.Errorf("direct: %v", err)
	}
	c := siltstone.Config{LockdURL: serveLockd(t, mem.New(), "").URL}
	if _, err := opened(t, c, broken).Acquire(t.Context(), leaseKey, "a", time.Minute, 0); err != nil {
		t.Errorf("through the lockd of another store: %v", err)
	}
	c.LockdURL = serveLockd(t, broken, "").URL
	_, err = opened(t, c, broken).Acquire(t.Context(), leaseKey, "a", time.Minute, 0)
	if err == nil || errors.Is(err, lockd.ErrUnreachable) || !strings.Contains(err.Error(), "cannot keep leases") {
		t.Errorf("through its own lockd: %v", err)
	}
}

func TestAWrongTokenIsSaidToBeOne(t *testing.T) {
	c := siltstone.Config{LockdURL: serveLockd(t, mem.New(), "secret").URL, LockdToken: "guess"}
	if _, err := opened(t, c, nil).Acquire(t.Context(), leaseKey, "a", time.Minute, 0); !errors.Is(err, lockd.ErrDenied) {
		t.Errorf("%v", err)
	}
}

// A lockd keeps the leases of one store: it is not used for another's.
func TestTheLockdOfAnotherStoreIsNotUsed(t *testing.T) {
	from := func(m map[string]string) siltstone.Lookup {
		return func(k string) (string, bool) { v, ok := m[k]; return v, ok }
	}
	up := from(map[string]string{"S3_BUCKET": "up", "LOCKD_URL": "http://up", "LOCKD_TOKEN": "t"})
	for _, c := range []struct {
		what    string
		sources []siltstone.Lookup
		want    string
	}{
		{"one place", []siltstone.Lookup{up}, "http://up t"},
		{"the bucket is another's", []siltstone.Lookup{from(map[string]string{"S3_BUCKET": "mine"}), up}, " "},
		{"the lockd is named before the bucket", []siltstone.Lookup{from(map[string]string{"LOCKD_URL": "http://mine"}), up}, "http://mine "},
		{"an empty bucket names none", []siltstone.Lookup{from(map[string]string{"S3_BUCKET": ""}), up}, "http://up t"},
	} {
		got := siltstone.ReadConfig(c.sources...)
		if have := got.LockdURL + " " + got.LockdToken; have != c.want {
			t.Errorf("%s: %q, want %q", c.what, have, c.want)
		}
	}
}
