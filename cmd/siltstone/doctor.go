package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/siltstone-data/siltstone/lockd"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/s3"
)

type doctorCmd struct{}

// Help shows an example.
func (doctorCmd) Help() string {
	return `Writes and deletes a few small objects under _doctor/. Ends with 1 when a check fails.

Example:
  siltstone doctor`
}

// check is one thing that doctor looks at. A note is told and is no failure.
type check struct {
	Name   string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Run makes every check, also after one has failed.
func (doctorCmd) Run(ctx context.Context, a *app) error {
	d := doctor{app: a, dir: "_doctor/" + rand.Text() + "/"}
	failed := 0
	var dead error // why nothing can be asked of the store
	for _, c := range []struct {
		name  string
		store bool
		run   func(context.Context) (string, error)
	}{
		{"endpoint and credentials", true, d.list},
		{"write, read, delete", true, d.roundTrip},
		{"conditional writes", true, d.conditions},
		{"leases", true, d.leases},
		{"clock", true, d.clock},
		{"NATS and its streams", false, d.streams},
		{"notifications", true, d.notifications},
		{"disk for spill files", false, d.disk},
	} {
		var detail string
		err := dead
		if !c.store || dead == nil {
			detail, err = c.run(ctx)
		}
		if errors.Is(err, s3.ErrUnreachable) {
			dead = s3.ErrUnreachable // told once in full, and waited for once
		}
		res := check{c.name, err == nil, detail}
		mark := "ok  "
		if err != nil {
			failed++
			res.Detail, mark = a.explain(err).Error(), "FAIL"
		}
		if a.json {
			if err := a.printJSON(res); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.stdout, "%s  %-26s %s\n", mark, res.Name, res.Detail)
	}
	if failed > 0 {
		return exit(exitFailed, fmt.Errorf("%s failed", count(failed, "check")))
	}
	return nil
}

// doctor holds what the checks share: a folder of their own in the store.
type doctor struct {
	*app
	dir string
}

func (d doctor) list(ctx context.Context) (string, error) {
	for _, err := range d.store.Dirs(ctx, "") {
		if err != nil {
			return "", fmt.Errorf("list bucket %s (needs s3:ListBucket): %w", d.Bucket, err)
		}
		break
	}
	return fmt.Sprintf("bucket %s at %s", d.Bucket, d.where()), nil
}

func (d doctor) roundTrip(ctx context.Context) (string, error) {
	key := d.dir + "round trip+ü"
	if _, err := d.store.Put(ctx, key, []byte("siltstone"), objstore.Condition{}); err != nil {
		return "", fmt.Errorf("put (needs s3:PutObject): %w", err)
	}
	if b, _, err := objstore.ReadAll(ctx, d.store, key); err != nil {
		return "", fmt.Errorf("get (needs s3:GetObject): %w", err)
	} else if string(b) != "siltstone" {
		return "", fmt.Errorf("read back %q, want what was written", b)
	}
	if err := d.store.Delete(ctx, key); err != nil {
		return "", fmt.Errorf("delete (needs s3:DeleteObject): %w", err)
	}
	return "read back what was written", nil
}

// conditions tries what every commit rests on. A store that fails here would
// lose rows without a word.
func (d doctor) conditions(ctx context.Context) (string, error) {
	return "create once, compare and swap", objstore.Probe(ctx, d.store, d.dir)
}

// leases runs the self-test of leases, and asks the lockd that is configured.
func (d doctor) leases(ctx context.Context) (string, error) {
	if err := lockd.New(d.store, lockd.Config{Log: d.log}).SelfTest(ctx); err != nil {
		return "", err
	}
	if d.LockdURL == "" {
		return "taken in the store itself", nil
	}
	leases, err := d.app.leases()
	if err != nil {
		return "", err
	}
	for _, err := range leases.List(ctx, "_locks/doctor/") {
		if err != nil {
			return "", fmt.Errorf("LOCKD_URL is %s: %w", redact(d.LockdURL), err)
		}
	}
	return "of lockd at " + redact(d.LockdURL), nil
}

// clockSkew is what doctor calls wrong. Nothing correct rests on clocks, but
// _created_at and the grace periods are read from them.
const clockSkew = 30 * time.Second

func (d doctor) clock(ctx context.Context) (string, error) {
	key := d.dir + "clock"
	before := time.Now()
	if _, err := d.store.Put(ctx, key, nil, objstore.Condition{}); err != nil {
		return "", err
	}
	defer func() { _ = d.store.Delete(ctx, key) }()
	for info, err := range d.store.List(ctx, key, "") {
		if err != nil {
			return "", err
		}
		skew := info.Modified.Sub(before).Round(time.Second)
		if skew.Abs() > clockSkew {
			return "", fmt.Errorf("the store's clock is %s from this machine's", skew)
		}
		return fmt.Sprintf("within %s of the store's", clockSkew), nil
	}
	return "", errors.New("an object just written is not in the listing")
}

func (d doctor) streams(ctx context.Context) (string, error) {
	b, err := d.connect(ctx)
	if err != nil {
		return "", err
	}
	diff, err := b.Topology(ctx, false)
	if err != nil {
		return "", err
	}
	if len(diff) > 0 {
		return "", fmt.Errorf("streams differ from what this build wants; siltstone topology --dry-run shows how:\n%s", diff)
	}
	return "as this build wants them", nil
}

// notificationWait is how long doctor waits for a notification of its own put.
const notificationWait = 10 * time.Second

func (d doctor) notifications(ctx context.Context) (string, error) {
	b, err := d.connect(ctx)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, notificationWait)
	defer cancel()
	key := d.dir + "notify"
	defer func() { _ = d.store.Delete(context.WithoutCancel(ctx), key) }()
	seen, err := b.AwaitNotification(ctx, []byte("notify"), func() error {
		_, err := d.store.Put(ctx, key, nil, objstore.Condition{})
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return "", fmt.Errorf("no notification of a put came within %s: rows of writers that do not announce are found by the reconciler only", notificationWait)
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d ms after the put", seen.Milliseconds()), nil
}

// diskWanted is what a merge of many unsorted chunks may need for a while.
const diskWanted = 10e9

func (d doctor) disk(context.Context) (string, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(d.workDir, &st); err != nil {
		return "", fmt.Errorf("%s: %w", d.workDir, err)
	}
	free := int64(st.Bavail) * int64(st.Bsize)
	if free < diskWanted {
		return "", fmt.Errorf("%s has %s free; a large merge may need %s", d.workDir, size(free), size(diskWanted))
	}
	return fmt.Sprintf("%s has %s free", d.workDir, size(free)), nil
}
