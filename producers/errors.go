package producers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/siltstone-data/siltstone/dataset"
)

var (
	// ErrRejected reports a value that is no row. The writer goes on without it.
	ErrRejected = errors.New("row rejected")
	// ErrOption reports options that cannot be meant, before anything is stored.
	ErrOption = errors.New("bad option")
	// ErrClosed reports a write to a writer that was closed or aborted.
	ErrClosed = errors.New("the writer is closed")
	// ErrRunTaken reports that other bytes lie under the name of a chunk: somebody
	// else writes under the same run id.
	ErrRunTaken = errors.New("somebody else writes under this run id")

	// errAborted is why the puts of an aborted writer end.
	errAborted = errors.New("the writer was aborted")
)

// UnstoredError reports that chunks could not be stored. The rows of Unstored
// are not in the dataset, or not known to be; those of Stored are.
type UnstoredError struct {
	Batch    dataset.BatchID
	Run      dataset.Run
	Stored   int64 // rows
	Unstored int64 // rows that were accepted and are not known to be stored
	Chunks   []int // the chunks that failed
	Err      error // why the first of them did
}

func (e *UnstoredError) Error() string {
	var chunks strings.Builder
	for i, n := range e.Chunks {
		if i == 8 {
			fmt.Fprintf(&chunks, " and %d more", len(e.Chunks)-i)
			break
		}
		fmt.Fprintf(&chunks, " %d", n)
	}
	failed := ""
	if len(e.Chunks) > 0 {
		failed = "; failed chunks:" + chunks.String()
	}
	return fmt.Sprintf("%s, run %s: %d rows are stored, %d are not%s: %v", e.Batch, e.Run, e.Stored, e.Unstored, failed, e.Err)
}

func (e *UnstoredError) Unwrap() error { return e.Err }

// brokenErr says what is and what is not stored, once a chunk has failed.
func (w *Writer) brokenErr() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unstored()
}

func (w *Writer) unstored() error {
	if w.failure == nil {
		return nil
	}
	return &UnstoredError{
		Batch: w.batch, Run: w.run,
		Stored: w.manifest.Rows, Unstored: w.accepted - w.manifest.Rows,
		Chunks: slices.Sorted(slices.Values(w.failed)), Err: w.failure,
	}
}
