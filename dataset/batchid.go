package dataset

import (
	"fmt"
	"regexp"
	"strings"
)

const annotationsDir = "annotations"

// BatchID names a batch of a dataset, or, with an annotator, the part of that
// annotator's layer that belongs to the batch. Both have chunks, a commit
// record and blocks of their own and are merged alike.
type BatchID struct {
	Dataset   string
	Batch     string
	Annotator string // empty for the dataset's own rows
}

// Check reports the first of the names that breaks a rule.
func (b BatchID) Check() error {
	if err := CheckDataset(b.Dataset); err != nil {
		return err
	}
	if err := CheckBatch(b.Batch); err != nil {
		return err
	}
	if b.Annotator != "" {
		return CheckAnnotator(b.Annotator)
	}
	return nil
}

// String is for people: D/B, or D/B/A for a layer.
func (b BatchID) String() string {
	if b.Annotator == "" {
		return b.Dataset + "/" + b.Batch
	}
	return b.Dataset + "/" + b.Batch + "/" + b.Annotator
}

// Dir is the prefix, with its final slash, of everything merged.
func (b BatchID) Dir() string {
	if b.Annotator == "" {
		return b.Dataset + "/" + b.Batch + "/"
	}
	return b.Dataset + "/" + annotationsDir + "/" + b.Annotator + "/" + b.Batch + "/"
}

// LiveDir is the prefix, with its final slash, of chunks and run manifests.
func (b BatchID) LiveDir() string {
	if b.Annotator == "" {
		return b.Dir()
	}
	return b.Dataset + "/" + annotationsDir + "/" + b.Annotator + "/.temp/" + b.Batch + "/"
}

// Run is a run id: six lower-case hex digits that name one writer's stay.
type Run string

var runPattern = regexp.MustCompile(`^[0-9a-f]{6}$`)

// Check reports whether r has the form of a run id.
func (r Run) Check() error {
	if !runPattern.MatchString(string(r)) {
		return fmt.Errorf("%w: run %q is not six lower-case hex digits", ErrName, string(r))
	}
	return nil
}

// ChunkKey is the key of the run's n-th chunk.
func (b BatchID) ChunkKey(r Run, n int) string {
	return fmt.Sprintf("%s%s_chunk_%05d.jsonl", b.LiveDir(), r, n)
}

// RunKey is the key of the run's manifest.
func (b BatchID) RunKey(r Run) string { return b.LiveDir() + string(r) + ".manifest.json" }

// CommitKey is the key of the commit record.
func (b BatchID) CommitKey() string { return b.Dir() + "manifest.yaml" }

// HistoryDir is the prefix of earlier commit records.
func (b BatchID) HistoryDir() string { return b.Dir() + "_history/" }

// HistoryKey is the key of the commit record of an earlier generation.
func (b BatchID) HistoryKey(generation int64) string {
	return fmt.Sprintf("%s%08d.yaml", b.HistoryDir(), generation)
}

// BlockFile is the name, within Dir, of the block with number n.
func BlockFile(n int) string { return fmt.Sprintf("merged_%05d.jsonl.gz", n) }

// ParquetBlockFile is the name, within Dir, of the parquet block with number n.
func ParquetBlockFile(n int) string { return fmt.Sprintf("merged_%05d.parquet", n) }

// IsParquetBlock tells from its name whether a block is a parquet file.
func IsParquetBlock(file string) bool { return strings.HasSuffix(file, ".parquet") }

// BlockKey is the key of a block or other file named in the commit record.
func (b BatchID) BlockKey(file string) string { return b.Dir() + file }

// DigestFile is the name, within DigestDir, of the digest file with number n.
func DigestFile(n int) string { return fmt.Sprintf("%05d.bin", n) }

// DigestDir is the prefix of digest files.
func (b BatchID) DigestDir() string { return b.Dir() + "_digests/" }

// DigestKey is the key of a digest file.
func (b BatchID) DigestKey(file string) string { return b.DigestDir() + file }

// RejectedKey is where the lines of a chunk that were not merged are kept;
// file is the chunk's name within LiveDir.
func (b BatchID) RejectedKey(file string) string { return b.Dir() + "_rejected/" + file }

// IndexKey is the key of the index of the block with number n. Only blocks of
// a dataset's own rows and of layers with numbers have one.
func (b BatchID) IndexKey(n int) string {
	return fmt.Sprintf("%s%05d.parquet", b.indexDir()+b.Batch+"/", n)
}

// IndexMetaKey is the key of the summary of a batch's indexes.
func (b BatchID) IndexMetaKey() string { return b.indexDir() + b.Batch + ".meta.json" }

func (b BatchID) indexDir() string {
	if b.Annotator == "" {
		return b.Dataset + "/_index/"
	}
	return b.Dataset + "/" + annotationsDir + "/" + b.Annotator + "/_index/"
}

// LayersDir is the prefix, with its final slash, of all layers of a dataset.
func LayersDir(d string) string { return d + "/" + annotationsDir + "/" }

// ParseBatchID reads the form that String gives.
func ParseBatchID(s string) (BatchID, error) {
	parts := strings.Split(s, "/")
	if len(parts) < 2 || len(parts) > 3 {
		return BatchID{}, fmt.Errorf("%w: %q is not DATASET/BATCH", ErrName, s)
	}
	b := BatchID{Dataset: parts[0], Batch: parts[1]}
	if len(parts) == 3 {
		if b.Annotator = parts[2]; b.Annotator == "" {
			return BatchID{}, nameError("annotator", "", "is empty")
		}
	}
	return b, b.Check()
}
