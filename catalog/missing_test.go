package catalog_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

func TestChunksOfACompletedRunAreMergedOrThereOrMissing(t *testing.T) {
	for name, c := range map[string]struct {
		state    string
		chunks   int
		there    []int
		late     []int // stored after the listing
		absorbed string
		alone    []int // absorbed before the manifest of the run was there
		want     []catalog.Missing
	}{
		"all there":             {state: catalog.RunCompleted, chunks: 2, there: []int{0, 1}},
		"all merged":            {state: catalog.RunCompleted, chunks: 3, absorbed: "0-2"},
		"some of each":          {state: catalog.RunCompleted, chunks: 4, there: []int{1}, absorbed: "0,3", alone: []int{2}},
		"came after the list":   {state: catalog.RunCompleted, chunks: 2, there: []int{0}, late: []int{1}},
		"no chunk ever":         {state: catalog.RunCompleted},
		"still open":            {state: catalog.RunOpen, chunks: 3},
		"failed, nobody knows":  {state: catalog.RunFailed, chunks: 3},
		"one is gone":           {state: catalog.RunCompleted, chunks: 3, there: []int{0, 2}, want: []catalog.Missing{{Run: "a1b2c3", First: 1, Count: 1}}},
		"gone, others merged":   {state: catalog.RunCompleted, chunks: 5, absorbed: "0-2", want: []catalog.Missing{{Run: "a1b2c3", First: 3, Count: 2}}},
		"more than anybody has": {state: catalog.RunCompleted, chunks: 1 << 40, there: []int{0}, absorbed: "1,7", want: []catalog.Missing{{Run: "a1b2c3", First: 2, Count: 1<<40 - 3}}},
		"fewer than there are":  {state: catalog.RunCompleted, chunks: 1, there: []int{0, 1}, absorbed: "2-9"},
		"fewer than nothing":    {state: catalog.RunCompleted, chunks: -1},
		"gone with the record":  {state: catalog.RunCompleted, chunks: 2, want: []catalog.Missing{{Run: "a1b2c3", Count: 2}}},
		"gone, more came later": {state: catalog.RunCompleted, chunks: 3, late: []int{2}, want: []catalog.Missing{{Run: "a1b2c3", Count: 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := mem.New()
			m := catalog.RunManifest{Version: 1, Run: "a1b2c3", Dataset: batch.Dataset, Batch: batch.Batch, State: c.state, Chunks: c.chunks}
			if err := catalog.PutRun(t.Context(), s, m); err != nil {
				t.Fatal(err)
			}
			for _, n := range c.there {
				put(t, s, batch.ChunkKey(m.Run, n), "{}\n")
			}
			l, err := catalog.ListLive(t.Context(), s, batch)
			if err != nil {
				t.Fatal(err)
			}
			if c.absorbed != "" {
				commit(t, s, "c1", func(r *catalog.Record) {
					absorbed, err := catalog.ParseRanges(c.absorbed)
					if err != nil {
						t.Fatal(err)
					}
					r.Runs = map[dataset.Run]catalog.RunState{m.Run: {State: catalog.RunCompleted, Absorbed: absorbed}}
					r.Chunks = map[string]string{}
					for _, n := range c.alone {
						r.Chunks[batch.ChunkKey(m.Run, n)[len(batch.LiveDir()):]] = "etag"
					}
				})
			}
			for _, n := range c.late {
				put(t, s, batch.ChunkKey(m.Run, n), "{}\n")
			}
			got, err := catalog.FindMissing(t.Context(), s, batch, head(t, s), l)
			if d := cmp.Diff(c.want, got); err != nil || d != "" {
				t.Fatalf("%v %s", err, d)
			}
		})
	}
}
