package bus_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/siltstone-data/siltstone/nats/bus"
)

func TestTheTopologyIsMadeOnceAndThenFits(t *testing.T) {
	h := serve(t)
	b := h.connect()
	dry, err := b.Topology(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	want := bus.Desired("lake", 1)
	if len(dry) != len(want.Streams)+len(want.Durables) || dry[0].Action != bus.ActionCreate {
		t.Fatalf("a dry run on an empty server gives\n%s", dry)
	}
	if again, err := b.Topology(t.Context(), false); err != nil || len(again) != len(dry) {
		t.Fatalf("the dry run changed something: %v\n%s", err, again)
	}
	if _, err := b.Topology(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if d, err := b.Topology(t.Context(), true); err != nil || len(d) != 0 || d.String() != "nothing to change\n" {
		t.Fatalf("the second run gives %v\n%s", err, d)
	}
	h.down()
	h.up()
	eventually(t, "reconnect", b.Connected)
	if d, err := b.Topology(t.Context(), true); err != nil || len(d) != 0 {
		t.Fatalf("after a restart: %v\n%s", err, d)
	}
}

func TestTwoScopesLiveSideBySide(t *testing.T) {
	h := serve(t)
	h.join()
	h.join(func(c *bus.Config) { c.Scope = "lake_2" })
}

func TestSafeDifferencesAreUpdatedAndListed(t *testing.T) {
	h := serve(t)
	b := h.join()
	js := b.JetStream()
	name := b.StreamName(bus.Notifications)
	s, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	c.MaxAge, c.Description, c.Compression = time.Hour, "mine", jetstream.S2Compression
	c.Metadata["team"] = "blue"
	if _, err := js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	d, err := b.Topology(t.Context(), false)
	if err != nil || len(d) != 1 || d[0].Action != bus.ActionUpdate || !strings.Contains(d.String(), "max age: 1h0m0s -> 24h0m0s") {
		t.Fatalf("%v\n%s", err, d)
	}
	if _, err := b.Topology(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	s, err = js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if c := s.CachedInfo().Config; c.MaxAge != 24*time.Hour || c.Description != "mine" || c.Compression != jetstream.S2Compression || c.Metadata["team"] != "blue" {
		t.Fatalf("the update gave %+v", c)
	}
}

func TestDifferencesThatLoseDataAreRefused(t *testing.T) {
	n := func(s string) string { return "SILT_lake_" + s }
	file := jetstream.FileStorage
	cases := []struct {
		name string
		have jetstream.StreamConfig
		fill string // subject to publish two messages to
		want []string
	}{
		{"retention", jetstream.StreamConfig{Name: n("JOBS"), Subjects: []string{"silt.lake.job.>", "silt.lake.when.>"}, Storage: file, AllowMsgSchedules: true}, "",
			[]string{"stream SILT_lake_JOBS", "retention is limits, wanted workqueue", "nats stream rm"}},
		{"storage", jetstream.StreamConfig{Name: n("EVENTS"), Subjects: []string{"silt.lake.event.>"}, Storage: jetstream.MemoryStorage}, "",
			[]string{"stream SILT_lake_EVENTS", "storage is memory, wanted file"}},
		{"subjects", jetstream.StreamConfig{Name: n("EVENTS"), Subjects: []string{"silt.lake.event.>", "other.>"}, Storage: file}, "",
			[]string{"subjects", "other.>", "nats stream edit"}},
		{"a flag", jetstream.StreamConfig{Name: n("EVENTS"), Subjects: []string{"silt.lake.event.>"}, Storage: file, AllowMsgTTL: true}, "",
			[]string{"message ttl is true, wanted false", "cannot turn this off"}},
		{"a lower limit", jetstream.StreamConfig{Name: n("JOBS"), Subjects: []string{"silt.lake.job.>", "silt.lake.when.>"}, Retention: jetstream.WorkQueuePolicy, Storage: file}, "silt.lake.job.merge.d.b",
			[]string{"max messages per subject is unlimited, wanted 1", "holds 2 messages"}},
		{"a bucket in memory", jetstream.StreamConfig{Name: "KV_silt_lake_catalog", Subjects: []string{"$KV.silt_lake_catalog.>"}, Storage: jetstream.MemoryStorage}, "",
			[]string{"bucket silt_lake_catalog", "storage"}},
		{"a transform", jetstream.StreamConfig{Name: n("EVENTS"), Subjects: []string{"silt.lake.event.>"}, Storage: file,
			SubjectTransform: &jetstream.SubjectTransformConfig{Source: "silt.lake.event.>", Destination: "x.>"}}, "",
			[]string{"subject transform"}},
	}
	h := serve(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := h.connect()
			js := b.JetStream()
			if _, err := js.CreateStream(t.Context(), c.have); err != nil {
				t.Fatal(err)
			}
			defer js.DeleteStream(t.Context(), c.have.Name)
			for range 2 {
				if c.fill != "" {
					if _, err := js.Publish(t.Context(), c.fill, nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			d, err := b.Topology(t.Context(), true)
			if !errors.Is(err, bus.ErrTopology) {
				t.Fatalf("got %v", err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("the error does not say %q: %v", w, err)
				}
			}
			if !slices.ContainsFunc(d, func(c bus.Change) bool { return c.Action == bus.ActionRefuse }) {
				t.Errorf("the diff refuses nothing\n%s", d)
			}
			names := js.StreamNames(t.Context())
			for name := range names.Name() {
				if name != c.have.Name {
					t.Errorf("stream %s was made although something was refused", name)
				}
			}
		})
	}
}

func TestADurableThatCannotBeChangedIsRefused(t *testing.T) {
	h := serve(t)
	b := h.join()
	js, stream := b.JetStream(), b.StreamName(bus.Events)
	if err := js.DeleteConsumer(t.Context(), stream, bus.Planner); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateConsumer(t.Context(), stream, jetstream.ConsumerConfig{Durable: bus.Planner, DeliverPolicy: jetstream.DeliverNewPolicy, AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
		t.Fatal(err)
	}
	_, err := b.Topology(t.Context(), true)
	if !errors.Is(err, bus.ErrTopology) || !strings.Contains(err.Error(), "durable planner") || !strings.Contains(err.Error(), "deliver policy") {
		t.Fatalf("got %v", err)
	}
}

func TestAssetsOfALaterVersionAreLeftAlone(t *testing.T) {
	h := serve(t)
	b := h.join()
	js := b.JetStream()
	s, err := js.Stream(t.Context(), b.StreamName(bus.Notifications))
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	c.MaxAge, c.Metadata = time.Hour, map[string]string{"siltstone-topology": "999"}
	if _, err := js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	d, err := b.Topology(t.Context(), true)
	if err != nil || len(d) != 1 || d[0].Action != bus.ActionLeave {
		t.Fatalf("%v\n%s", err, d)
	}
	if s, _ = js.Stream(t.Context(), c.Name); s.CachedInfo().Config.MaxAge != time.Hour {
		t.Fatal("it was changed")
	}
}
