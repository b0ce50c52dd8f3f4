package main

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/objstore"
)

// tally is what a run has cost.
type tally struct {
	blocks, digests, records int64 // bytes written
	most                     int   // blocks at once
	files                    int   // digest files at once
	verbs                    map[string]float64
	took, cpu                []time.Duration // of each merge
}

// add counts the files that a record names and the one before did not.
func (t *tally) add(before, now catalog.Record) {
	had := before.Names()
	for _, b := range now.Blocks {
		if !had[b.File] {
			t.blocks += b.Bytes
		}
	}
	for _, d := range now.Digests {
		if !had["_digests/"+d.File] {
			t.digests += d.Bytes
		}
	}
	t.most = max(t.most, len(now.Blocks))
	t.files = max(t.files, len(now.Digests))
}

func heading() {
	fmt.Println("| ids of the new rows | merges | new blocks MB | written MB | times | blocks at most | digests MB | digest files at most | records and history MB | get | put | list | delete | first 100 ms | last 100 ms | first 100 CPU ms | last 100 CPU ms |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
}

func (t *tally) print(name string, base, end catalog.Record) {
	n := float64(len(t.took))
	mb := func(bytes int64) float64 { return float64(bytes) / 1e6 }
	fresh := end.Bytes - base.Bytes
	some := min(100, (len(t.took)+1)/2)
	fmt.Printf("| %s | %d | %.1f | %.1f | %.2f | %d | %.2f | %d | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f |\n",
		name, len(t.took), mb(fresh), mb(t.blocks), float64(t.blocks)/float64(fresh), t.most, mb(t.digests), t.files, mb(t.records),
		t.verbs[objstore.VerbGet]/n, (t.verbs[objstore.VerbPut]+t.verbs[objstore.VerbPart])/n, t.verbs[objstore.VerbList]/n, t.verbs[objstore.VerbDelete]/n,
		median(t.took[:some]), median(t.took[len(t.took)-some:]), median(t.cpu[:some]), median(t.cpu[len(t.cpu)-some:]))
}

// median in milliseconds.
func median(took []time.Duration) float64 {
	took = slices.Clone(took)
	slices.Sort(took)
	return float64(took[len(took)/2]) / 1e6
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
