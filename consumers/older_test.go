package consumers_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/consumers"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore"
)

func putObject(t *testing.T, s objstore.Store, key, body string) {
	t.Helper()
	if _, err := s.Put(t.Context(), key, []byte(body), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
}

// olderThings lays down what older tools leave, and gives the jobs that it calls
// for, by what they are for.
func olderThings(t *testing.T, w *world) map[string]string {
	t.Helper()
	lone := dataset.BatchID{Dataset: "d", Batch: "parquet alone"}
	both := dataset.BatchID{Dataset: "d", Batch: "with manifest"}
	lines := dataset.BatchID{Dataset: "d", Batch: "lines"}
	bare := dataset.BatchID{Dataset: "d", Batch: "bare"}
	layers := dataset.BatchID{Dataset: "d", Batch: "b", Annotator: "lang"}
	putObject(t, w.store, lone.BlockKey("merged.parquet"), "x")
	putObject(t, w.store, both.BlockKey("merged.parquet"), "x")
	putObject(t, w.store, both.CommitKey(), "rows: 1\n")
	putObject(t, w.store, lines.BlockKey("merged_00000.jsonl.gz"), "x")
	putObject(t, w.store, lines.CommitKey(), "rows: 1\n")
	putObject(t, w.store, bare.BlockKey("merged_00000.jsonl.gz"), "x")
	putObject(t, w.store, layers.BlockKey("merged.parquet"), "x")
	putObject(t, w.store, dataset.OldChunkDir("d", "lang")+"chunk_00000.jsonl", "{}\n")
	putObject(t, w.store, dataset.OldChunkDir("d", "lang")+"chunk_00001.jsonl", "{}\n")
	return map[string]string{
		"parquet alone": "convert/" + lone.String(), "with manifest": "convert/" + both.String(), "lines": "merge/" + lines.String(),
		"bare": "merge/" + bare.String(), "layer": "convert/" + layers.String(), "old chunks": "merge/d/older-chunks/lang",
	}
}

func jobsOf(scheduled []string) []string {
	out := slices.Clone(scheduled)
	slices.Sort(out)
	return slices.Compact(out)
}

func TestTheReconcilerMakesJobsOfWhatOlderToolsHaveLeft(t *testing.T) {
	for _, page := range []int{1, 3, 1000} {
		t.Run(fmt.Sprint(page), func(t *testing.T) {
			w := newWorld(t)
			// Batches of our own, whose blocks are no older tool's.
			for _, b := range []dataset.BatchID{own, layer} {
				open(t, w.store, b, "a1b2c3", catalog.RunOpen, nil)
				chunk(t, w.store, b, "a1b2c3", 0, 2)
				merge(t, w.store, b, func(catalog.Chunk) bool { return true }, nil)
			}
			var want []string
			for _, j := range olderThings(t, w) {
				want = append(want, j)
			}
			slices.Sort(want)
			l := &leader{}
			r := w.reconciler(l, consumers.ReconcilerConfig{Page: page}, nil)
			pass(t, r)
			if diff := cmp.Diff(want, jobsOf(l.asked)); diff != "" {
				t.Error(diff)
			}
			// What is on its way, or was given up, is not asked for again.
			for _, j := range want {
				job, err := bus.ParseJob(j)
				if err != nil {
					t.Fatal(err)
				}
				l.jobs = append(l.jobs, bus.JobState{Job: job, State: bus.Dead})
			}
			before := len(l.asked)
			pass(t, r)
			if n := len(l.asked); n != before {
				t.Errorf("%d more jobs: %v", n-before, l.asked[before:])
			}
		})
	}
}

func TestANotificationOfWhatAnOlderToolWritesMakesAJob(t *testing.T) {
	w := newWorld(t)
	want := olderThings(t, w)
	delete(want, "bare") // a block alone: most are our own
	r := newRig(t, "")
	r.store = w.store
	var err error
	if r.n, err = consumers.NewNormalizer(nil, r.told, r.told, w.store, consumers.NormalizerConfig{Bucket: "lake", Lag: -1}, nil, nil); err != nil {
		t.Fatal(err)
	}
	for info, err := range w.store.List(t.Context(), "d/", "") {
		if err != nil {
			t.Fatal(err)
		}
		r.handle(note(record("s3:ObjectCreated:Put", "lake", url.QueryEscape(info.Key), info.ETag)))
	}
	var jobs []string
	for _, j := range want {
		jobs = append(jobs, j)
	}
	slices.Sort(jobs)
	if diff := cmp.Diff(jobs, jobsOf(r.told.asked)); diff != "" {
		t.Error(diff)
	}
	if len(r.told.events) > 0 {
		t.Error(r.told.events)
	}
}
