package bus_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/siltstone-data/siltstone/nats/bus"
)

var update = flag.Bool("update", false, "write the table of nats/README.md")

func TestTheSubjectMapIsThatOfTheCode(t *testing.T) {
	const name, from, to = "../README.md", "<!-- table -->\n", "<!-- /table -->"
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := strings.Cut(string(page), from)
	have, tail, ok2 := strings.Cut(rest, to)
	if !ok1 || !ok2 {
		t.Fatal("the page has no table")
	}
	want := table(bus.Desired("S", 1))
	if *update {
		if err := os.WriteFile(name, []byte(head+from+want+to+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Fatalf("run with -update:\n%s", diff)
	}
}

func table(d bus.Assets) string {
	var b bytes.Buffer
	b.WriteString("| stream | subjects | kept | what |\n|---|---|---|---|\n")
	for _, s := range d.Streams {
		if !strings.HasPrefix(s.Name, "KV_") {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", s.Name, code(s.Subjects), kept(s), s.Description)
		}
	}
	b.WriteString("\n| KV bucket | kept | what |\n|---|---|---|\n")
	for _, s := range d.Streams {
		if name, ok := strings.CutPrefix(s.Name, "KV_"); ok {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", name, kept(s), s.Description)
		}
	}
	b.WriteString("\n| durable | stream | takes | what |\n|---|---|---|---|\n")
	for _, c := range d.Durables {
		filters := c.Config.FilterSubjects
		if c.Config.FilterSubject != "" {
			filters = []string{c.Config.FilterSubject}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c.Config.Durable, c.Stream, code(filters), c.Config.Description)
	}
	return b.String()
}

func code(s []string) string {
	s = slices.Clone(s)
	for i := range s {
		s[i] = "`" + s[i] + "`"
	}
	return strings.Join(s, ", ")
}

func kept(s jetstream.StreamConfig) string {
	var out []string
	if s.Retention == jetstream.WorkQueuePolicy {
		out = append(out, "until done")
	}
	if s.MaxMsgsPerSubject == 1 {
		out = append(out, "the newest per subject")
	}
	if s.MaxAge > 0 {
		if hours := s.MaxAge.Hours(); hours >= 24 {
			out = append(out, fmt.Sprintf("%.0f d", hours/24))
		} else {
			out = append(out, s.MaxAge.String())
		}
	}
	if s.MaxBytes > 0 {
		out = append(out, fmt.Sprintf("%d MiB", s.MaxBytes>>20))
		if s.Discard == jetstream.DiscardNew {
			out = append(out, "then refused")
		}
	}
	if s.AllowMsgSchedules {
		out = append(out, "schedules")
	}
	if s.Duplicates > 0 && !strings.HasPrefix(s.Name, "KV_") {
		out = append(out, fmt.Sprintf("one per id within %.0f min", s.Duplicates.Minutes()))
	}
	return strings.Join(out, ", ")
}

func TestTheServerConfigurationFlushesEveryMessage(t *testing.T) {
	t.Setenv("NATS_PASSWORD", "secret-of-the-test")
	opts, err := server.ProcessConfigFile("../server.conf")
	if err != nil {
		t.Fatal(err)
	}
	if !opts.JetStream || !opts.SyncAlways || opts.StoreDir != "/data" || opts.Username != "siltstone" || opts.Password != "secret-of-the-test" {
		t.Fatalf("%+v", opts)
	}
}
