package bus

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
)

// The bucket Catalog has a key for each batch that has a commit record, one for
// each live chunk, and WholeKey. Names are tokens and there are always three of
// them: the annotator's is "=" for a dataset's own rows.
const (
	batchKind = "batch"
	chunkKind = "chunk"
	// WholeKey is there once a reconciler has seen the whole bucket since the
	// catalog bucket was made: until then the catalog may lack anything.
	WholeKey = "whole"
)

// DatasetKeys is the filter of the keys of a dataset's batches, layers left out.
func DatasetKeys(name string) string {
	return batchKind + "." + dataset.Token(name) + ".*." + dataset.Token("")
}

// BatchEntry is what the catalog bucket says of a batch that has a record.
type BatchEntry struct {
	Generation    int64     `json:"generation"`
	Commit        string    `json:"commit"`
	Rows          int64     `json:"rows"`
	Bytes         int64     `json:"bytes"`
	UpdatedAt     time.Time `json:"updated_at"` // when the record was committed
	DeduplicateOn []string  `json:"deduplicate_on"`
	Deleted       bool      `json:"deleted,omitempty"`
	Spread        int64     `json:"spread,omitempty"` // bytes that a merge has to write again
}

// ChunkEntry is what the catalog bucket says of a live chunk.
type ChunkEntry struct {
	ETag  string    `json:"etag"`
	Rows  *int64    `json:"rows"` // nil where only the store told of the chunk
	Bytes int64     `json:"bytes"`
	At    time.Time `json:"at"` // when it was stored
}

func batchTokens(b dataset.BatchID) string {
	return dataset.Token(b.Dataset) + "." + dataset.Token(b.Batch) + "." + dataset.Token(b.Annotator)
}

// BatchKey is the key of a batch in the catalog bucket.
func BatchKey(b dataset.BatchID) string { return batchKind + "." + batchTokens(b) }

// ChunkKey is the key of a live chunk in the catalog bucket.
func ChunkKey(b dataset.BatchID, r dataset.Run, n int) string {
	return ChunksOf(b)[:len(ChunksOf(b))-1] + string(r) + "." + strconv.Itoa(n)
}

// ChunksOf is the filter for the keys of all live chunks of a batch.
func ChunksOf(b dataset.BatchID) string { return chunkKind + "." + batchTokens(b) + ".>" }

// BatchKeys is the filter for the keys of all batches.
const BatchKeys = batchKind + ".>"

// KeysOf are the filters for all keys of a dataset.
func KeysOf(d string) []string {
	t := "." + dataset.Token(d) + ".>"
	return []string{chunkKind + t, batchKind + t}
}

// CatalogKey is a parsed key of the catalog bucket. Run is empty for a batch.
type CatalogKey struct {
	Batch  dataset.BatchID
	Run    dataset.Run
	Number int
}

// Object is the key of the object that a catalog key stands for: a chunk or a
// commit record.
func (k CatalogKey) Object() string {
	if k.Run == "" {
		return k.Batch.CommitKey()
	}
	return k.Batch.ChunkKey(k.Run, k.Number)
}

// ParseCatalogKey reads what BatchKey and ChunkKey give.
func ParseCatalogKey(s string) (CatalogKey, error) {
	parts := strings.Split(s, ".")
	chunk := parts[0] == chunkKind && len(parts) == 6
	if !chunk && (parts[0] != batchKind || len(parts) != 4) {
		return CatalogKey{}, fmt.Errorf("%q is no key of a batch or chunk", s)
	}
	var names [3]string
	for i := range names {
		n, err := dataset.ParseToken(parts[1+i])
		if err != nil {
			return CatalogKey{}, fmt.Errorf("catalog key %q: %w", s, err)
		}
		names[i] = n
	}
	k := CatalogKey{Batch: dataset.BatchID{Dataset: names[0], Batch: names[1], Annotator: names[2]}}
	if err := k.Batch.Check(); err != nil {
		return CatalogKey{}, fmt.Errorf("catalog key %q: %w", s, err)
	}
	if !chunk {
		return k, nil
	}
	k.Run = dataset.Run(parts[4])
	if err := k.Run.Check(); err != nil {
		return CatalogKey{}, fmt.Errorf("catalog key %q: %w", s, err)
	}
	n, err := strconv.ParseUint(parts[5], 10, 30)
	if err != nil || strconv.FormatUint(n, 10) != parts[5] {
		return CatalogKey{}, fmt.Errorf("catalog key %q: bad chunk number", s)
	}
	k.Number = int(n)
	return k, nil
}
