package main

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
)

// over makes an exporter on the bucket of a server.
func over(t *testing.T, s *server) *exporter {
	t.Helper()
	e := &exporter{}
	e.app = &app{store: s.store(t), registry: prometheus.NewRegistry(), workDir: t.TempDir(), log: slog.New(slog.DiscardHandler), stdout: &e.out, stderr: &e.errs}
	return e
}

// adopted waits until batches have a commit record.
func (s *server) adopted(t *testing.T, ids ...dataset.BatchID) {
	t.Helper()
	for _, b := range ids {
		await(t, fmt.Sprintf("%s has a commit record", b), func() bool {
			h, err := catalog.ReadHead(t.Context(), s.store(t), b)
			return err == nil && h.Exists()
		})
	}
}

var olderBatches = []dataset.BatchID{
	{Dataset: "d", Batch: "parquet"}, {Dataset: "d", Batch: "lines"}, {Dataset: "d", Batch: "chunks"},
	{Dataset: "d", Batch: "lines", Annotator: "lang"}, {Dataset: "d", Batch: "chunks", Annotator: "lang"},
}

// The services find what older tools have left, whether the store tells of it or
// a listing does, and nobody gives a command.
func TestUpBringsInWhatOlderToolsHaveLeft(t *testing.T) {
	for name, notify := range map[string]string{"as the store tells": "", "by listing": "off"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			env := []string{"MERGE_QUIET=100ms", "MERGE_MAX_AGE=300ms"}
			if notify != "" {
				env = append(env, notifyEnv+"="+notify)
			}
			up := startUp(t, dir, env...)
			rows, annotations := olderDataset(t, over(t, up))
			if notify == "off" { // a reconciler that begins goes through the whole store
				up.stop(syscall.SIGKILL)
				up = startUp(t, dir, env...)
			}
			up.adopted(t, olderBatches...)
			for _, b := range olderBatches {
				up.settled(t, b)
			}
			e := over(t, up)
			await(t, "the layer has all rows", func() bool {
				h, err := catalog.ReadHead(t.Context(), e.store, olderBatches[3])
				return err == nil && h.Record.Rows == 2
			})
			e.check(t, rows, annotations)
			await(t, "the conversion is done", func() bool {
				c, err := catalog.ReadConversion(t.Context(), e.store, "d")
				return err == nil && c.State == catalog.ConversionDone && c.BatchesDone == c.BatchesTotal && c.BatchesTotal > 0
			})
			if out := must(t, "", "--dir", dir, "verify", "d"); strings.Contains(out, "PROBLEM") {
				t.Error(out)
			}
			if out := must(t, "", "--dir", dir, "events", "d", "--since", "1h"); !strings.Contains(out, `"conversion_progress"`) {
				t.Error(out)
			}
		})
	}
}

// Mergers that are killed again and again while they convert: each batch comes
// out once, whole and exact.
func TestAConversionGoesOnWhenItsMergersAreKilled(t *testing.T) {
	file := mustRead(t, "../../block/testdata/many.parquet")
	var want []string
	for line, err := range block.ParquetLines(strings.NewReader(file), int64(len(file))) {
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, string(line))
	}
	batches, kills := 20, 6
	if testing.Short() {
		batches, kills = 6, 3
	}
	t.Logf("replay with -crash-seed %d", *crashSeed)
	rnd := rand.New(rand.NewPCG(*crashSeed, 11))
	dir := t.TempDir()
	env := []string{"MERGE_QUIET=50ms", "MERGE_MAX_AGE=200ms"}
	up := startUp(t, dir, env...)
	e := over(t, up)
	var ids []dataset.BatchID
	for i := range batches {
		b := dataset.BatchID{Dataset: "d", Batch: fmt.Sprintf("b%02d", i)}
		e.lay(t, b.BlockKey("merged.parquet"), file)
		ids = append(ids, b)
	}
	for n := range kills {
		pause := time.NewTimer(time.Duration(rnd.IntN(700)) * time.Millisecond)
		if n%2 == 1 { // a command takes part, and is killed as well
			cmd := command(t, "--dir", dir, "convert", "d")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			<-pause.C
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		} else {
			<-pause.C
		}
		up.stop(syscall.SIGKILL)
		up = startUp(t, dir, env...)
	}
	r := finished(t, "", "--dir", dir, "convert", "d")
	if r.code != 0 {
		t.Fatal(r.code, r.stderr)
	}
	e = over(t, up)
	up.adopted(t, ids...)
	slices.SortFunc(want, func(a, b string) int { return strings.Compare(idOfLine(t, a), idOfLine(t, b)) })
	for _, b := range ids {
		if code := e.export(t, exportCmd{Dataset: "d", Batch: []string{b.Batch}}); code != 0 {
			t.Fatal(e.errs.String())
		}
		if got := strings.Split(strings.TrimSpace(e.out.String()), "\n"); !slices.Equal(want, got) {
			t.Fatalf("%s: %d rows, want %d: %s", b, len(got), len(want), cmp.Diff(want[:5], got[:min(5, len(got))]))
		}
	}
	must(t, "", "--dir", dir, "convert", "d") // what merges have seen to is told
	c, err := catalog.ReadConversion(t.Context(), e.store, "d")
	if err != nil || c.State != catalog.ConversionDone || len(c.Errors) > 0 {
		t.Errorf("%+v %v", c, err)
	}
	if out := must(t, "", "--dir", dir, "verify", "d"); strings.Contains(out, "PROBLEM") {
		t.Error(out)
	}
}

func idOfLine(t *testing.T, line string) string {
	t.Helper()
	r, err := dataset.ParseRow([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	return r.ID
}
