package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/nats/embedded"
	"github.com/siltstone-data/siltstone/objstore/objtest"
	"github.com/siltstone-data/siltstone/objstore/s3"
)

// TestNoRowIsLostOnMinIOWhenServicesAreKilled is the crash campaign with the
// roles as services of their own, on a store that is not our own and sends its
// own notifications to JetStream.
func TestNoRowIsLostOnMinIOWhenServicesAreKilled(t *testing.T) {
	times := *kills
	if testing.Short() {
		times = 2
	}
	dir := lakeOnMinIO(t)
	roles := []string{"consumers", "merger", "merger"}
	c := campaign{dir: dir, stream: 11, pause: time.Second}
	c.again = func(t *testing.T, i int) *server { return start(t, dir, []string{"serve", roles[i]}, mergeSoon...) }
	for i := range roles {
		c.servers = append(c.servers, c.again(t, i))
	}
	c.run(t, times)
}

// lakeOnMinIO starts NATS and MinIO, joins them, and gives a folder whose env
// file names them.
func lakeOnMinIO(t *testing.T) string {
	t.Helper()
	const bucket, password = "lake", "secret"
	log := slog.New(slog.DiscardHandler)
	nats, err := embedded.Open(t.Context(), embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", User: "siltstone", Password: password}, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nats.Close() })
	b, err := bus.Connect(t.Context(), bus.Config{Server: nats, Scope: bus.Scope(bucket, "")}, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := b.Topology(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	m := objtest.StartMinIO(t, &objtest.MinIONotify{Address: nats.Addr(), User: "siltstone", Password: password, Subject: b.NotifySubject()})
	store, err := s3.Open(t.Context(), s3.Config{Bucket: bucket, Endpoint: m.Endpoint, AccessKey: m.AccessKey, SecretKey: m.SecretKey}, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	if err := store.EnsureBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.Notify(t, bucket)
	dir := t.TempDir()
	lines := []string{
		"S3_BUCKET=" + bucket, "AWS_ENDPOINT_URL=" + m.Endpoint, "AWS_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=" + m.AccessKey, "AWS_SECRET_ACCESS_KEY=" + m.SecretKey,
		fmt.Sprintf("NATS_URL=nats://siltstone:%s@%s", password, nats.Addr()),
	}
	if err := os.WriteFile(filepath.Join(dir, "env"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
