package bus_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
)

func TestThePermissionsOfTheSubjectMapAreEnough(t *testing.T) {
	t.Parallel()
	user := func(name string, publish ...string) *server.User {
		return &server.User{Username: name, Password: "x", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: publish},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}}}}
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, JetStream: true, StoreDir: t.TempDir(),
		Users: []*server.User{
			user("all", "silt.lake.>", "$KV.>", "$JS.API.>", "$JS.ACK.>"),
			user("writer", "silt.lake.event.>", "$JS.API.INFO"),
			user("nobody", "silt.lake.event.>"),
		}})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(5 * time.Second) {
		t.Fatal("not ready")
	}
	connect := func(name string) (*bus.Bus, error) {
		return bus.Connect(t.Context(), bus.Config{URL: "nats://" + name + ":x@" + s.Addr().String(), Scope: "lake", Timing: quick}, nil, nil)
	}
	all, err := connect("all")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(all.Close)
	if _, err := all.Topology(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	m := follow(t, all.KV(bus.Catalog), ">")
	put(t, all.KV(bus.Catalog), "k", "v")
	eventually(t, "a change", m.is(map[string]string{"k": "v"}))
	var got list[string]
	background(t, func(ctx context.Context) error {
		return all.HandleEvents(ctx, bus.Cataloger, func(_ context.Context, e dataset.Event) error { got.add(e.Key); return nil })
	})
	work(t, all, bus.KindMerge, 1, func(context.Context, bus.Job) error { got.add("job"); return nil })
	enqueue(t, all, mergeDB)
	writer, err := connect("writer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(writer.Close)
	publish(t, writer, ingested("a"))
	eventually(t, "event and job", func() bool { return got.len() == 2 })
	eventually(t, "idle", idle(t, all))

	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := writer.Notify(ctx, nil); err == nil || !strings.Contains(err.Error(), "denies") {
		t.Fatalf("got %v", err)
	}
	if _, err := connect("nobody"); err == nil || !strings.Contains(strings.ToLower(err.Error()), "permissions violation") {
		t.Fatalf("got %v", err)
	}
}
