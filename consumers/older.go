package consumers

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore"
)

// oldChunksBatch stands in the job that splits the older chunks of a layer, which
// have rows of many batches: the merge of any batch of a layer splits them first.
// It does not matter whether there is a batch of that name.
const oldChunksBatch = "older-chunks"

// olderJob is the job that brings in what an older tool has left under a key;
// due is false where nothing is left to be brought in. Parquet files are
// converted, which tells of its progress; all else is merged.
func olderJob(ctx context.Context, s objstore.Store, k dataset.Key) (job bus.Job, due bool, err error) {
	job = bus.Job{Kind: bus.KindMerge, Batch: k.Batch}
	if k.Kind == dataset.KindOldChunk {
		job.Batch.Batch = oldChunksBatch
		return job, true, nil
	}
	h, err := catalog.FindRecord(ctx, s, k.Batch)
	if err != nil || !h.Foreign {
		return job, false, err
	}
	prefix := k.Batch.Dir() + "merged"
	for info, err := range s.List(ctx, prefix, "") {
		if err != nil {
			return job, false, fmt.Errorf("list %s: %w", prefix, err)
		}
		f := dataset.ParseKey(info.Key)
		if f.Batch == k.Batch && strings.HasSuffix(f.File, ".parquet") {
			job.Kind = bus.KindConvert
			break
		}
	}
	return job, true, nil
}

// oldChunkJobs are the jobs for the older chunks on a page; empty ones have been
// split.
func oldChunkJobs(v view, young time.Time) map[bus.Job]bool {
	late := map[bus.Job]bool{}
	for _, info := range v.objects {
		if k := dataset.ParseKey(info.Key); k.Kind == dataset.KindOldChunk && info.Size > 0 && !info.Modified.After(young) {
			k.Batch.Batch = oldChunksBatch
			late[bus.Job{Kind: bus.KindMerge, Batch: k.Batch}] = true
		}
	}
	return late
}

// lookForOlder finds out whether merged files are an older tool's, and if so what
// is to be done. Blocks of our own are looked at once.
func (r *Reconciler) lookForOlder(ctx context.Context, d *difference) error {
	if d.older == nil {
		return nil
	}
	k := dataset.ParseKey(d.older.Key)
	job, due, err := olderJob(ctx, r.store, k)
	if damaged(err) {
		r.log.Error("a batch has lost its commit record", keyDataset, k.Batch.Dataset, keyBatch, k.Batch.Batch, keyAnnotator, k.Batch.Annotator, keyErr, err)
		return nil // and what else there is of it is compared
	}
	if err != nil {
		return err
	}
	if due {
		d.adopt = &job
		return nil
	}
	h, err := catalog.ReadHead(ctx, r.store, k.Batch)
	if err == nil && h.Exists() {
		r.settle(r.olderVersion(k, *d.older))
	}
	return err
}

// olderVersion names what has been looked at: merged.parquet in a version, the
// blocks of a batch as a whole.
func (r *Reconciler) olderVersion(k dataset.Key, info objstore.Info) uint64 {
	if k.Kind == dataset.KindLegacy {
		return r.version("legacy", info.Key, info.ETag)
	}
	return r.version("blocks", k.Batch.Dir(), "")
}
