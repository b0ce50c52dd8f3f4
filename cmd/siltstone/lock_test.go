package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/lockd"
)

const corpusLock = "corpus/annotations/A/.temp/.lock"

// held reads what lock ls prints.
func held(t *testing.T, dir string) []lockd.Status {
	t.Helper()
	var out []lockd.Status
	for dec := json.NewDecoder(strings.NewReader(must(t, "", "--dir", dir, "--json", "lock", "ls"))); ; {
		var st lockd.Status
		switch err := dec.Decode(&st); err {
		case nil:
			out = append(out, st)
		case io.EOF:
			return out
		default:
			t.Fatal(err)
		}
	}
}

// locksOf reads /api/locks.
func locksOf(t *testing.T, up *server) []lockd.Status {
	t.Helper()
	r, err := http.Get(up.url + "/api/locks")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var out struct{ Locks []lockd.Status }
	if err := json.NewDecoder(r.Body).Decode(&out); err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s %v", r.Status, err)
	}
	return out.Locks
}

// TestALeaseIsShownAndTakenByForce looks at the lease of an annotate that runs,
// and takes it away.
func TestALeaseIsShownAndTakenByForce(t *testing.T) {
	dir := t.TempDir()
	up := startUp(t, dir, mergeSoon...)
	corpus(t, up, 400)
	if got := held(t, dir); len(got) != 0 {
		t.Fatalf("before: %+v", got)
	}
	calls := filepath.Join(dir, "calls")
	a := annotation{dir: dir, name: "A", child: testAnnotator{Calls: calls, Says: "x", Pause: time.Second}, args: []string{"--lease", "6s", "--concurrency", "1"}}
	holder, _, errs := a.start(t)
	await(t, "it has begun", func() bool { return callsIn(t, calls) > 0 })

	got := held(t, dir)
	if len(got) != 1 || got[0].Name != corpusLock || got[0].State != lockd.Held || got[0].Owner == "" || got[0].Token < 1 || got[0].ExpiresAt == nil {
		t.Fatalf("lock ls: %+v", got)
	}
	if shown := locksOf(t, up); len(shown) != 1 || shown[0].Name != corpusLock || shown[0].Owner != got[0].Owner || shown[0].Token != got[0].Token || shown[0].ExpiresAt == nil {
		t.Errorf("/api/locks: %+v", shown)
	}
	if out := must(t, "", "--dir", dir, "lock", "ls"); !strings.Contains(out, corpusLock) || !strings.Contains(out, "held") || !strings.Contains(out, got[0].Owner) {
		t.Errorf("lock ls: %s", out)
	}
	if out := must(t, "", "--dir", dir, "lock", "show", corpusLock); !strings.Contains(out, "is held") || !strings.Contains(out, got[0].Owner) {
		t.Errorf("lock show: %s", out)
	}
	if r := finished(t, "", "--dir", dir, "lock", "release", corpusLock); r.code != exitUsage || !strings.Contains(r.stderr, "--force") {
		t.Errorf("release without force: exit %d, %s", r.code, r.stderr)
	}
	if out := must(t, "", "--dir", dir, "lock", "release", corpusLock, "--force", "--by", "the tester"); !strings.Contains(out, "the tester took it from "+got[0].Owner) {
		t.Errorf("release: %s", out)
	}
	if now := held(t, dir); len(now) != 0 {
		t.Errorf("after: %+v", now)
	}
	_ = holder.Wait()
	if code := holder.ProcessState.ExitCode(); code == 0 || !strings.Contains(errs.String(), "lost") && !strings.Contains(errs.String(), "no longer") || !strings.Contains(errs.String(), "the tester") {
		t.Errorf("the holder: exit %d, %s", code, errs)
	}
	var st lockd.Status
	if err := json.Unmarshal([]byte(must(t, "", "--dir", dir, "--json", "lock", "show", corpusLock)), &st); err != nil {
		t.Fatal(err)
	}
	if st.State != lockd.Free || len(st.Forced) != 1 || st.Forced[0].By != "the tester" || st.Forced[0].Owner != got[0].Owner || st.Forced[0].Token != got[0].Token {
		t.Errorf("what is noted: %+v", st)
	}
	if log := up.log.String(); !strings.Contains(log, "lease released by force") || !strings.Contains(log, "the tester") {
		t.Errorf("the log of lockd: %s", log)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"lock", "show", "_locks/none"}, exitFailed, "no such lease"},
		{[]string{"lock", "release", "_locks/none", "--force"}, exitFailed, "no such lease"},
		{[]string{"lock", "show", "corpus/b1/manifest.yaml"}, exitUsage, "no name of a lease"},
		{[]string{"lock", "release", "corpus/b1/manifest.yaml", "--force"}, exitUsage, "no name of a lease"},
		{[]string{"lock"}, exitUsage, "expected one of"},
	} {
		if r := finished(t, "", append([]string{"--dir", dir}, c.args...)...); r.code != c.code || !strings.Contains(r.stderr, c.says) {
			t.Errorf("%v: exit %d, %s", c.args, r.code, r.stderr)
		}
	}
	if out := finished(t, "", "--dir", dir, "doctor").stdout; !strings.Contains(out, "ok    leases") {
		t.Errorf("doctor: %s", out)
	}
}

// leaseTaker takes leases, through a lockd or in the store itself.
type leaseTaker interface {
	Acquire(ctx context.Context, name, owner string, ttl, wait time.Duration, meta json.RawMessage) (*lockd.Lease, error)
}

// TestALockdThatIsKilledLosesNoLease kills a lockd of its own while a lease is
// held through it, and goes on with the next.
func TestALockdThatIsKilledLosesNoLease(t *testing.T) {
	dir := t.TempDir()
	up := startUp(t, dir)
	direct := lockd.New(up.store(t), lockd.Config{})
	client := func(url, token string) *lockd.Client {
		c, err := lockd.NewClient(lockd.ClientConfig{URL: url, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	const name, secret, day = "_locks/nightly", "LOCKD_TOKEN=secret", 24 * time.Hour
	first := start(t, dir, []string{"serve", "lockd"}, secret)
	if _, err := client(first.url, "guess").Show(t.Context(), name); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("another token: %v", err)
	}
	a, err := client(first.url, "secret").Acquire(t.Context(), name, "a", day, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	first.stop(syscall.SIGKILL)
	next := start(t, dir, []string{"serve", "lockd"}, secret)
	c := client(next.url, "secret")
	if _, err := c.Acquire(t.Context(), name, "b", day, 0, nil); err == nil || !strings.Contains(err.Error(), "held by a") {
		t.Errorf("another: %v", err)
	}
	if _, err := c.Renew(t.Context(), name, a.Token(), day); err != nil {
		t.Errorf("the holder: %v", err)
	}
	if err := c.Release(t.Context(), name, a.Token()); err != nil {
		t.Error(err)
	}
	// Through one lockd, through another, and in the store itself, by turns.
	last := a.Token()
	cfg := up.config(t)
	other := client(cfg.LockdURL, cfg.LockdToken)
	for i, l := range []leaseTaker{direct, c, other, direct, other, c} {
		got, err := l.Acquire(t.Context(), name, "x", day, 0, nil)
		if err != nil || got.Token() <= last {
			t.Fatalf("%d: %v after %d", i, err, last)
		}
		last = got.Token()
		if err := got.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	next.stop(syscall.SIGTERM)
	if code := next.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("it ended with %d: %s", code, next.log.String())
	}
}
