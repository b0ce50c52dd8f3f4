package catalog

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// Chunk is a live chunk as a listing shows it.
type Chunk struct {
	Batch    dataset.BatchID
	Run      dataset.Run
	Number   int
	Size     int64 // bytes
	ETag     string
	Modified time.Time
}

// Key is the chunk's object key.
func (c Chunk) Key() string { return c.Batch.ChunkKey(c.Run, c.Number) }

// Name is the chunk's file name, which orders chunks within a batch.
func (c Chunk) Name() string { return c.Key()[len(c.Batch.LiveDir()):] }

// Listing is what a LIST of a batch's live folder shows: chunks and runs that
// have a manifest, each in key order.
type Listing struct {
	Chunks []Chunk
	Runs   []dataset.Run
}

// ListLive lists the live folder of a batch. It steps over the merged files
// and their subfolders, which share the folder with a dataset's own chunks.
func ListLive(ctx context.Context, s objstore.Store, b dataset.BatchID) (Listing, error) {
	var l Listing
	for info, err := range liveKeys(ctx, s, b.LiveDir()) {
		if err != nil {
			return Listing{}, fmt.Errorf("list %s: %w", b.LiveDir(), err)
		}
		switch k := dataset.ParseKey(info.Key); {
		case k.Batch != b:
		case k.Kind == dataset.KindChunk:
			l.Chunks = append(l.Chunks, Chunk{Batch: b, Run: k.Run, Number: k.Number, Size: info.Size, ETag: info.ETag, Modified: info.Modified})
		case k.Kind == dataset.KindRun:
			l.Runs = append(l.Runs, k.Run)
		}
	}
	return l, nil
}

// liveKeys gives the keys under dir whose name starts as a run id does. Run ids
// are [0-9a-f]; everything else of a batch starts with "_", which sorts between
// the digits and the letters, or with "m".
func liveKeys(ctx context.Context, s objstore.Store, dir string) iter.Seq2[objstore.Info, error] {
	ctx = objstore.ExpectFew(ctx)
	return func(yield func(objstore.Info, error) bool) {
		for _, part := range [...]struct{ after, end string }{{dir, dir + "_"}, {dir + "`", dir + "g"}} {
			for info, err := range s.List(ctx, dir, part.after) {
				if err == nil && info.Key >= part.end {
					break
				}
				if !yield(info, err) || err != nil {
					return
				}
			}
		}
	}
}

// Snapshot is a batch as a reader sees it: merged blocks and the chunks that
// they have not absorbed.
type Snapshot struct {
	Head Head
	Live []Chunk
}

// Open takes the chunk list first and the record second. The other way round,
// a chunk absorbed in between would be in neither. A batch whose record is lost
// is ErrDamaged, as of FindRecord.
func Open(ctx context.Context, s objstore.Store, b dataset.BatchID) (Snapshot, error) {
	l, err := ListLive(ctx, s, b)
	if err != nil {
		return Snapshot{}, err
	}
	h, err := FindRecord(ctx, s, b)
	if err != nil {
		return Snapshot{}, err
	}
	return Snapshot{Head: h, Live: Unabsorbed(h, l.Chunks)}, nil
}

// Unabsorbed keeps the chunks that the record has not absorbed.
func Unabsorbed(h Head, chunks []Chunk) []Chunk {
	var live []Chunk
	for _, c := range chunks {
		if !h.Record.Deleted && !h.Record.Absorbed(c) {
			live = append(live, c)
		}
	}
	return live
}
